"""Stream keys in the admin, and encoders' log-ins there and by command: made, seen once, changed, revoked."""

import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session as BrowserSession
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ingest.models import Application, EncoderLogin, Session, Stream, StreamKey
from ingest.services import encoder_login, keys, roles
from ingest.services.keys import NewKey
from tests.ingest.operators import act, member, run, run_json

ADD_KEY = "admin:ingest_streamkey_add"
KEYS = "admin:ingest_streamkey_changelist"


@pytest.fixture
def manager(db: None) -> Client:
    return member(roles.KEY_MANAGER)


def form(stream: Stream, **fields: Any) -> dict[str, Any]:
    rights = {"label": "van", "enabled": "on", "allowed_networks": "", "over_limit": "warn"}
    return {"stream": stream.pk, **rights, **fields}


def secret_on(page: str) -> str:
    found = re.search(r'id="id_key"[^>]*value="(rk_[0-9A-Za-z]{32})"', page)
    assert found is not None
    return found[1]


@pytest.mark.both_forms
def test_a_key_is_seen_once(manager: Client, stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    response = manager.post(reverse(ADD_KEY), form(stream))
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    page = response.content.decode()
    secret = secret_on(page)
    assert 'value="rtmp://' in page
    assert f"Stream Key: {secret}\n" in page, "in the text for a colleague"
    key = StreamKey.objects.get()
    assert keys.find(secret=secret) == key
    for url in (reverse(KEYS), reverse("admin:ingest_streamkey_change", args=[key.pk]), reverse("admin:index")):
        assert secret not in manager.get(url).content.decode()
    stored = [*StreamKey.objects.values(), *LogEntry.objects.values(), *BrowserSession.objects.values()]
    assert secret not in str(stored)
    assert secret not in str([session.get_decoded() for session in BrowserSession.objects.all()])
    assert secret not in str(manager.cookies)
    assert secret not in caplog.text


def test_add_form_stores_networks_bitrate_limit_and_expiry_of_key(manager: Client, stream: Stream) -> None:
    manager.post(
        reverse(ADD_KEY),
        form(
            stream,
            allowed_networks="192.0.2.0/24\n2001:db8::/32",
            max_kbps="6000",
            expires_at_0="2030-01-31",
            expires_at_1="12:00",
        ),
    )
    key = StreamKey.objects.get()
    assert key.allowed_networks == ["192.0.2.0/24", "2001:db8::/32"]
    assert (key.max_kbps, key.label, str(key.expires_at)) == (6000, "van", "2030-01-31 12:00:00+00:00")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"allowed_networks": "192.0.2.7/24"}, "allowed_networks"),
        ({"allowed_networks": "nonsense"}, "allowed_networks"),
        ({"existing_key": "two words"}, "existing_key"),
        ({"existing_key": "cam1"}, "existing_key"),
        ({"stream": ""}, "stream"),
    ],
)
def test_invalid_add_form_value_is_reported_at_its_field_and_makes_no_key(
    manager: Client, stream: Stream, fields: dict[str, str], field: str
) -> None:
    response = manager.post(reverse(ADD_KEY), form(stream) | fields)
    assert field in response.context["adminform"].form.errors
    assert not StreamKey.objects.exists()


def test_existing_key_is_imported_once_and_not_echoed_on_duplicate(manager: Client, stream: Stream) -> None:
    manager.post(reverse(ADD_KEY), form(stream, existing_key="oldserver-key-1"))
    assert keys.find(secret="oldserver-key-1") == StreamKey.objects.get()
    again = manager.post(reverse(ADD_KEY), form(stream, existing_key="oldserver-key-1"))
    assert "existing_key" in again.context["adminform"].form.errors
    assert "oldserver-key-1" not in again.content.decode()


def test_a_key_is_changed_but_not_moved(manager: Client, stream: Stream, key: NewKey) -> None:
    other = Stream.objects.create(application=stream.application, name="cam2")
    url = reverse("admin:ingest_streamkey_change", args=[key.key.pk])
    assert manager.post(url, form(other, label="studio", allowed_networks="192.0.2.0/24")).status_code == 302
    changed = StreamKey.objects.get()
    assert (changed.label, changed.stream, changed.allowed_networks) == ("studio", stream, ["192.0.2.0/24"])
    assert changed.digest == key.key.digest


def test_revoke_action_revokes_key_and_logs_it(manager: Client, key: NewKey) -> None:
    act(manager, "revoke", key.key.pk, url=KEYS)
    assert keys.state(key=StreamKey.objects.get()) == "revoked"
    assert LogEntry.objects.get().change_message == "Revoked."


