"""Every role against every page, every call of the API, every WebSocket and the admin; no URL is left out.

`ROWS` has a row for each: what is asked, and whom it takes. A new URL without a row fails a test of this file, whose
message says what to write.
"""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, NamedTuple

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, get_resolver, resolve

from analytics.reports import subprocess_jobs
from dashboard import access, consumers
from ingest.services import roles
from tests.dashboard.conftest import PASSWORD, client_of, make_user
from tests.dashboard.demo_data import seed_demo_data
from tests.dashboard.sockets import socket

ROLES = ("viewer", "operator", "key manager", "analyst", "admin")
EVERYBODY = frozenset({*ROLES, "superuser"})

MAY = {
    "view": EVERYBODY,
    "kick": {"operator", "admin", "superuser"},
    "note": {"operator", "admin", "superuser"},
    "push": {"operator", "key manager", "admin", "superuser"},
    "drain": {"admin", "superuser"},
    "lift_bans": {"operator", "key manager", "admin", "superuser"},
    "share": {"operator", "key manager", "admin", "superuser"},
    "manage_keys": {"key manager", "admin", "superuser"},
    "manage_streams": {"admin", "superuser"},
    "run_analytics": {"analyst", "admin", "superuser"},
    "delete_recordings": {"operator", "admin", "superuser"},
    "see_audit": {"admin", "superuser"},
    "manage_alerts": {"admin", "superuser"},
    "manage_tokens": {"admin", "superuser"},
    "log in": {*EVERYBODY, "no role"},
    "nothing": {*EVERYBODY, "no role", "anonymous"},
}
"""{what a row of the table takes: who has it}. "log in": an account is enough. "nothing": anybody."""

VISITORS = ("anonymous", "no role", *ROLES, "superuser")


class Write(NamedTuple):
    """What changes something."""

    needs: str
    leaves: str
    """The entry of the audit log (`test_audit`)."""
    sent: dict[str, Any] = {}
    also: tuple[str, ...] = ()
    """Entries of what is made with it."""


