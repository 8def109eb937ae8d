"""The audit log: that each act leaves its one entry, whatever it was asked by; its page, its export and its API."""

import json
import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client

from dashboard import accounts
from dashboard.models import ApiToken
from ingest.models import (
    Application,
    AuditEntry,
    Ban,
    EncoderLogin,
    HealthOverride,
    Node,
    Recording,
    SharedObject,
    Stream,
    StreamKey,
)
from ingest.services import encoder_login, keys
from tests.dashboard.conftest import (
    api_token,
    audited,
    client_of,
    csv_rows,
    file_text,
    lacks,
    make_user,
    put_node,
    snapshot,
)
from tests.dashboard.demo_data import seed_demo_data
from tests.dashboard.test_roles import ROWS, Write
from tests.snapshots import issue

JSON = "application/json"
BY_SCRIPT = {"X-Requested-With": "fetch"}

DOES = {row: each for row, each in ROWS.items() if isinstance(each, Write)}

NO_TASKS = {"periodictask_set-TOTAL_FORMS": "0", "periodictask_set-INITIAL_FORMS": "0"}

NO_ACT = {
    "POST /theme/",  # Of one's own browser.
    "POST /zone/",
    "POST /streams/live/cam-1/preview",  # A look at the stream.
}

BEFORE: dict[str, dict[str, dict[str, Any]]] = {
    "unmute": {"POST /streams/live/cam-1/mute": {"length": "30"}},
    "DELETE /api/v1/streams/live/cam-1/mute": {"POST /streams/live/cam-1/mute": {"length": "30"}},
}
"""What has to be done first."""

OF_EVERYBODY = ("POST /login/", "POST /logout/", "POST /password/", "POST /recordings/{recording}/player")

OTHERS = ("alert", "webhook", "deliver", "sessions/", "/recompute", "applications/create")
"""Parts whose own tests look at their entries."""


def test_every_write_of_pages_and_api_has_an_audit_expectation() -> None:
    writes = {row for row in ROWS if not row.startswith("GET ") and not any(part in row for part in OTHERS)}
    assert writes - DOES.keys() - NO_ACT == set(), "Say in ROWS of test_roles.py which entry it leaves."


def _ask(client: Client, row: str, there: dict[str, Any], body: dict[str, Any]) -> Any:
    method, path = row.format(**there).split(" ")
    if path.startswith("/api/"):
        headers = api_token("admin")
        return Client().generic(method, path, json.dumps(body) if body else "", JSON, headers=headers)
    return client.post(path, body, headers=BY_SCRIPT)


def _show_an_issue() -> None:
    stream = Stream.objects.get(name="cam-1")
    session = str(stream.sessions.get(ended_at=None).pk)
    put_node(snapshot(stream, issues=[issue()], health="bad", session_id=session))


@pytest.mark.usefixtures("reports_made_here", "ends_are_told")
@pytest.mark.parametrize("row", DOES)
def test_a_write_leaves_one_entry(boss: Client, settings: Any, tmp_path: Any, row: str) -> None:
    settings.RECORDINGS_DIR = tmp_path
    there = seed_demo_data()
    _show_an_issue()
    Node.objects.update(state=Node.State.DOWN if row.endswith("/forget") else Node.State.UP)
    for part, others in BEFORE.items():
        for other, body in others.items() if part in row else ():
            assert _ask(boss, other, there, body).status_code < 400
    AuditEntry.objects.all().delete()
    _, action, body, also = DOES[row]
    answer = _ask(boss, row, there, body)
    assert answer.status_code < 400, answer.content
    entries = list(AuditEntry.objects.order_by("pk"))
    assert [entry.action for entry in entries] == [action, *also]
    who = "token admin-script" if "/api/" in row else "boss"
    for entry in entries:
        assert (entry.actor, entry.address) == (who, "127.0.0.1")
        assert (entry.user is None) == ("/api/" in row)
        assert entry.target


def test_refused_action_leaves_no_audit_entry(client: Client, db: None) -> None:
    there = seed_demo_data()
    known = AuditEntry.objects.count()
    viewer = client_of(make_user("viewer", name="vera"))
    for row, (_, _, body, _) in DOES.items():
        if row not in OF_EVERYBODY and "/api/" not in row:
            assert _ask(viewer, row, there, body).status_code == 403
    assert AuditEntry.objects.count() == known


