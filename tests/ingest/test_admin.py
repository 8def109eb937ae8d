"""The admin: who may do what in it, and lists that cost the same however long they are."""

import re
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ingest.admin_site import BoundedPaginator, LongList, RecentValues
from ingest.models import Attempt, Ban, Lease, Node, Session, StatusEvent, Stream
from ingest.services import bans, roles
from tests.dashboard.demo_data import seed_demo_data
from tests.ingest.operators import act, member

# --- Roles ---


@pytest.mark.stores
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
def test_role_grants_its_own_permissions_only(role: str, kicks: bool, keys_: bool, sets_up: bool) -> None:
    user = User.objects.create_user(username="someone")
    user.groups.add(Group.objects.get(name=role))
    assert user.has_perm("ingest.view_session")
    assert user.has_perm("ingest.kick_session") is kicks
    assert user.has_perm("ingest.add_streamkey") is keys_
    assert user.has_perm("ingest.change_application") is sets_up
    assert not user.has_perm("ingest.delete_session")


@pytest.mark.both_forms
@pytest.mark.django_db
def test_granting_role_permissions_again_changes_nothing() -> None:
    before = set(Group.objects.values_list("name", "permissions__codename"))
    roles.grant(apps, roles.PERMISSIONS)
    assert set(Group.objects.values_list("name", "permissions__codename")) == before


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
        "expected_times-TOTAL_FORMS": 0,
        "expected_times-INITIAL_FORMS": 0,
        **fields,
    }


def test_admin_form_saves_changed_stream_settings(admin_client: Client, stream: Stream) -> None:
    url = reverse("admin:ingest_stream_change", args=[stream.pk])
    changes = {"idle_timeout_s": 1, "first_media_timeout_s": 60, "target_kbps": 6000, "takeover": "replace"}
    answer = admin_client.post(url, stream_form(stream, **changes))
    assert answer.status_code == 302
    stream.refresh_from_db()
    assert {name: getattr(stream, name) for name in changes} == changes


def test_stream_with_invalid_legacy_name_can_be_edited_but_not_renamed_alike(
    admin_client: Client, stream: Stream
) -> None:
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
def test_session_and_attempt_lists_filter_by_state_kind_reason_and_search(history: Session) -> None:
    operator = member(roles.OPERATOR)
    sessions_url, attempts_url = reverse("admin:ingest_session_changelist"), reverse("admin:ingest_attempt_changelist")

    def count(url: str, **query: str) -> int:
        response = operator.get(url, query)
        assert response.status_code == 200
        return int(response.context["cl"].queryset.count())

    assert [count(sessions_url, now=state) for state in ("open", "ended")] == [1, 0]
    assert count(sessions_url, kind__exact="play") == 0
    assert [count(sessions_url, q=text) for text in (str(history.pk), "192.0.2.7")] == [1, 1]
    assert [count(attempts_url, reason=reason) for reason in ("key_unknown", "busy")] == [1, 0]
    assert count(attempts_url, q="192.0.2.9") == 1


@pytest.mark.parametrize("role", [roles.OPERATOR, roles.VIEWER, roles.KEY_MANAGER, roles.ANALYST])
def test_operators_end_a_session_and_others_do_not(history: Session, role: str) -> None:
    act(member(role), "end_now", history.pk, url="admin:ingest_session_changelist")
    history.refresh_from_db()
    by = "user-operator" if role == roles.OPERATOR else None
    assert (history.stop_requested, history.stop_by and history.stop_by.get_username()) == ("kicked" if by else "", by)


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
    assert "192.0.2.7: can connect again within 2 s" in answer.content.decode()
    ban.refresh_from_db()
    assert ban.lifted_by == User.objects.get(username=f"user-{role}")
    assert not bans.active(now=timezone.now()).exists()
    assert list(client.get(reverse(BANS), {"state": "over"}).context["cl"].queryset) == [ban]
    assert not client.get(reverse(BANS), {"state": "active"}).context["cl"].queryset.exists()


