"""The admin: who may do what in it, and that a key is seen once."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session as BrowserSession
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ingest.models import Attempt, Ban, Lease, Node, Session, StatusEvent, Stream, StreamKey
from ingest.services import bans, keys, roles
from ingest.services.keys import NewKey

ADD_KEY = "admin:ingest_streamkey_add"
KEYS = "admin:ingest_streamkey_changelist"


def member(role: str | None) -> Client:
    """A logged-in member of the staff with a role, or without one."""
    user = User.objects.create_user(username=f"user-{role}", is_staff=True)
    if role is not None:
        user.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def manager(db: None) -> Client:
    return member(roles.KEY_MANAGER)


@pytest.fixture
def operator(db: None) -> Client:
    return member(roles.OPERATOR)


def form(stream: Stream, **fields: Any) -> dict[str, Any]:
    rights = {"label": "van", "enabled": "on", "allowed_networks": "", "over_limit": "warn"}
    return {"stream": stream.pk, **rights, **fields}


def secret_on(page: str) -> str:
    found = re.search(r'id="id_key"[^>]*value="(rk_[0-9A-Za-z]{32})"', page)
    assert found is not None
    return found[1]


# --- Roles ---


@pytest.mark.both_forms
@pytest.mark.django_db
def test_the_migration_made_the_roles() -> None:
    assert set(Group.objects.values_list("name", flat=True)) >= set(roles.ROLES)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("role", "kicks", "keys_", "sets_up"),
    [
        (roles.VIEWER, False, False, False),
        (roles.OPERATOR, True, False, False),
        (roles.KEY_MANAGER, False, True, False),
        (roles.ANALYST, False, False, False),
        (roles.ADMIN, True, True, True),
    ],
)
def test_what_roles_may(role: str, kicks: bool, keys_: bool, sets_up: bool) -> None:
    user = User.objects.create_user(username="someone")
    user.groups.add(Group.objects.get(name=role))
    assert user.has_perm("ingest.view_session")
    assert user.has_perm("ingest.kick_session") is kicks
    assert user.has_perm("ingest.add_streamkey") is keys_
    assert user.has_perm("ingest.change_application") is sets_up
    assert not user.has_perm("ingest.delete_session")


@pytest.mark.both_forms
@pytest.mark.django_db
def test_granting_again_changes_nothing() -> None:
    before = set(Group.objects.values_list("name", "permissions__codename"))
    roles.grant(apps, roles.PERMISSIONS)
    assert set(Group.objects.values_list("name", "permissions__codename")) == before


# --- Streams ---


def stream_form(stream: Stream, **fields: Any) -> dict[str, Any]:
    return {
        "application": stream.application_id,
        "name": stream.name,
        "enabled": "on",
        "expect_audio": "on",
        "expect_video": "on",
        "idle_timeout_s": 10,
        "first_media_timeout_s": 20,
        "takeover": "reject",
        "health_overrides-TOTAL_FORMS": 0,
        "health_overrides-INITIAL_FORMS": 0,
        **fields,
    }


def test_a_stream_is_changed(admin_client: Client, stream: Stream) -> None:
    url = reverse("admin:ingest_stream_change", args=[stream.pk])
    changes = {"idle_timeout_s": 1, "first_media_timeout_s": 60, "target_kbps": 6000, "takeover": "replace"}
    answer = admin_client.post(url, stream_form(stream, **changes))
    assert answer.status_code == 302
    stream.refresh_from_db()
    assert {name: getattr(stream, name) for name in changes} == changes


def test_a_stream_of_a_name_that_nobody_may_give_any_more_is_changed(admin_client: Client, stream: Stream) -> None:
    Stream.objects.update(name="gpj.\u202emac")
    stream.refresh_from_db()
    url = reverse("admin:ingest_stream_change", args=[stream.pk])
    assert admin_client.post(url, stream_form(stream, takeover="replace")).status_code == 302
    stream.refresh_from_db()
    assert (stream.name, stream.takeover) == ("gpj.\u202emac", "replace")
    answer = admin_client.post(url, stream_form(stream, name="other\u202e"))
    assert "characters that can be seen" in answer.content.decode()


@pytest.mark.parametrize(("limit", "default"), [("idle_timeout_s", 10), ("first_media_timeout_s", 20)])
def test_a_time_limit_that_would_end_every_publisher_is_refused(
    admin_client: Client, stream: Stream, limit: str, default: int
) -> None:
    url = reverse("admin:ingest_stream_change", args=[stream.pk])
    answer = admin_client.post(url, stream_form(stream, **{limit: 0}))
    assert "greater than or equal to 1" in answer.content.decode()
    stream.refresh_from_db()
    assert getattr(stream, limit) == default


# --- Keys ---


@pytest.mark.both_forms
def test_a_key_is_seen_once(manager: Client, stream: Stream, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    response = manager.post(reverse(ADD_KEY), form(stream))
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    page = response.content.decode()
    secret = secret_on(page)
    assert 'value="rtmp://' in page
    key = StreamKey.objects.get()
    assert keys.find(secret=secret) == key
    for url in (reverse(KEYS), reverse("admin:ingest_streamkey_change", args=[key.pk]), reverse("admin:index")):
        assert secret not in manager.get(url).content.decode()
    stored = [*StreamKey.objects.values(), *LogEntry.objects.values(), *BrowserSession.objects.values()]
    assert secret not in str(stored)
    assert secret not in str([session.get_decoded() for session in BrowserSession.objects.all()])
    assert secret not in str(manager.cookies)
    assert secret not in caplog.text


def test_rights_are_kept(manager: Client, stream: Stream) -> None:
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
def test_what_is_wrong_is_said_at_its_field(
    manager: Client, stream: Stream, fields: dict[str, str], field: str
) -> None:
    response = manager.post(reverse(ADD_KEY), form(stream) | fields)
    assert field in response.context["adminform"].form.errors
    assert not StreamKey.objects.exists()


def test_an_existing_key_is_brought_over(manager: Client, stream: Stream) -> None:
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


def act(client: Client, action: str, *pks: Any, url: str = KEYS) -> Any:
    return client.post(reverse(url), {"action": action, "_selected_action": list(pks)}, follow=True)


def test_revoking(manager: Client, key: NewKey) -> None:
    act(manager, "revoke", key.key.pk)
    assert keys.state(key=StreamKey.objects.get()) == "revoked"
    assert LogEntry.objects.get().change_message == "Revoked."


@pytest.mark.parametrize(("action", "state"), [("rotate_now", "revoked"), ("rotate_with_grace", "active")])
def test_rotating_shows_the_new_key_once(manager: Client, key: NewKey, action: str, state: str) -> None:
    response = act(manager, action, key.key.pk)
    assert "no-store" in response["Cache-Control"]
    secret = secret_on(response.content.decode())
    assert secret != key.secret
    made = keys.find(secret=secret)
    assert made is not None
    assert (made.stream, made.label) == (key.key.stream, "camera")
    old = StreamKey.objects.get(pk=key.key.pk)
    assert keys.state(key=old) == state
    assert keys.state(key=old, now=timezone.now() + timedelta(hours=25)) == "revoked"


def test_rotating_takes_one_key(manager: Client, stream: Stream, key: NewKey) -> None:
    other = keys.create(stream=stream)
    response = act(manager, "rotate_now", key.key.pk, other.key.pk)
    assert "Select one key" in response.content.decode()
    assert StreamKey.objects.count() == 2


def test_a_keys_limit_and_last_use(manager: Client, stream: Stream) -> None:
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
def test_keys_by_state(manager: Client, stream: Stream, state: str) -> None:
    made = {
        "active": keys.create(stream=stream).key,
        "expired": keys.create(stream=stream, expires_at=timezone.now() - timedelta(days=1)).key,
        "disabled": keys.create(stream=stream, enabled=False).key,
        "revoked": keys.create(stream=stream).key,
    }
    keys.revoke(key=made["revoked"])
    found = manager.get(reverse(KEYS), {"state": state}).context["cl"].queryset
    assert list(found) == [made[state]]


# --- History ---


@pytest.fixture
def history(stream: Stream) -> Session:
    node = Node.objects.create(name="node-a")
    session = Session.objects.create(
        kind="publish", app="live", name="cam1", stream=stream, node=node, address="192.0.2.7"
    )
    StatusEvent.objects.create(session=session, sequence=1, kind="onstatus", code="NetStream.Publish.Start")
    Attempt.objects.create(action="publish", app="live", name="cam1", address="192.0.2.9", reason="key_unknown")
    Lease.objects.create(stream=stream, session=session, node=node, expires_at=timezone.now())
    Ban.objects.create(address="192.0.2.9", until=timezone.now(), guesses=10)
    return session


HISTORY = ("session", "statusevent", "attempt", "ban", "node", "lease")


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("model", HISTORY)
def test_history_is_read_only_even_for_a_superuser(admin_client: Client, model: str) -> None:
    row = apps.get_model("ingest", model).objects.get()
    change = reverse(f"admin:ingest_{model}_change", args=[row.pk])
    assert admin_client.get(reverse(f"admin:ingest_{model}_changelist")).status_code == 200
    page = admin_client.get(change)
    assert page.status_code == 200
    assert 'name="_save"' not in page.content.decode()
    assert admin_client.post(change, {}).status_code == 403
    assert admin_client.get(reverse(f"admin:ingest_{model}_add")).status_code == 403
    assert admin_client.post(reverse(f"admin:ingest_{model}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
    assert type(row).objects.count() == 1


@pytest.mark.both_forms
def test_filters_of_sessions_and_attempts(operator: Client, history: Session) -> None:
    sessions_url, attempts_url = reverse("admin:ingest_session_changelist"), reverse("admin:ingest_attempt_changelist")

    def count(url: str, **query: str) -> int:
        response = operator.get(url, query)
        assert response.status_code == 200
        return int(response.context["cl"].queryset.count())

    assert count(sessions_url, now="open") == 1
    assert count(sessions_url, now="ended") == 0
    assert count(sessions_url, kind__exact="play") == 0
    assert count(sessions_url, q=str(history.pk)) == 1
    assert count(sessions_url, q="192.0.2.7") == 1
    assert count(attempts_url, reason="key_unknown") == 1
    assert count(attempts_url, reason="busy") == 0
    assert count(attempts_url, q="192.0.2.9") == 1


def test_an_operator_ends_a_session(operator: Client, history: Session) -> None:
    act(operator, "end_now", history.pk, url="admin:ingest_session_changelist")
    history.refresh_from_db()
    assert history.stop_requested == "kicked"
    assert history.stop_by is not None
    assert history.stop_by.get_username() == "user-operator"


@pytest.mark.parametrize("role", [roles.VIEWER, roles.KEY_MANAGER, roles.ANALYST])
def test_others_do_not(db: None, history: Session, role: str) -> None:
    act(member(role), "end_now", history.pk, url="admin:ingest_session_changelist")
    history.refresh_from_db()
    assert history.stop_requested == ""


# --- Bans ---

BANS = "admin:ingest_ban_changelist"


@pytest.fixture
def ban(db: None) -> Ban:
    return bans.impose(address="192.0.2.7", seconds=600, now=timezone.now(), guesses=10, node="node-a")


@pytest.mark.both_forms
@pytest.mark.parametrize("role", [roles.OPERATOR, roles.KEY_MANAGER, roles.ADMIN])
def test_a_ban_is_lifted(ban: Ban, role: str) -> None:
    client = member(role)
    assert "192.0.2.7" in client.get(reverse(BANS), {"state": "active"}).content.decode()
    answer = act(client, "lift", ban.pk, url=BANS)
    assert "192.0.2.7: heard again within 2 s" in answer.content.decode()
    ban.refresh_from_db()
    assert ban.lifted_by is not None
    assert ban.lifted_by.get_username() == f"user-{role}"
    assert not bans.active(now=timezone.now()).exists()
    assert list(client.get(reverse(BANS), {"state": "over"}).context["cl"].queryset) == [ban]
    assert not client.get(reverse(BANS), {"state": "active"}).context["cl"].queryset.exists()


@pytest.mark.parametrize("role", [roles.VIEWER, roles.ANALYST])
def test_others_see_bans_but_lift_none(ban: Ban, role: str) -> None:
    client = member(role)
    assert "192.0.2.7" in client.get(reverse(BANS)).content.decode()
    act(client, "lift", ban.pk, url=BANS)
    ban.refresh_from_db()
    assert ban.lifted_at is None
    assert client.get(reverse("admin:ingest_ban_add")).status_code == 403


# --- Nodes ---


@pytest.mark.django_db
def test_a_node_is_drained_and_resumed() -> None:
    node, down = Node.objects.create(name="node-a"), Node.objects.create(name="node-b", state=Node.State.DOWN)
    client = member(roles.ADMIN)
    page = act(client, "drain", node.pk, down.pk, url="admin:ingest_node_changelist").content.decode()
    assert "Node node-a is drained" in page
    assert "node-b is down" in page
    node.refresh_from_db()
    assert node.drain_requested_at is not None
    assert node.drain_grace_s == 60
    act(client, "resume", node.pk, url="admin:ingest_node_changelist")
    node.refresh_from_db()
    assert node.drain_requested_at is None


@pytest.mark.django_db
def test_a_node_that_is_down_is_forgotten() -> None:
    up, down = Node.objects.create(name="node-a"), Node.objects.create(name="node-b", state=Node.State.DOWN)
    page = act(member(roles.ADMIN), "forget", up.pk, down.pk, url="admin:ingest_node_changelist").content.decode()
    assert "Node node-b is not missed any more." in page
    assert "node-a is up" in page
    assert list(Node.objects.filter(stopped_at__isnull=False)) == [down]


@pytest.mark.django_db
def test_operators_drain_no_nodes() -> None:
    node = Node.objects.create(name="node-a")
    act(member(roles.OPERATOR), "drain", node.pk, url="admin:ingest_node_changelist")
    node.refresh_from_db()
    assert node.drain_requested_at is None


# --- Outsiders ---


@pytest.mark.parametrize("role", [None, roles.VIEWER, roles.OPERATOR, roles.ANALYST])
def test_without_the_role_no_keys(key: NewKey, stream: Stream, role: str | None) -> None:
    client = member(role)
    urls = (reverse(KEYS), reverse(ADD_KEY), reverse("admin:ingest_streamkey_change", args=[key.key.pk]))
    assert {client.get(url).status_code for url in urls} == {403}
    assert client.post(reverse(ADD_KEY), form(stream)).status_code == 403
    act(client, "revoke", key.key.pk)
    assert keys.state(key=StreamKey.objects.get()) == "active"


def test_strangers_are_sent_to_log_in(client: Client, key: NewKey, stream: Stream) -> None:
    for url in (reverse(KEYS), reverse(ADD_KEY), reverse("admin:ingest_session_changelist")):
        response = client.get(url)
        assert response.status_code == 302
        assert "login" in response["Location"]
    assert client.post(reverse(ADD_KEY), form(stream)).status_code == 302
    assert StreamKey.objects.count() == 1


def test_a_user_who_is_not_staff_is_kept_out(client: Client, key: NewKey) -> None:
    user = User.objects.create_user(username="plain")
    user.groups.add(Group.objects.get(name=roles.KEY_MANAGER))
    client.force_login(user)
    assert client.get(reverse(KEYS)).status_code == 302