ROWS: dict[str, str | Write] = {
    # Pages
    "GET /": "view",
    "GET /streams/live/cam-1/": "view",
    "GET /streams/live/cam-1/thumbnail.webp": "view",
    "POST /streams/live/cam-1/kick": Write("kick", "session.kick", {"note": "Too loud"}),
    "POST /streams/live/cam-1/preview": "view",
    "POST /streams/live/cam-1/link": Write("share", "play_token.create", {"hours": "1"}),
    "POST /streams/live/cam-1/new-link": Write("share", "play_token.replace"),
    "POST /streams/live/cam-1/play-policy": Write("manage_keys", "stream.play_policy", {"play_policy": "none"}),
    "POST /streams/live/cam-1/note": Write("note", "session.note", {"note": "Called the venue"}),
    "POST /streams/live/cam-1/acknowledge": Write("note", "issue.acknowledge", {"check": "starving"}),
    "POST /streams/live/cam-1/mute": Write("note", "stream.mute", {"length": "30"}),
    "POST /streams/live/cam-1/unmute": Write("note", "stream.unmute"),
    "GET /streams/live/cam-1/settings": "manage_keys",
    "POST /streams/live/cam-1/push": Write(
        "manage_keys",
        "push_target.create",
        {"label": "Facebook", "url": "rtmps://live.example.org/rtmp", "key": "FB-1"},
    ),
    "POST /pushes/{push}/change": Write(
        "manage_keys",
        "push_target.change",
        {"label": "YouTube 2", "url": "rtmps://a.rtmps.example.org/live2", "starts": "hand"},
    ),
    "POST /pushes/{push}/delete": Write("manage_keys", "push_target.delete"),
    "POST /pushes/{push}/start": Write("push", "push_target.start"),
    "POST /pushes/{push}/stop": Write("push", "push_target.stop"),
    "POST /streams/live/cam-1/pull": Write("manage_keys", "pull_source.change", {"when": "always"}),
    "POST /pulls/{pull}/delete": Write("manage_keys", "pull_source.delete"),
    "GET /live/expected/": "view",
    "GET /live/recent/": "view",
    "GET /sessions/": "view",
    "GET /sessions/compare/?a={session}&b={again}": "view",
    "GET /sessions/export.csv": "view",
    "GET /sessions/export.json": "view",
    "GET /sessions/{session}/": "view",
    "GET /sessions/{session}/data": "view",
    "GET /sessions/{session}/samples.csv": "view",
    "POST /sessions/{session}/note": "note",
    "POST /sessions/{session}/acknowledge": "note",
    "GET /attempts/": "view",
    "POST /attempts/lift": Write("lift_bans", "ban.lift", {"address": "192.0.2.9"}),
    "GET /recordings/": "view",
    "GET /recordings/{recording}/": "view",
    "POST /recordings/{recording}/player": Write("view", "recording.watch"),
    "POST /recordings/{recording}/link": Write("share", "recording_token.create", {"hours": "24"}),
    "GET /recordings/{recording}/watch?token={play_token}": "nothing",
    "GET /recordings/{recording}/download": "view",
    "POST /recordings/{recording}/delete": Write("delete_recordings", "recording.delete", {"note": "asked for"}),
    "GET /keys/": "manage_keys",
    "POST /keys/create": Write("manage_keys", "key.create", {"stream": "live/cam-1"}),
    "GET /keys/{key}/": "manage_keys",
    "POST /keys/{key}/change": Write("manage_keys", "key.change", {"label": "rack"}),
    "POST /keys/{key}/rotate": Write("manage_keys", "key.rotate", {"grace": "1h"}),
    "POST /keys/{key}/revoke": Write("manage_keys", "key.revoke"),
    "POST /keys/{key}/enable": Write("manage_keys", "key.disable", {"enabled": "0"}),
    "POST /keys/{key}/link": Write("manage_keys", "test_link.create", {"lifetime": "24h"}),
    "GET /t/": "nothing",
    "GET /t/progress": "nothing",
    "GET /keys/{key}/test/": "manage_keys",
    "GET /keys/{key}/test/progress": "manage_keys",
    "GET /settings/": "manage_keys",
    "POST /settings/applications/create": Write(
        "manage_streams",
        "application.create",
        {"application": "tv", "stream": "cam-1", "play_policy": "public", "record": "none"},
        ("stream.create", "key.create"),
    ),
    "GET /audit/": "see_audit",
    "GET /audit/export": "see_audit",
    "GET /analytics/": "view",
    "POST /analytics/run": Write("run_analytics", "analytics.run"),
    "GET /analytics/progress": "view",
    "GET /analytics/rollups.csv": "view",
    "GET /analytics/rollups.json": "view",
    "GET /analytics/compare/?pick=live/cam-1": "view",
    "GET /analytics/compare/export.csv": "view",
    "GET /analytics/compare/export.json": "view",
    "GET /reports/": "view",
    "POST /reports/make": Write(
        "run_analytics", "report.make", {"kind": "daily", "day": "2026-11-14", "time_zone": "Europe/Berlin"}
    ),
    "GET /reports/{report}/": "view",
    "GET /reports/{report}/report.csv": "view",
    "GET /reports/{report}/report.pdf": "view",
    "POST /reports/{report}/send": Write("run_analytics", "report.send", {"recipients": "ops@example.org"}),
    "GET /jobs/": "view",
    "POST /jobs/retry": Write("run_analytics", "analytics.retry"),
    "POST /jobs/recompute": "run_analytics",
    "GET /jobs/{run}/": "view",
    "POST /jobs/{run}/retry": Write("run_analytics", "analytics.retry"),
    "GET /nodes/": "view",
    "GET /nodes/n1/": "view",
    "POST /nodes/n1/drain": Write("drain", "node.drain", {"grace": "60"}),
    "POST /nodes/n1/resume": Write("drain", "node.resume"),
    "POST /nodes/n1/forget": Write("drain", "node.forget"),
    "GET /alerts/": "view",
    "GET /alerts/rules/create": "manage_alerts",
    "POST /alerts/rules/create": "manage_alerts",
    "GET /alerts/rules/{rule}/": "manage_alerts",
    "POST /alerts/rules/{rule}/": "manage_alerts",
    "POST /alerts/rules/{rule}/delete": "manage_alerts",
    "GET /alerts/webhooks/create": "manage_alerts",
    "POST /alerts/webhooks/create": "manage_alerts",
    "GET /alerts/webhooks/{webhook}/": "manage_alerts",
    "POST /alerts/webhooks/{webhook}/": "manage_alerts",
    "POST /alerts/webhooks/{webhook}/rotate": "manage_alerts",
    "POST /alerts/webhooks/{webhook}/test": "manage_alerts",
    "POST /alerts/webhooks/{webhook}/delete": "manage_alerts",
    "POST /alerts/silences/create": Write("note", "alerts.mute", {"of": "*", "length": "30"}),
    "POST /alerts/silences/{silence}/lift": Write("note", "application.unmute"),
    "GET /alerts/services/create": "manage_alerts",
    "GET /alerts/services/create/slack": "manage_alerts",
    "POST /alerts/services/create/slack": "manage_alerts",
    "GET /alerts/services/{service}/": "manage_alerts",
    "POST /alerts/services/{service}/": "manage_alerts",
    "POST /alerts/services/{service}/test": "manage_alerts",
    "POST /alerts/services/{service}/delete": "manage_alerts",
    "GET /alerts/deliveries/": "view",
    "POST /alerts/deliveries/{delivery}/again": "manage_alerts",
    "GET /watch/live/cam-1": "nothing",
    "GET /poster/live/cam-1.webp": "nothing",
    "GET /system/": "view",
    "GET /system/alarms": "view",
    "GET /metrics": "view",
    "GET /login/": "nothing",
    "POST /login/": Write("nothing", "login", {"username": "boss", "password": PASSWORD}),
    "GET /password/": "log in",
    "POST /password/": Write(
        "log in",
        "password.change",
        {"old_password": PASSWORD, "new_password1": "another-staple", "new_password2": "another-staple"},
    ),
    "POST /logout/": Write("nothing", "logout"),
    "POST /theme/": "nothing",
    "GET /zone/": "log in",
    "POST /zone/": "log in",
    "GET /healthz": "nothing",
    # The API
    "GET /api/v1/openapi.json": "view",
    "GET /api/v1/docs": "view",
    "GET /api/v1/streams": "view",
    "GET /api/v1/streams/live/cam-1": "view",
    "PATCH /api/v1/streams/live/cam-1": Write("manage_keys", "stream.play_policy", {"play_policy": "none"}),
    "DELETE /api/v1/streams/live/cam-1?force=true": Write("manage_streams", "stream.delete"),
    "POST /api/v1/streams/live/cam-1/kick": Write("kick", "session.kick", {"note": "Too loud"}),
    "POST /api/v1/streams/live/cam-1/notes": Write("note", "session.note", {"note": "Called the venue"}),
    "POST /api/v1/streams/live/cam-1/acknowledge": Write("note", "issue.acknowledge", {"check": "starving"}),
    "GET /api/v1/streams/live/cam-1/mute": "view",
    "POST /api/v1/streams/live/cam-1/mute": Write("note", "stream.mute", {"hours": 1}),
    "DELETE /api/v1/streams/live/cam-1/mute": Write("note", "stream.unmute"),
    "GET /api/v1/streams/live/cam-1/pushes": "view",
    "POST /api/v1/streams/live/cam-1/pushes": Write(
        "manage_keys", "push_target.create", {"label": "Facebook", "url": "rtmps://live.example.org/rtmp/FB-1"}
    ),
    "GET /api/v1/streams/live/cam-1/pushes/{push}": "view",
    "PATCH /api/v1/streams/live/cam-1/pushes/{push}": Write("manage_keys", "push_target.change", {"starts": "hand"}),
    "DELETE /api/v1/streams/live/cam-1/pushes/{push}": Write("manage_keys", "push_target.delete"),
    "POST /api/v1/streams/live/cam-1/pushes/{push}/start": Write("push", "push_target.start"),
    "POST /api/v1/streams/live/cam-1/pushes/{push}/stop": Write("push", "push_target.stop"),
    "GET /api/v1/streams/live/cam-1/pull": "view",
    "PUT /api/v1/streams/live/cam-1/pull": Write("manage_keys", "pull_source.change", {"when": "always"}),
    "DELETE /api/v1/streams/live/cam-1/pull": Write("manage_keys", "pull_source.delete"),
    "GET /api/v1/silences": "view",
    "POST /api/v1/silences": Write("note", "alerts.mute", {"hours": 1}),
    "DELETE /api/v1/silences/{silence}": Write("note", "application.unmute"),
    "GET /api/v1/streams/live/cam-1/samples": "view",
    "POST /api/v1/streams/live/cam-1/token": Write("share", "play_token.create", {"hours": 1}),
    "GET /api/v1/sessions": "view",
    "GET /api/v1/sessions/{session}": "view",
    "GET /api/v1/sessions/{session}/events": "view",
    "GET /api/v1/sessions/{session}/samples": "view",
    "GET /api/v1/attempts": "view",
    "GET /api/v1/recordings": "view",
    "GET /api/v1/recordings/{recording}": "view",
    "GET /api/v1/recordings/{recording}/download": "view",
    "POST /api/v1/recordings/{recording}/token": Write("share", "recording_token.create", {"hours": 1}),
    "DELETE /api/v1/recordings/{recording}": Write("delete_recordings", "recording.delete"),
    "GET /api/v1/rollups": "view",
    "GET /api/v1/reports": "view",
    "POST /api/v1/reports": Write("run_analytics", "report.make", {"kind": "weekly"}),
    "GET /api/v1/reports/{report}": "view",
    "GET /api/v1/reports/{report}.pdf": "view",
    "GET /api/v1/reports/{report}.csv": "view",
    "GET /api/v1/nodes": "view",
    "GET /api/v1/nodes/n1": "view",
    "POST /api/v1/nodes/n1/drain": Write("drain", "node.drain"),
    "POST /api/v1/nodes/n1/resume": Write("drain", "node.resume"),
    "POST /api/v1/nodes/n1/forget": Write("drain", "node.forget"),
    "GET /api/v1/applications": "view",
    "GET /api/v1/applications/live": "view",
    "PATCH /api/v1/applications/live": Write("manage_streams", "application.disable", {"enabled": False}),
    "DELETE /api/v1/applications/live?force=true": Write("manage_streams", "application.delete"),
    "GET /api/v1/keys": "manage_keys",
    "POST /api/v1/keys": Write("manage_keys", "key.create", {"app": "live", "name": "cam-1"}),
    "POST /api/v1/keys/{key}/rotate": Write("manage_keys", "key.rotate", {"grace_s": 60}),
    "POST /api/v1/keys/{key}/revoke": Write("manage_keys", "key.revoke"),
    "GET /api/v1/audit": "see_audit",
    "GET /api/v1/alerts": "view",
    "GET /api/v1/webhooks": "view",
    "GET /api/v1/services": "view",
    "GET /api/v1/deliveries": "view",
    "GET /api/v1/system": "view",
}
"""{method and path: an ability of ingest/services/roles.py, "log in" or "nothing"}; of what changes something with the
entry that it leaves, unless that has tests of its own."""

