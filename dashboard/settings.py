"""The page that leads to all that can be set: each thing with one line of what it is for, for those who may change it.

Most forms are the admin's. What is set where the server starts is shown as it is now, without secrets."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings as django_settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse

from dashboard.access import request_abilities, safe_view
from dashboard.lists import filter_text
from dashboard.streams.queries import stream_row
from ingest.models import Stream
from ingest.services.roles import Ability
from ingest.services.sessions import open_publisher

STREAMS_OFFERED = 500


@dataclass(frozen=True, slots=True)
class Setting:
    title: str
    words: str
    view: str
    needs: Ability | str
    """An ability, or a permission of the admin."""


GROUPS: dict[str, tuple[Setting, ...]] = {
    "Streams": (
        Setting(
            "Applications",
            "The first part of an RTMP URL, such as live: who may publish and play, and what is recorded.",
            "admin:ingest_application_changelist",
            "ingest.view_application",
        ),
        Setting(
            "Streams",
            "When each should be live, target bitrate, whether it has audio and video, a second encoder, timeouts, "
            "and health limits of its own.",
            "admin:ingest_stream_changelist",
            "ingest.change_stream",
        ),
        Setting(
            "Stream keys",
            "What encoders publish with: made, rotated, limited, revoked.",
            "dashboard:keys",
            Ability.MANAGE_KEYS,
        ),
        Setting(
            "Encoder log-ins",
            "User and password, for encoders that know no stream keys.",
            "admin:ingest_encoderlogin_changelist",
            "ingest.change_encoderlogin",
        ),
        Setting(
            "Push targets",
            "Where streams are published as well: YouTube, Twitch, another server. Set up on a stream's page.",
            "admin:ingest_pushtarget_changelist",
            "ingest.change_pushtarget",
        ),
        Setting(
            "Pull sources",
            "Where streams are fetched from, in place of an encoder. Set up on a stream's page.",
            "admin:ingest_pullsource_changelist",
            "ingest.change_pullsource",
        ),
    ),
    "Alerts and reports": (
        Setting(
            "Alert rules, services and webhooks",
            "Who is notified of what, and when; silences; services and webhooks.",
            "dashboard:alerts",
            Ability.MANAGE_ALERTS,
        ),
        Setting(
            "Report schedules",
            "Reports by day, week or month, and who gets them by e-mail.",
            "admin:analytics_reportplan_changelist",
            "analytics.change_reportplan",
        ),
    ),
    "Users and scripts": (
        Setting(
            "Users and roles",
            "Accounts, and what each may do: give each user a role.",
            "admin:auth_user_changelist",
            "auth.change_user",
        ),
        Setting("API tokens", "Let scripts use the API.", "admin:dashboard_apitoken_changelist", Ability.MANAGE_TOKENS),
        Setting("Time zone", "The zone your pages show times in.", "dashboard:zone", Ability.VIEW),
        Setting("Your password", "Changing it logs you out everywhere else.", "dashboard:password", Ability.VIEW),
    ),
    "Further": (
        Setting(
            "Schedules",
            "When analytics, reports and clean-up run.",
            "admin:django_celery_beat_periodictask_changelist",
            "django_celery_beat.change_periodictask",
        ),
        Setting(
            "All forms and records",
            "Every table of the admin: bans, sessions, recordings, data by hour.",
            "admin:index",
            Ability.MANAGE_KEYS,
        ),
    ),
}

KEPT = {
    "KEEP_SESSIONS_DAYS": "Sessions and their events",
    "KEEP_ATTEMPTS_DAYS": "Refused connections",
    "KEEP_AUDIT_DAYS": "Audit log",
    "KEEP_HOOKS_DAYS": "Alerts and deliveries",
    "KEEP_SAMPLES_DAYS": "Samples of each second",
    "KEEP_MINUTES_DAYS": "Figures by minute",
    "KEEP_HOURS_DAYS": "Figures by hour",
    "KEEP_DAYS_DAYS": "Figures by day",
    "KEEP_REPORTS_DAYS": "Reports",
    "RECORDINGS_DAYS": "Recordings",
}
"""For how many days what is kept; its variable has RTMPWEB_ before it."""

IS_SET = {
    "EMAIL_URL": "Mail server, for alerts and reports",
    "PUBLIC_URL": "The dashboard's public address, for links in mails",
    "AUTH_URL": "Authorisation service",
}
"""What may hold a secret, or is long: whether it is set."""

VARIABLES = {"PUBLIC_URL": "RTMPWEB_URL"}
"""Of settings whose variable has another name."""


PARTS = {
    "video": "id_expect_video",
    "audio": "id_expect_audio",
    "target": "id_target_kbps",
    "checks": "health_overrides-group",
    "expected": "expected_times-group",
}
"""By what links name, where it is on the form of a stream's settings. `key` is the page of its key."""


@safe_view(Ability.MANAGE_KEYS)
def settings(request: HttpRequest) -> HttpResponse:
    """With `stream` (application/name) to the settings of that one."""
    path = filter_text(request.GET.get("stream", ""))
    if path:
        app, _, name = path.partition("/")
        if Stream.objects.filter(application__name=app, name=name).exists():
            return HttpResponseRedirect(reverse("dashboard:stream-settings", args=[app, name]))
        messages.warning(request, f"There is no stream {path}.")
    return render(
        request,
        "dashboard/settings.html",
        {
            "groups": [(name, found) for name, each in GROUPS.items() if (found := _allowed(request, each))],
            "variables": _variables(),
            "streams": Stream.objects.select_related("application")[:STREAMS_OFFERED],
        },
    )


@safe_view(Ability.MANAGE_KEYS)
def stream_settings(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """To the form, which leads back to the stream's page; `of`: one of PARTS, or `key`."""
    row, part = stream_row(app, name), request.GET.get("of", "")
    if part == "key":
        live = open_publisher(row)
        key = live.key_id if live is not None else None
        return HttpResponseRedirect(
            reverse("dashboard:key", args=[key]) if key else f"{reverse('dashboard:keys')}?q={name}"
        )
    query = QueryDict(mutable=True)
    query["next"] = reverse("dashboard:stream", args=[app, name])
    form = reverse("admin:ingest_stream_change", args=[row.pk])
    anchor = f"#{PARTS[part]}" if part in PARTS else ""
    return HttpResponseRedirect(f"{form}?{query.urlencode(safe='/')}{anchor}")


def _allowed(request: HttpRequest, entries: tuple[Setting, ...]) -> list[tuple[Setting, str]]:
    """Those that who asks may use, each with its URL."""
    abilities = request_abilities(request)
    may: Any = request.user
    return [
        (each, reverse(each.view))
        for each in entries
        if (each.needs in abilities if isinstance(each.needs, Ability) else may.has_perm(each.needs))
    ]


def _variables() -> list[tuple[str, str, str]]:
    """What it is, its value now, and its environment variable."""
    kept = {name: getattr(django_settings, name) for name in KEPT}
    rows = [(KEPT[name], f"{days:,} days" if days else "for ever", name) for name, days in kept.items()]
    rows += [(words, "set" if getattr(django_settings, name) else "not set", name) for name, words in IS_SET.items()]
    return [(words, value, VARIABLES.get(name, f"RTMPWEB_{name}")) for words, value, name in rows]