@pytest.mark.parametrize(("action", "state"), [("rotate_now", "revoked"), ("rotate_with_grace", "active")])
def test_rotating_shows_the_new_key_once(manager: Client, key: NewKey, action: str, state: str) -> None:
    response = act(manager, action, key.key.pk, url=KEYS)
    assert "no-store" in response["Cache-Control"]
    secret = secret_on(response.content.decode())
    assert secret != key.secret
    made = keys.find(secret=secret)
    assert made is not None
    assert (made.stream, made.label) == (key.key.stream, "camera")
    old = StreamKey.objects.get(pk=key.key.pk)
    assert keys.state(key=old) == state
    assert keys.state(key=old, now=timezone.now() + timedelta(hours=25)) == "revoked"


def test_rotate_action_with_two_keys_selected_is_refused(manager: Client, stream: Stream, key: NewKey) -> None:
    other = keys.create(stream=stream)
    response = act(manager, "rotate_now", key.key.pk, other.key.pk, url=KEYS)
    assert "Select one key" in response.content.decode()
    assert StreamKey.objects.count() == 2


def test_key_list_shows_bitrate_limit_and_whether_key_is_live(manager: Client, stream: Stream) -> None:
    manager.post(reverse(ADD_KEY), form(stream, max_kbps=4000, over_limit="close"))
    key = StreamKey.objects.get()
    assert (key.max_kbps, key.over_limit) == (4000, "close")
    assert "4000 kbit/s, close" in manager.get(reverse(KEYS)).content.decode()
    session = Session.objects.create(kind="publish", app="live", name="cam1", stream=stream, key=key)
    assert "now: it is live" in manager.get(reverse(KEYS)).content.decode()
    Session.objects.filter(pk=session.pk).update(ended_at=timezone.now())
    assert "now: it is live" not in manager.get(reverse(KEYS)).content.decode()


@pytest.mark.both_forms
@pytest.mark.parametrize("state", ["active", "expired", "disabled", "revoked"])
def test_key_list_filters_by_state(manager: Client, stream: Stream, state: str) -> None:
    made = {
        "active": keys.create(stream=stream).key,
        "expired": keys.create(stream=stream, expires_at=timezone.now() - timedelta(days=1)).key,
        "disabled": keys.create(stream=stream, enabled=False).key,
        "revoked": keys.create(stream=stream).key,
    }
    keys.revoke(key=made["revoked"])
    found = manager.get(reverse(KEYS), {"state": state}).context["cl"].queryset
    assert list(found) == [made[state]]


@pytest.mark.parametrize("role", [None, roles.VIEWER, roles.OPERATOR, roles.ANALYST])
def test_user_without_key_role_cannot_see_add_or_revoke_keys(key: NewKey, stream: Stream, role: str | None) -> None:
    client = member(role)
    urls = (reverse(KEYS), reverse(ADD_KEY), reverse("admin:ingest_streamkey_change", args=[key.key.pk]))
    assert {client.get(url).status_code for url in urls} == {403}
    assert client.post(reverse(ADD_KEY), form(stream)).status_code == 403
    act(client, "revoke", key.key.pk, url=KEYS)
    assert keys.state(key=StreamKey.objects.get()) == "active"


@pytest.mark.parametrize("is_stranger", [True, False])
def test_anonymous_and_non_staff_users_are_redirected_to_login(
    client: Client, key: NewKey, stream: Stream, is_stranger: bool
) -> None:
    if not is_stranger:
        user = User.objects.create_user(username="plain")
        user.groups.add(Group.objects.get(name=roles.OPERATOR))
        client.force_login(user)
    for url in (reverse(KEYS), reverse(ADD_KEY), reverse("admin:ingest_session_changelist")):
        response = client.get(url)
        assert response.status_code == 302
        assert "login" in response["Location"]
    assert client.post(reverse(ADD_KEY), form(stream)).status_code == 302
    assert StreamKey.objects.count() == 1


ADD = "admin:ingest_encoderlogin_add"
LIST = "admin:ingest_encoderlogin_changelist"
CHANGE = "admin:ingest_encoderlogin_change"


def fits(login: EncoderLogin, password: str) -> bool:
    known = encoder_login.keep_password(EncoderLogin(user=login.user), password, login.salt)
    return (known.adobe, known.llnw) == (login.adobe, login.llnw)