TABLE = {row: each.needs if isinstance(each, Write) else each for row, each in ROWS.items()}

SOCKETS = {"/ws/live/": "view", "/ws/attempts/": "view", "/ws/streams/{stream}/": "view"}

EVERY_ROLE = ("application", "stream", "session", "statusevent", "attempt", "ban", "node", "lease", "recording")
CELERY = ("periodictask", "clockedschedule", "crontabschedule", "solarschedule", "intervalschedule")
ANALYTICS = ("analyticsrun", "partition", "rollup", "runline", "reportplan", "report", "reportdelivery")

STAFF_SEES: dict[str, set[str]] = {
    **{f"ingest.{model}": set(ROLES) for model in EVERY_ROLE},
    **{
        f"ingest.{model}": {"key manager", "admin"}
        for model in ("streamkey", "encoderlogin", "pushtarget", "pullsource")
    },
    "ingest.sharedobject": {"operator", "admin"},
    **{model: {"admin"} for model in ("auth.group", "auth.user", "dashboard.apitoken")},
    **{f"django_celery_beat.{model}": set() for model in CELERY},
    **{f"analytics.{model}": set() for model in ANALYTICS},
}
"""{model in the admin: who of the roles may see its list, if marked as staff}; a superuser sees each."""

HOW = """
Add a row to {table} in tests/dashboard/test_roles.py for each, such as
    "GET /sessions/": "view",
    "POST /streams/live/cam-1/kick": Write("kick", "session.kick"),
with the ability that its gate asks for ("log in": any account, "nothing": anybody). The path is one that exists, from
the fixture `site`: app live, stream cam-1 and node n1; what is in braces are ids that `seed_demo_data` returns."""