@pytest.mark.django_db
def test_failed_logins_are_written_down_within_bounds(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_user("viewer", name="vera")
    monkeypatch.setattr(accounts, "MOST_OF_ADDRESS", 3)
    for name in ("vera", "typed-the-password-here", "vera", "vera", "vera"):
        client.post("/login/", {"username": name, "password": "wrong-password"})
    entries = list(AuditEntry.objects.order_by("pk"))
    assert [(entry.action, entry.actor) for entry in entries] == [
        *(("login.fail", "vera"), ("login.fail", "somebody"), ("login.fail", "vera"))
    ]
    assert "not written down" in entries[-1].detail["note"]
    told = json.dumps(list(AuditEntry.objects.values()), default=str)
    assert "typed-the-password-here" not in told
    assert "wrong-password" not in told


def _latest() -> AuditEntry:
    entry = AuditEntry.objects.first()
    assert entry is not None
    return entry


def test_admin_change_is_audited_with_old_and_new_values(boss: Client) -> None:
    application = Application.objects.create(name="live")
    url = f"/admin/ingest/application/{application.pk}/change/"
    shown = boss.get(url).context["adminform"].form.initial
    form = {name: value for name, value in shown.items() if value not in (None, False)}
    form |= {"publish_policy": "open", "play_policy": "token", "record": "all"}
    assert boss.post(url, form).status_code == 302
    assert AuditEntry.objects.count() == 1
    assert _latest().action == "application.change"
    assert _latest().detail == {
        "changed": {
            "publish_policy": ["key", "open"],
            "play_policy": ["public", "token"],
            "record": ["requested", "all"],
        }
    }
    assert boss.post(url, form).status_code == 302  # Nothing differs.
    assert AuditEntry.objects.count() == 1


@pytest.mark.both_forms
def test_user_and_role_changes_are_audited_without_passwords(boss: Client) -> None:
    secret = "quite-a-battery-staple"
    boss.post(
        "/admin/auth/user/add/",
        {"username": "nora", "password1": secret, "password2": secret, "usable_password": "true"},
    )
    assert (_latest().action, _latest().target) == ("user.create", "nora")
    nora = User.objects.get(username="nora")
    role, _ = Group.objects.get_or_create(name="operator")
    joined = {"date_joined_0": "2026-01-01", "date_joined_1": "12:00"}
    form = {"username": "nora", "is_active": "on", "groups": [role.pk], **joined}
    boss.post(f"/admin/auth/user/{nora.pk}/change/", form)
    assert _latest().detail["changed"]["groups"] == [[], ["operator"]]
    other = "another-battery-staple"
    boss.post(
        f"/admin/auth/user/{nora.pk}/password/", {"password1": other, "password2": other, "usable_password": "true"}
    )
    assert _latest().action == "user.change"
    assert _latest().detail["changed"]["password"] == ["not shown"]
    told = json.dumps(list(AuditEntry.objects.values()), default=str)
    assert secret not in told
    assert other not in told
    boss.post(f"/admin/auth/user/{nora.pk}/delete/", {"post": "yes"})
    assert (_latest().action, _latest().target) == ("user.delete", "nora")
    assert AuditEntry.objects.count() == 4


@pytest.mark.both_forms
def test_actions_of_the_admin_leave_one_entry_each(boss: Client, settings: Any, tmp_path: Any) -> None:
    settings.RECORDINGS_DIR = tmp_path
    there = seed_demo_data()
    Node.objects.update(state=Node.State.UP)
    stream = Stream.objects.get()
    login = encoder_login.create(stream=stream, user="van-1").login
    shared = SharedObject.objects.create(application=stream.application, name="chat", data=b"{}")
    token = ApiToken.objects.get(name="prometheus")
    tried = {
        ("ingest/streamkey", "rotate_with_grace", there["key"]): "key.rotate",
        ("ingest/streamkey", "revoke", there["key"]): "key.revoke",
        ("ingest/encoderlogin", "revoke", login.pk): "encoder_login.revoke",
        ("ingest/session", "end_now", there["again"]): "session.kick",
        ("ingest/ban", "lift", Ban.objects.get().pk): "ban.lift",
        ("ingest/node", "drain", Node.objects.get().pk): "node.drain",
        ("ingest/node", "resume", Node.objects.get().pk): "node.resume",
        ("ingest/recording", "delete_selected", there["recording"]): "recording.delete",
        ("ingest/sharedobject", "delete_selected", shared.pk): "shared_object.delete",
        ("dashboard/apitoken", "revoke", token.pk): "api_token.revoke",
    }
    for (model, action, pk), expected in tried.items():
        AuditEntry.objects.all().delete()
        answer = boss.post(f"/admin/{model}/", {"action": action, "_selected_action": [pk], "post": "yes"})
        assert answer.status_code in (200, 302), (model, action)
        assert audited("action") == [expected], (model, action)
    assert not Recording.objects.exists()


def test_schedule_and_health_override_changes_are_audited(boss: Client, stream: Stream) -> None:
    boss.post("/admin/django_celery_beat/intervalschedule/add/", {"every": "5", "period": "minutes", **NO_TASKS})
    assert _latest().action == "interval_schedule.create"
    if admin.site.is_registered(HealthOverride):
        form = {"stream": stream.pk, "check_code": "drift", "enabled": "on", "warning": "900", "bad": "", "hold_s": ""}
        boss.post("/admin/ingest/healthoverride/add/", form)
        assert (_latest().action, _latest().stream) == ("health_override.create", stream)


@pytest.mark.both_forms
@pytest.mark.django_db
def test_commands_say_who_ran_them(stream: Stream, settings: Any, tmp_path: Any, capsys: Any) -> None:
    settings.RECORDINGS_DIR = tmp_path
    key = keys.create(stream=stream).key
    Node.objects.create(name="n1")
    tried: dict[tuple[str, ...], list[str]] = {
        ("streamkey", "create", "live/cam-2"): ["stream.create", "key.create"],
        ("streamkey", "rotate", str(key.pk)): ["key.rotate"],
        ("streamkey", "revoke", str(key.pk)): ["key.revoke"],
        ("application", "set", "events"): ["application.create"],
        ("application", "set", "events", "--play", "none"): ["application.change"],
        ("application", "create", "sport"): ["application.create"],
        ("application", "disable", "sport"): ["application.disable"],
        ("application", "enable", "sport"): ["application.enable"],
        ("stream", "create", "sport/cam-1"): ["stream.create"],
        ("stream", "disable", "sport/cam-1"): ["stream.disable"],
        ("stream", "enable", "sport/cam-1"): ["stream.enable"],
        ("stream", "delete", "sport/cam-1", "--yes"): ["stream.delete"],
        ("application", "delete", "sport", "--yes"): ["application.delete"],
        ("encoderlogin", "create", "live/cam-1", "--user", "van-1"): ["encoder_login.create"],
        ("encoderlogin", "password", "van-1"): ["encoder_login.password"],
        ("encoderlogin", "revoke", "van-1"): ["encoder_login.revoke"],
        ("apitoken", "create", "script", "--role", "viewer"): ["api_token.create"],
        ("apitoken", "revoke", "script"): ["api_token.revoke"],
        ("playtoken", "live/cam-1"): ["play_token.create"],
        ("ban", "add", "192.0.2.77"): ["ban.create"],
        ("ban", "lift", "192.0.2.77"): ["ban.lift"],
        ("node", "drain", "n1"): ["node.drain"],
        ("node", "resume", "n1"): ["node.resume"],
    }
    for command, expected in tried.items():
        known = set(AuditEntry.objects.values_list("pk", flat=True))
        call_command(*command)
        entries = list(AuditEntry.objects.exclude(pk__in=known).order_by("pk"))
        assert [entry.action for entry in entries] == expected, command
        assert all(re.fullmatch(rf"{command[0]} \(\w+\)", entry.actor) for entry in entries)
        assert {entry.address for entry in entries} == {""}
    secrets = re.findall(r"rk_\w{32}|rt_\w+|Password:\s+(\S+)", capsys.readouterr().out)
    told = json.dumps(list(AuditEntry.objects.values()), default=str)
    assert all(secret not in told for secret in secrets if secret)
    assert StreamKey.objects.exists()
    assert EncoderLogin.objects.exists()


@pytest.mark.both_forms
def test_the_page_filters_and_exports(boss: Client) -> None:
    there = seed_demo_data()
    boss.post(f"/keys/{there['key']}/change", {"label": "=rack", "max_kbps": "800"})
    text = boss.get("/audit/").content.decode()
    assert lacks(text, "Key changed", "max kbps: 800, was none", "Session kicked") == []
    only = boss.get("/audit/?action=key.change").content.decode()
    assert 'data-action="key.change"' in only
    assert 'data-action="session.kick"' not in only
    for query in ("actor=mira", "q=kick", "app=live&name=cam-1&address=192.0.2.20", "until=2040-01-01"):
        assert 'data-action="session.kick"' in boss.get(f"/audit/?{query}").content.decode(), query
    assert "No matching actions" in boss.get("/audit/?since=2040-01-01").content.decode()
    answer: Any = boss.get("/audit/export?format=csv")
    rows = csv_rows(answer)
    assert [row["action"] for row in rows] == ["key.change", "session.kick"]
    assert json.loads(rows[0]["detail"])["changed"]["max_kbps"] == [None, 800]
    listed = boss.get("/api/v1/audit?action=session.kick").json()
    assert listed["count"] == 1
    assert listed["items"][0]["stream"] == "live/cam-1"
    assert json.loads(file_text(boss.get("/audit/export?format=json&action=session.kick")))["items"] == listed["items"]