def login_form(stream: Stream, **fields: Any) -> dict[str, Any]:
    return {"stream": stream.pk, "user": "bob", "password": "", "label": "van", "enabled": "on", **fields}


def test_a_password_that_is_made_up_is_shown_once(manager: Client, stream: Stream) -> None:
    page = manager.post(reverse(ADD), login_form(stream))
    found = re.search(r'id="id_password"[^>]*value="([0-9A-Za-z]{20})"', page.content.decode())
    assert found is not None
    assert "no-store" in page["Cache-Control"]
    login = EncoderLogin.objects.get()
    assert (login.user, login.label, login.stream) == ("bob", "van", stream)
    assert fits(login, found[1])
    assert f"User: bob\nPassword: {found[1]}\n" in page.content.decode(), "in the text for a colleague"
    for name, arguments in ((LIST, []), (CHANGE, [login.pk])):
        again = manager.get(reverse(name, args=arguments))
        assert again.status_code == 200
        for secret in (found[1], login.salt, login.adobe, login.llnw):
            assert secret not in again.content.decode()


def test_a_chosen_password_is_not_shown_at_all(manager: Client, stream: Stream) -> None:
    page = manager.post(reverse(ADD), login_form(stream, password="chosen-by-hand"), follow=True)
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
def test_unusable_login_password_or_user_name_is_refused(
    manager: Client, stream: Stream, fields: dict[str, Any], said: str
) -> None:
    encoder_login.create(stream=stream, user="taken")
    page = manager.post(reverse(ADD), login_form(stream, **fields))
    assert said in page.content.decode()
    assert EncoderLogin.objects.count() == 1


def test_empty_login_password_field_keeps_password_and_new_value_changes_it(manager: Client, stream: Stream) -> None:
    made = encoder_login.create(stream=stream, user="bob")
    url = reverse(CHANGE, args=[made.login.pk])
    manager.post(url, {"password": "", "label": "another", "enabled": "on"})
    assert fits(EncoderLogin.objects.get(label="another"), made.password)
    manager.post(url, {"password": "a-new-password", "label": "another", "enabled": "on"})
    login = EncoderLogin.objects.get()
    assert fits(login, "a-new-password")
    assert not fits(login, made.password)


@pytest.mark.both_forms
def test_revoked_login_frees_its_user_name(manager: Client, stream: Stream) -> None:
    made = encoder_login.create(stream=stream, user="bob")
    manager.post(reverse(LIST), {"action": "revoke", "_selected_action": [made.login.pk]})
    made.login.refresh_from_db()
    assert encoder_login.state(login=made.login) == "revoked"
    encoder_login.create(stream=stream, user="bob")


def test_encoderlogin_command_creates_lists_and_revokes_logins(application: Application, settings: Any) -> None:
    settings.RTMP_ADDRESS = ("127.0.0.1", 1935)
    made = run_json("encoderlogin", "create", "live/new", "--user", "bob", "--label", "van", "--expires", "30d")
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
    (item,) = run_json("encoderlogin", "list", "live/new")["items"]
    assert (item["user"], item["stream"], item["state"], item["label"]) == ("bob", "live/new", "active", "van")
    assert made["password"] not in run("encoderlogin", "list")
    assert run("encoderlogin", "revoke", "bob") == "Revoked bob. Its session ends within 2 s.\n"
    assert run_json("encoderlogin", "list")["items"][0]["state"] == "revoked"


def test_encoderlogin_command_takes_passwords_by_option_and_stdin(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Password:    chosen-by-hand\n" in run(
        "encoderlogin", "create", "live/new", "--user", "bob", "--password", "chosen-by-hand"
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("from standard-input\n"))
    with pytest.raises(CommandError, match="without blanks"):
        run("encoderlogin", "password", "bob", "--password", "-")
    monkeypatch.setattr("sys.stdin", io.StringIO("from-standard-input\n"))
    assert "from-standard-input" in run("encoderlogin", "password", "bob", "--password", "-")
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
def test_encoderlogin_command_reports_invalid_arguments(stream: Stream, arguments: tuple[str, ...], said: str) -> None:
    encoder_login.create(stream=stream, user="taken")
    with pytest.raises(CommandError, match=said):
        run("encoderlogin", *arguments)


def test_application_command_switches_encoder_login_on_and_off(application: Application) -> None:
    for value in (True, False):
        run("application", "set", "live", "--encoder-login", "on" if value else "off")
        application.refresh_from_db()
        assert application.encoder_login is value