class Site(NamedTuple):
    """The demo data and the session of an account of each role."""

    ids: dict[str, Any]
    """The values for the braces in the table's paths."""
    cookies: dict[str, str]
    """{visitor: session cookie}; an anonymous visitor has none."""

    def client(self, who: str, **options: Any) -> Client:
        client = Client(**options)
        if who in self.cookies:
            client.cookies["sessionid"] = self.cookies[who]
        return client


def _create_site() -> Site:
    users = {who: _visitor(who) for who in VISITORS if who != "anonymous"}
    return Site(seed_demo_data(), {who: client_of(user).cookies["sessionid"].value for who, user in users.items()})


@pytest.fixture(scope="class")
def class_site(django_db_setup: None, django_db_blocker: Any) -> Iterator[Site]:
    """Create the site once for all tests of a class. Django rolls each test back to it."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield _create_site()
        transaction.set_rollback(True)


@pytest.fixture
def site(class_site: Site, db: None, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return the site and replace the drawing of PDFs, because these tests only check who gets one."""
    make = subprocess_jobs._made
    monkeypatch.setattr(subprocess_jobs, "_made", lambda job, given: b"%PDF" if job == "pdf" else make(job, given))
    return class_site


def _visitor(who: str, *, staff: bool = False) -> User:
    groups, is_superuser = [who] if who in ROLES else [], who == "superuser"
    return make_user(*groups, name=who, is_superuser=is_superuser, is_staff=staff or is_superuser)


