"""The dashboard's pages. Names may hold any character but a slash; one of a stream has one behind its instance."""

from django.urls import path

from dashboard import accounts, jobs, metrics, settings
from dashboard.alerts import views as alerts_views
from dashboard.attempts import views as attempts_views
from dashboard.audit import views as audit_views
from dashboard.history import views as history_views
from dashboard.keys import test_links
from dashboard.keys import views as keys_views
from dashboard.nodes import views as nodes_views
from dashboard.recordings import views as recordings_views
from dashboard.recordings import watching as recordings_watching
from dashboard.reports import views as reports_views
from dashboard.sessions import views as sessions_views
from dashboard.streams import queries as streams_queries  # noqa: F401 - registers `stream`.
from dashboard.streams import relay_views, watching
from dashboard.streams import views as streams_views
from dashboard.system import views as system_views
from dashboard.watch import views as watch_views

app_name = "dashboard"

urlpatterns = [
    path("", streams_views.wall, name="wall"),
    path("streams/<str:app>/<stream:name>/", streams_views.stream, name="stream"),
    path("streams/<str:app>/<stream:name>/preview", streams_views.preview, name="preview"),
    path("streams/<str:app>/<stream:name>/link", watching.play_link, name="play-link"),
    path("streams/<str:app>/<stream:name>/new-link", watching.new_link, name="new-link"),
    path("streams/<str:app>/<stream:name>/play-policy", watching.change_policy, name="play-policy"),
    path("streams/<str:app>/<stream:name>/kick", streams_views.kick, name="kick"),
    path("streams/<str:app>/<stream:name>/note", streams_views.note, name="note"),
    path("streams/<str:app>/<stream:name>/acknowledge", streams_views.acknowledge, name="acknowledge"),
    path("streams/<str:app>/<stream:name>/mute", streams_views.mute, name="mute"),
    path("streams/<str:app>/<stream:name>/unmute", streams_views.unmute, name="unmute"),
    path("streams/<str:app>/<stream:name>/settings", settings.stream_settings, name="stream-settings"),
    path("streams/<str:app>/<stream:name>/thumbnail.webp", streams_views.thumbnail, name="thumbnail"),
    path("streams/<str:app>/<stream:name>/push", relay_views.create_push, name="push-create"),
    path("streams/<str:app>/<stream:name>/pull", relay_views.save_pull, name="pull-save"),
    path("pushes/<int:pk>/change", relay_views.change_push, name="push-change"),
    path("pushes/<int:pk>/delete", relay_views.delete_push, name="push-delete"),
    path("pushes/<int:pk>/start", relay_views.start_push, name="push-start"),
    path("pushes/<int:pk>/stop", relay_views.stop_push, name="push-stop"),
    path("pulls/<int:pk>/delete", relay_views.delete_pull, name="pull-delete"),
    path("live/expected/", streams_views.expected, name="expected"),
    path("live/recent/", streams_views.recent, name="recent"),
    path("sessions/", sessions_views.sessions, name="sessions"),
    path("sessions/compare/", sessions_views.compare, name="sessions-compare"),
    path("sessions/export.csv", sessions_views.export, {"form": "csv"}, name="sessions-csv"),
    path("sessions/export.json", sessions_views.export, {"form": "json"}, name="sessions-json"),
    path("sessions/<uuid:pk>/", sessions_views.session, name="session"),
    path("sessions/<uuid:pk>/data", sessions_views.data, name="session-data"),
    path("sessions/<uuid:pk>/samples.csv", sessions_views.samples, name="session-samples"),
    path("sessions/<uuid:pk>/note", sessions_views.note, name="session-note"),
    path("sessions/<uuid:pk>/acknowledge", sessions_views.acknowledge, name="session-acknowledge"),
    path("attempts/", attempts_views.attempts, name="attempts"),
    path("attempts/lift", attempts_views.lift, name="attempts-lift"),
    path("keys/", keys_views.keys, name="keys"),
    path("keys/create", keys_views.create, name="key-create"),
    path("keys/<int:pk>/", keys_views.key, name="key"),
    path("keys/<int:pk>/change", keys_views.change, name="key-change"),
    path("keys/<int:pk>/rotate", keys_views.rotate, name="key-rotate"),
    path("keys/<int:pk>/revoke", keys_views.revoke, name="key-revoke"),
    path("keys/<int:pk>/enable", keys_views.enable, name="key-enable"),
    path("keys/<int:pk>/link", test_links.make, name="key-link"),
    path("t/", test_links.page, name="test-link"),
    path("t/progress", test_links.progress, name="test-link-progress"),
    path("keys/<int:pk>/test/", keys_views.waiting, name="key-test"),
    path("keys/<int:pk>/test/progress", keys_views.progress, name="key-progress"),
    path("settings/", settings.settings, name="settings"),
    path("settings/applications/create", keys_views.create_application, name="application-create"),
    path("audit/", audit_views.audit, name="audit"),
    path("audit/export", audit_views.export, name="audit-export"),
    path("recordings/", recordings_views.recordings, name="recordings"),
    path("recordings/<int:pk>/", recordings_watching.recording, name="recording"),
    path("recordings/<int:pk>/player", recordings_watching.player, name="recording-player"),
    path("recordings/<int:pk>/link", recordings_watching.link, name="recording-link"),
    path("recordings/<int:pk>/watch", recordings_watching.watch, name="recording-watch"),
    path("recordings/<int:pk>/download", recordings_views.download, name="recording-download"),
    path("recordings/<int:pk>/delete", recordings_views.delete, name="recording-delete"),
    path("analytics/", history_views.analytics, name="analytics"),
    path("analytics/run", history_views.run, name="analytics-run"),
    path("analytics/progress", history_views.progress, name="analytics-progress"),
    path("analytics/rollups.csv", history_views.export, {"form": "csv"}, name="analytics-csv"),
    path("analytics/rollups.json", history_views.export, {"form": "json"}, name="analytics-json"),
    path("analytics/compare/", history_views.compare, name="analytics-compare"),
    path("analytics/compare/export.csv", history_views.compare_file, {"form": "csv"}, name="analytics-compare-csv"),
    path("analytics/compare/export.json", history_views.compare_file, {"form": "json"}, name="analytics-compare-json"),
    path("reports/", reports_views.reports, name="reports"),
    path("reports/make", reports_views.make, name="report-make"),
    path("reports/<int:pk>/", reports_views.report, name="report"),
    path("reports/<int:pk>/send", reports_views.send, name="report-send"),
    path("reports/<int:pk>/report.<str:form>", reports_views.download, name="report-file"),
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs/retry", jobs.retry_failed, name="jobs-retry"),
    path("jobs/recompute", jobs.recompute, name="jobs-recompute"),
    path("jobs/<int:pk>/", jobs.job, name="job"),
    path("jobs/<int:pk>/retry", jobs.retry, name="job-retry"),
    path("nodes/", nodes_views.nodes, name="nodes"),
    path("nodes/<str:name>/", nodes_views.node, name="node"),
    path("nodes/<str:name>/drain", nodes_views.drain, name="node-drain"),
    path("nodes/<str:name>/resume", nodes_views.resume, name="node-resume"),
    path("nodes/<str:name>/forget", nodes_views.forget, name="node-forget"),
    path("alerts/", alerts_views.alerts, name="alerts"),
    path("alerts/rules/create", alerts_views.edit, {"kind": "rule"}, name="alert-rule-create"),
    path("alerts/rules/<int:pk>/", alerts_views.edit, {"kind": "rule"}, name="alert-rule"),
    path("alerts/rules/<int:pk>/delete", alerts_views.delete, {"kind": "rule"}, name="alert-rule-delete"),
    path("alerts/webhooks/create", alerts_views.edit, {"kind": "webhook"}, name="webhook-create"),
    path("alerts/webhooks/<int:pk>/", alerts_views.edit, {"kind": "webhook"}, name="webhook"),
    path("alerts/webhooks/<int:pk>/rotate", alerts_views.rotate_webhook, name="webhook-rotate"),
    path("alerts/webhooks/<int:pk>/test", alerts_views.test_webhook, name="webhook-test"),
    path("alerts/webhooks/<int:pk>/delete", alerts_views.delete, {"kind": "webhook"}, name="webhook-delete"),
    path("alerts/silences/create", alerts_views.silence, name="silence-create"),
    path("alerts/silences/<int:pk>/lift", alerts_views.lift, name="silence-lift"),
    path("alerts/services/create", alerts_views.choose_service, name="service-create"),
    path("alerts/services/create/<str:kind>", alerts_views.service, name="service-create-kind"),
    path("alerts/services/<int:pk>/", alerts_views.service, name="service"),
    path("alerts/services/<int:pk>/test", alerts_views.test_service, name="service-test"),
    path("alerts/services/<int:pk>/delete", alerts_views.delete_service, name="service-delete"),
    path("alerts/deliveries/", alerts_views.deliveries, name="alert-deliveries"),
    path("alerts/deliveries/<uuid:pk>/again", alerts_views.send_again, name="alert-delivery-again"),
    path("watch/<str:app>/<stream:name>", watch_views.watch, name="watch"),
    path("poster/<str:app>/<stream:name>.webp", watch_views.poster, name="poster"),
    path("system/", system_views.system, name="system"),
    path("system/alarms", system_views.alarms, name="alarms"),
    path("login/", accounts.LoginView.as_view(), name="login"),
    path("password/", accounts.PasswordView.as_view(), name="password"),
    path("logout/", accounts.logout, name="logout"),
    path("theme/", accounts.theme, name="theme"),
    path("zone/", accounts.zone, name="zone"),
    path("metrics", metrics.metrics, name="metrics"),
    path("healthz", system_views.healthz, name="healthz"),
]