@pytest.mark.parametrize("role", [roles.VIEWER, roles.ANALYST])
def test_viewers_and_analysts_see_bans_but_cannot_lift_or_add_them(ban: Ban, role: str) -> None:
    client = member(role)
    assert "192.0.2.7" in client.get(reverse(BANS)).content.decode()
    act(client, "lift", ban.pk, url=BANS)
    ban.refresh_from_db()
    assert ban.lifted_at is None
    assert client.get(reverse("admin:ingest_ban_add")).status_code == 403


@pytest.mark.django_db
def test_a_node_is_drained_and_resumed_but_not_by_operators() -> None:
    node, down = Node.objects.create(name="node-a"), Node.objects.create(name="node-b", state=Node.State.DOWN)
    act(member(roles.OPERATOR), "drain", node.pk, url="admin:ingest_node_changelist")
    node.refresh_from_db()
    assert node.drain_requested_at is None
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
    assert "Node node-b is no longer expected." in page
    assert "node-a is up" in page
    assert list(Node.objects.filter(stopped_at__isnull=False)) == [down]


ATTEMPTS = "admin:ingest_attempt_changelist"

ENDLESS = {
    *("ingest.session", "ingest.statusevent", "ingest.attempt", "ingest.ban", "ingest.recording"),
    *("analytics.rollup", "analytics.partition", "analytics.analyticsrun", "analytics.runline"),
    *("analytics.report", "analytics.reportdelivery"),
}

ALL_ROWS = re.compile(r"datetime_trunc|date_trunc|\bMIN\(|\bMAX\(|\bDISTINCT\b|COUNT\((?!.*\bLIMIT \d)", re.IGNORECASE)
"""What reads a table to its end: dates that are gathered, values that are told apart, rows that are all counted."""


@pytest.fixture
def refused(db: None) -> list[Attempt]:
    """Five, the oldest first."""
    now = timezone.now()
    reasons = ("key_unknown", "busy", "busy", "busy", "banned")
    return [
        Attempt.objects.create(at=now, action="publish", app="live", name=f"cam{n}", address="192.0.2.9", reason=reason)
        for n, reason in enumerate(reasons)
    ]


def listed(client: Client, **query: Any) -> Any:
    return client.get(reverse(ATTEMPTS), query).context["cl"]


@pytest.mark.both_forms
def test_admin_lists_of_history_never_query_all_rows(admin_client: Client) -> None:
    admin.autodiscover()  # As the pages' routes do, which may not be loaded yet.
    seed_demo_data()
    found = {
        model._meta.label_lower: model for model, made in admin.site._registry.items() if isinstance(made, LongList)
    }
    assert found.keys() == ENDLESS
    bad: dict[str, str] = {}
    for label in ENDLESS:
        with CaptureQueriesContext(connection) as asked:
            answer = admin_client.get(f"/admin/{label.replace('.', '/')}/")
        assert answer.status_code == 200
        bad |= {each["sql"]: label for each in asked if ALL_ROWS.search(each["sql"])}
    assert bad == {}


def test_admin_list_counts_rows_only_up_to_its_page_limit(
    admin_client: Client, refused: list[Attempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "There are more" not in admin_client.get(reverse(ATTEMPTS)).content.decode()
    monkeypatch.setattr(BoundedPaginator, "most", 3)
    monkeypatch.setattr(admin.site._registry[Attempt], "list_per_page", 2)
    assert "There are more" in admin_client.get(reverse(ATTEMPTS)).content.decode()
    first, second = listed(admin_client), listed(admin_client, p=2)
    assert first.result_count == 3
    assert [*first.result_list, *second.result_list] == refused[:1:-1]
    assert listed(admin_client, reason="key_unknown").result_count == 1


def test_filters_offer_what_the_latest_rows_have(
    admin_client: Client, refused: list[Attempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    def offered() -> list[str]:
        (spec,) = [spec for spec in listed(admin_client).filter_specs if getattr(spec, "field_path", "") == "reason"]
        return [choice["display"] for choice in spec.choices(listed(admin_client))][1:]

    assert offered() == ["banned", "busy", "key_unknown"]
    monkeypatch.setattr(RecentValues, "most", 2)
    assert offered() == ["banned", "busy"]