def _ask(client: Client, row: str, there: dict[str, Any], **headers: str) -> HttpResponse:
    method, path = row.format(**there).split(" ")
    answer: Any
    with transaction.atomic():
        answer = client.generic(method, path, headers=headers)
        transaction.set_rollback(True)
    return answer  # type: ignore[no-any-return]


def _outcome(answer: HttpResponse) -> str:
    """What became of a request: "in" may be any answer of what is behind the gate, an error of its input too."""
    status = answer.status_code
    if status == HTTPStatus.UNAUTHORIZED or (status == 302 and answer["Location"].startswith("/login/?next=")):
        return "log in first"
    return "refused" if status == HTTPStatus.FORBIDDEN else "in"


def _expected(who: str, needs: str) -> str:
    if who in MAY[needs]:
        return "in"
    return "log in first" if who == "anonymous" else "refused"


# --- The table against what runs ---


@pytest.mark.usefixtures("ends_are_told")
class TestTable:
    @pytest.mark.parametrize("row", TABLE)
    def test_each_route_admits_only_the_roles_of_the_table(self, site: Site, row: str) -> None:
        needs = TABLE[row]
        found = {who: _outcome(_ask(site.client(who), row, site.ids)) for who in VISITORS}
        assert found == {who: _expected(who, needs) for who in VISITORS}

    @pytest.mark.parametrize("row", [row for row in TABLE if " /api/" in row or row == "GET /metrics"])
    def test_each_api_route_admits_only_tokens_of_the_roles_of_the_table(self, site: Site, row: str) -> None:
        secrets = {role: access.create_token(name=role, role=role).secret for role in ROLES}
        revoked = access.create_token(name="revoked", role="admin")
        access.revoke_token(token=revoked.token)
        asked = {**secrets, "revoked": revoked.secret, "unknown": "rt_nonsense"}
        found = {
            who: _outcome(_ask(Client(), row, site.ids, Authorization=f"Bearer {secret}"))
            for who, secret in asked.items()
        }
        expected = {role: "in" if role in MAY[TABLE[row]] else "refused" for role in ROLES}
        assert found == expected | {"revoked": "log in first", "unknown": "log in first"}

    @pytest.mark.parametrize("row", [row for row in TABLE if not row.startswith("GET ")])
    def test_each_writing_route_requires_the_csrf_token(self, site: Site, row: str) -> None:
        client = site.client("superuser", enforce_csrf_checks=True)
        assert _ask(client, row, site.ids).status_code == HTTPStatus.FORBIDDEN

    def test_methods_missing_from_the_role_table_are_405(self, site: Site) -> None:
        """Each URL refuses every method that the table lacks."""
        client = site.client("superuser")
        missing = []
        for methods in _methods().values():
            for method in {"GET", "POST", "PATCH", "DELETE"} - methods.keys():
                row = f"{method} {next(iter(methods.values()))}"
                if _ask(client, row, site.ids).status_code != HTTPStatus.METHOD_NOT_ALLOWED:
                    missing.append(row)
        assert not missing, f"These have no row: {', '.join(missing)}.{HOW.format(table='ROWS')}"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", SOCKETS)
async def test_each_websocket_stays_open_only_for_the_roles_of_the_table(path: str) -> None:
    site = await sync_to_async(_create_site)()
    expected = {"anonymous": "4401", "no role": "4403"}
    found = {}
    for who in VISITORS:
        client = None if who == "anonymous" else site.client(who)
        found[who] = await _socket_outcome(socket(path.format(**site.ids), client))
    assert found == {who: "in" if who in MAY[SOCKETS[path]] else expected.get(who, "4403") for who in VISITORS}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost.evil.example"])
