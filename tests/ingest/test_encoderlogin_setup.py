"""Encoders' log-ins in the admin and by command: made, shown once, changed, revoked."""

import io
import json
import re
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse

from ingest.models import Application, EncoderLogin, Stream
from ingest.services import encoder_login, roles
from tests.ingest.test_admin import member

pytestmark = pytest.mark.django_db

ADD = "admin:ingest_encoderlogin_add"
LIST = "admin:ingest_encoderlogin_changelist"
CHANGE = "admin:ingest_encoderlogin_change"


@pytest.fixture
def manager(db: None) -> Client:
    return member(roles.KEY_MANAGER)


def fits(login: EncoderLogin, password: str) -> bool:
    known = encoder_login.verifiers(login.user, password, login.salt)
    return (known.adobe, known.llnw) == (login.adobe, login.llnw)


def form(stream: Stream, **fields: Any) -> dict[str, Any]:
    return {"stream": stream.pk, "user": "bob", "password": "", "label": "van", "enabled": "on", **fields}


# --- The admin ---


def test_a_password_that_is_made_up_is_shown_once(manager: Client, stream: Stream) -> None:
    page = manager.post(reverse(ADD), form(stream))
    found = re.search(r'id="id_password"[^>]*value="([0-9A-Za-z]{20})"', page.content.decode())
    assert found is not None
    assert "no-store" in page["Cache-Control"]
    login = EncoderLogin.objects.get()
    assert (login.user, login.label, login.stream) == ("bob", "van", stream)
    assert fits(login, found[1])
    for name, arguments in ((LIST, []), (CHANGE, [login.pk])):
        again = manager.get(reverse(name, args=arguments))
        assert again.status_code == 200
        for secret in (found[1], login.salt, login.adobe, login.llnw):
            assert secret not in again.content.decode()


def test_a_chosen_password_is_not_shown_at_all(manager: Client, stream: Stream) -> None:
    page = manager.post(reverse(ADD), form(stream, password="chosen-by-hand"), follow=True)
    assert "chosen-by-hand" not in page.content.decode()
    assert fits(EncoderLogin.objects.get(), "chosen-by-hand")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"password": "short"}, "Use 8 to 128 printable characters"),
        ({"password": "with a blank"}, "Use 8 to 128 printable characters"),
        ({"user": "bob@home"}, "Use 1 to 64 letters, digits"),
        ({"user": "taken"}, "There is an encoder&#x27;s log-in with this user already."),
    ],
)
def test_what_cannot_be_used_is_refused(manager: Client, stream: Stream, fields: dict[str, Any], said: str) -> None:
    encoder_login.create(stream=stream, user="taken")
    page = manager.post(reverse(ADD), form(stream, **fields))
    assert said in page.content.decode()
    assert EncoderLogin.objects.count() == 1


def test_a_password_is_changed_or_stays(manager: Client, stream: Stream) -> None:
    made = encoder_login.create(stream=stream, user="bob")
    url = reverse(CHANGE, args=[made.login.pk])
    manager.post(url, {"password": "", "label": "another", "enabled": "on"})
    login = EncoderLogin.objects.get()
    assert login.label == "another"
    assert fits(login, made.password)
    manager.post(url, {"password": "a-new-password", "label": "another", "enabled": "on"})
    login = EncoderLogin.objects.get()
    assert fits(login, "a-new-password")
    assert not fits(login, made.password)


@pytest.mark.both_forms
def test_revoking_is_for_good_and_frees_the_name(manager: Client, stream: Stream) -> None:
    made = encoder_login.create(stream=stream, user="bob")
    manager.post(reverse(LIST), {"action": "revoke", "_selected_action": [made.login.pk]})
    made.login.refresh_from_db()
    assert encoder_login.state(login=made.login) == "revoked"
    encoder_login.create(stream=stream, user="bob")


def test_only_those_who_manage_keys_see_them(stream: Stream) -> None:
    seen = {role: member(role).get(reverse(LIST)).status_code == 200 for role in roles.ROLES}
    assert {role for role, allowed in seen.items() if allowed} == {roles.KEY_MANAGER, roles.ADMIN}


# --- The command ---


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("encoderlogin", *arguments, stdout=out)
    return out.getvalue()


def test_create_list_and_revoke(application: Application, settings: Any) -> None:
    settings.RTMP_ADDRESS = ("127.0.0.1", 1935)
    made = json.loads(run("create", "live/new", "--user", "bob", "--label", "van", "--expires", "30d", "--json"))
    assert fits(EncoderLogin.objects.get(stream__name="new"), made["password"])
    assert made == {
        "stream": "live/new",
        "user": "bob",
        "password": made["password"],
        "server": "rtmp://127.0.0.1/live",
        "name": "new",
        "publish_url": f"rtmp://bob:{made['password']}@127.0.0.1/live/new",
        "play_url": "rtmp://127.0.0.1/live/new",
    }
    (item,) = json.loads(run("list", "live/new", "--json"))["items"]
    assert (item["user"], item["stream"], item["state"], item["label"]) == ("bob", "live/new", "active", "van")
    assert made["password"] not in run("list")
    assert run("revoke", "bob") == "Revoked bob. Its session ends within 2 s.\n"
    assert json.loads(run("list", "--json"))["items"][0]["state"] == "revoked"


def test_a_chosen_password_and_a_new_one(application: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Password:    chosen-by-hand\n" in run("create", "live/new", "--user", "bob", "--password", "chosen-by-hand")
    monkeypatch.setattr("sys.stdin", io.StringIO("from standard-input\n"))
    with pytest.raises(CommandError, match="without blanks"):
        run("password", "bob", "--password", "-")
    monkeypatch.setattr("sys.stdin", io.StringIO("from-standard-input\n"))
    assert "from-standard-input" in run("password", "bob", "--password", "-")
    assert fits(EncoderLogin.objects.get(), "from-standard-input")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("create", "live/new", "--user", "b@b"), "letters, digits"),
        pytest.param(("create", "live/new", "--user", "taken"), "already", marks=pytest.mark.both_forms),
        (("create", "nowhere/new", "--user", "bob"), "no application"),
        (("revoke", "bob"), "no encoder's log-in"),
    ],
)
def test_errors(stream: Stream, arguments: tuple[str, ...], said: str) -> None:
    encoder_login.create(stream=stream, user="taken")
    with pytest.raises(CommandError, match=said):
        run(*arguments)


def test_an_application_asks(application: Application) -> None:
    for value in (True, False):
        call_command("application", "set", "live", "--encoder-login", "on" if value else "off", stdout=io.StringIO())
        application.refresh_from_db()
        assert application.encoder_login is value
