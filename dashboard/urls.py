"""The dashboard's pages. Stream and application names may hold any character but a slash."""

from django.urls import path

from dashboard.views import analytics, attempts, login, metrics, monitor, recent, status, system, theme

app_name = "dashboard"

urlpatterns = [
    path("", monitor.wall, name="wall"),
    path("streams/<str:app>/<str:name>/", monitor.stream, name="stream"),
    path("streams/<str:app>/<str:name>/kick", monitor.kick, name="kick"),
    path("live/recent/", recent.recent, name="recent"),
    path("attempts/", attempts.attempts, name="attempts"),
    path("analytics/", analytics.analytics, name="analytics"),
    path("analytics/run", analytics.run, name="analytics-run"),
    path("analytics/progress", analytics.progress, name="analytics-progress"),
    path("analytics/rollups.csv", analytics.export, name="analytics-csv"),
    path("system/", system.system, name="system"),
    path("system/alarms", system.alarms, name="alarms"),
    path("login/", login.LoginView.as_view(), name="login"),
    path("logout/", login.logout, name="logout"),
    path("theme/", theme.theme, name="theme"),
    path("metrics", metrics.metrics, name="metrics"),
    path("healthz", status.healthz, name="healthz"),
]