async def test_no_websocket_for_a_foreign_page(path: str, origin: str) -> None:
    site = await sync_to_async(_create_site)()
    page = socket(path.format(**site.ids), site.client("superuser"), (b"origin", origin.encode()))
    connected, _ = await page.connect(timeout=20)
    assert not connected


async def _socket_outcome(page: WebsocketCommunicator) -> str:
    """The code of a close, or "in" where the first thing is a text."""
    await page.connect(timeout=20)
    message = await page.receive_output(timeout=5)
    if message["type"] == "websocket.close":
        return str(message["code"])
    await page.disconnect()
    return "in"


# --- The admin ---


@pytest.mark.parametrize("who", VISITORS)
def test_which_lists_of_the_admin_a_role_sees_with_the_staff_mark(db: None, who: str) -> None:
    staff = Client()
    if who != "anonymous":
        staff.force_login(_visitor(who, staff=True))
    seen = {model for model in STAFF_SEES if staff.get(f"/admin/{model.replace('.', '/')}/").status_code == 200}
    assert seen == {model for model, roles in STAFF_SEES.items() if who in roles or who == "superuser"}


SETS_UP = ("key manager", "admin")
"""Roles that are led to the admin's forms: they need no staff mark."""


@pytest.mark.parametrize("who", ["no role", *ROLES])
def test_admin_without_staff_flag_is_open_only_to_configuring_roles(db: None, who: str) -> None:
    client = client_of(_visitor(who))
    seen = set()
    for model in STAFF_SEES:
        answer = client.get(f"/admin/{model.replace('.', '/')}/", follow=True)
        assert answer.status_code in (HTTPStatus.OK, HTTPStatus.FORBIDDEN), (who, model)
        if answer.status_code == HTTPStatus.OK:
            seen.add(model)
    assert seen == {model for model, roles in STAFF_SEES.items() if who in roles and who in SETS_UP}


# --- Whether the table is whole ---


def test_the_roles_and_abilities_are_those_of_the_table() -> None:
    theirs = {ability.value: {r for r, may in roles.ABILITIES.items() if ability in may} for ability in roles.Ability}
    mine = {ability: set(who) - {"superuser"} for ability, who in MAY.items() if ability not in ("log in", "nothing")}
    assert theirs == mine


def _routes(patterns: list[Any], prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLPattern):
            yield route, pattern
        else:
            yield from _routes(pattern.url_patterns, route)


ELSEWHERE = {
    "favicon.ico": "leads to a static file",
    "api/v1/": "is a 404 that tells where the description is",
    "admin/login/": "leads to the one log-in page, or refuses",
}
"""Routes that have no row, and why."""

ANY = "5ffb6b56-4c9a-4f7e-93a1-0f6c3a1f6f01"
NUMBERED = ("service", "silence", "stream", "recording", "push", "pull", "key", "rule", "webhook", "report", "run")
IDS = dict.fromkeys(("session", "again", "delivery", "play_token"), ANY) | dict.fromkeys(NUMBERED, "1")


def _route(path: str) -> str:
    return resolve(path.format(**IDS).partition("?")[0]).route


def _methods() -> dict[str, dict[str, str]]:
    """{route: {method: its path in the table}}."""
    found: dict[str, dict[str, str]] = {}
    for row in TABLE:
        method, path = row.split(" ")
        found.setdefault(_route(path), {})[method] = path
    return found


def test_every_url_is_in_the_role_table() -> None:
    routes = {route for route, _ in _routes(get_resolver().url_patterns) if not route.startswith("admin/")}
    missing = sorted(routes - _methods().keys() - ELSEWHERE.keys())
    assert not missing, f"These URLs have no row: {', '.join(missing)}.{HOW.format(table='ROWS')}"


def test_every_websocket_is_in_the_role_table() -> None:
    def resolves(path: str, pattern: URLPattern) -> bool:
        return pattern.resolve(path.format(**IDS).lstrip("/")) is not None

    patterns = consumers.websocket_urlpatterns
    missing = [str(each.pattern) for each in patterns if not any(resolves(path, each) for path in SOCKETS)]
    assert not missing, f"These have no row: {', '.join(missing)}.{HOW.format(table='SOCKETS')}"


def test_every_admin_list_is_in_the_role_table() -> None:
    missing = {model._meta.label_lower for model in admin.site._registry} - STAFF_SEES.keys()
    assert not missing, f"These have no row in STAFF_SEES of tests/dashboard/test_roles.py: {', '.join(missing)}."
