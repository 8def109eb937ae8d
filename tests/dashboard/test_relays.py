"""Push targets and the pull source of a stream on its page, in the API and the admin: set up, started, stopped, and
never with what is secret of them."""

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone

from ingest.models import AuditEntry, Lease, Node, PullSource, PushTarget, Session, StatusEvent, Stream
from ingest.pages import WallFeed, card
from ingest.services import pulls, push_targets, pushes, sealing
from ingest.services.audit import Actor
from tests import snapshots
from tests.dashboard.conftest import make_session, make_stream, put_node, snapshot

pytestmark = pytest.mark.django_db

PAGE = "/streams/live/cam-1/"
API = "/api/v1/streams/live/cam-1"
SERVER = "rtmps://a.rtmps.example.org/live2"
SECRET = "abcd-efgh-ijkl"
SOURCE = "rtmp://bob:hunter2@origin.example.org/app/cam1?token=abcdefgh"
SECRETS = (SECRET, "hunter2", "abcdefgh")
JSON = {"Accept": "application/json"}


def add(stream: Stream, label: str = "YouTube", **values: Any) -> PushTarget:
    target = PushTarget(stream=stream)
    push_targets.save(Actor("test"), target, {"label": label, "url": SERVER, "key": SECRET} | values)
    return target


@pytest.fixture
def target(stream: Stream) -> PushTarget:
    return add(stream)


@pytest.fixture
def live(stream: Stream) -> Session:
    return make_session(stream)


def told(session: Session, target: PushTarget, **fields: Any) -> None:
    """What a node puts into the live store of a push."""
    view = {
        "target": target.pk,
        "state": "live",
        "since": timezone.now().timestamp() - 60,
        "kbps": 2612.0,
        "sent_bytes": 1000,
        "dropped_frames": 0,
        "behind_ms": 0,
        "rtt_ms": 12.0,
        "tries": 0,
        "retry_at": None,
        "failure": "",
        "code": "",
        "description": "",
        "words": "",
        "advice": "",
    } | fields
    put_node(snapshot(target.stream, session_id=str(session.pk), pushes=[view]))


def failed(target: PushTarget, session: Session) -> None:
    PushTarget.objects.filter(pk=target.pk).update(
        state="stopped",
        state_session=session.pk,
        failing_since=timezone.now(),
        failure="refused",
        code="NetStream.Publish.BadName",
        description="Stream name is in use.",
    )


def page(client: Client) -> str:
    return client.get(PAGE).content.decode()


def audited() -> str:
    return json.dumps(list(AuditEntry.objects.values()), default=str)


def test_key_manager_adds_changes_and_deletes_push_targets(manager: Client, stream: Stream) -> None:
    form = {"label": "YouTube", "url": f"{SERVER}/{SECRET}", "key": "", "starts": "hand", "enabled": "on"}
    answer = manager.post(f"{PAGE}push", form, headers=JSON)
    assert (answer.status_code, answer.json()["detail"]) == (201, "The target is added.")
    target = PushTarget.objects.get()
    assert (target.label, target.url, target.starts, target.enabled) == ("YouTube", SERVER, "hand", True)
    assert sealing.unseal("push", target.sealed) == SECRET
    sealed = target.sealed
    change = {"label": "Main", "url": SERVER, "key": "", "starts": "stream"}
    assert manager.post(f"/pushes/{target.pk}/change", change, headers=JSON).status_code == 200
    target.refresh_from_db()
    assert (target.label, target.starts, target.enabled, target.sealed) == ("Main", "stream", False, sealed)
    text = page(manager)
    assert "Main" in text
    assert SERVER in text
    assert SECRET not in text + audited()
    entry = AuditEntry.objects.get(action="push_target.change")
    expected = {"label": ["YouTube", "Main"], "starts": ["hand", "stream"], "enabled": [True, False]}
    assert (entry.target, entry.detail["changed"]) == ("live/cam-1: Main", expected)
    assert manager.post(f"/pushes/{target.pk}/delete", headers=JSON).status_code == 200
    assert not PushTarget.objects.exists()


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"label": ""}, "Enter a name for it"),
        ({"label": "YouTube"}, "Another target of the stream has this name"),
        ({"url": "http://example.org/app"}, "Begin with rtmp:// or rtmps://"),
        ({"url": "rtmp://127.0.0.1/app"}, "RTMPWEB_RELAY_PRIVATE=1 allows those."),
        ({"key": ""}, "application"),
        ({"starts": "never"}, "is not a valid choice"),
    ],
)
def test_invalid_push_target_is_refused_with_a_reason(
    manager: Client, target: PushTarget, form: dict[str, str], words: str
) -> None:
    given = {"label": "Twitch", "url": "rtmp://live.example.org/app", "key": "k-1", "starts": "stream"} | form
    if form == {"key": ""}:
        given["url"] = "rtmp://live.example.org"
    answer = manager.post(f"{PAGE}push", given, headers=JSON)
    assert answer.status_code == 409
    assert words in answer.json()["detail"]
    assert PushTarget.objects.count() == 1


def test_a_key_is_sent_to_the_server_that_it_was_entered_for_alone(manager: Client, target: PushTarget) -> None:
    change = {"label": "YouTube", "url": "rtmp://evil.example.org/live2", "key": "", "starts": "stream"}
    answer = manager.post(f"/pushes/{target.pk}/change", change, headers=JSON)
    assert (answer.status_code, answer.json()["detail"]) == (409, push_targets.KEY_AGAIN)
    target.refresh_from_db()
    assert target.url == SERVER


def test_a_stream_has_so_many_targets(stream: Stream) -> None:
    for number in range(push_targets.MOST_TARGETS):
        add(stream, f"Target {number}")
    with pytest.raises(ValidationError, match="10 targets at most"):
        add(stream, "One more")


def test_an_operator_starts_and_stops_while_somebody_publishes(operator: Client, stream: Stream) -> None:
    target = add(stream, starts="hand")
    off_air = operator.post(f"/pushes/{target.pk}/start", headers=JSON)
    assert (off_air.status_code, off_air.json()["detail"]) == (409, push_targets.OFF_AIR)
    assert ">Start<" not in page(operator)
    session = make_session(stream)
    assert "Start<span" in page(operator)
    started = operator.post(f"/pushes/{target.pk}/start", headers=JSON)
    assert (started.status_code, started.json()["detail"]) == (200, "The push to YouTube starts.")
    target.refresh_from_db()
    assert (target.asked, target.asked_for, target.state) == ("start", session.pk, "connecting")
    text = page(operator)
    assert "Stop<span" in text
    assert "Start<span" not in text
    assert operator.post(f"/pushes/{target.pk}/stop", headers=JSON).status_code == 200
    target.refresh_from_db()
    assert (target.asked, target.state, target.failing_since) == ("stop", "stopped", None)
    events = StatusEvent.objects.filter(session=session, kind="operator.push").order_by("sequence")
    assert [(event.code, event.description, event.detail["by"]) for event in events] == [
        ("start", "YouTube", "omar"),
        ("stop", "YouTube", "omar"),
    ]
    PushTarget.objects.update(enabled=False)
    assert operator.post(f"/pushes/{target.pk}/start", headers=JSON).json()["detail"] == push_targets.DISABLED
    assert operator.post(f"{PAGE}push", {}, headers=JSON).status_code == 403


def test_the_page_says_how_each_push_goes(manager: Client, target: PushTarget, live: Session) -> None:
    assert "Starting" in page(manager)
    told(live, target)
    text = page(manager)
    assert "2,612 kbit/s" in text
    assert "Live" in text
    failed(target, live)
    told(live, target, state="stopped", kbps=0.0)
    text = page(manager)
    for words in (
        "Failed",
        "The key is in use already, or wrong.",
        "Stop the other encoder that uses this key",
        "It said: “Stream name is in use.”",
        "Try again",
    ):
        assert words in text
    assert 'id="pushes"' in text


def test_push_failure_of_a_former_session_is_not_shown(manager: Client, target: PushTarget) -> None:
    before = make_session(target.stream, ended_ago_s=30)
    failed(target, before)
    assert "The key is in use already" not in page(manager)
    make_session(target.stream)
    assert "The key is in use already" not in page(manager)


def test_viewer_sees_no_empty_push_and_pull_sections(viewer: Client, stream: Stream) -> None:
    text = page(viewer)
    assert "Pushed to" not in text
    assert "Pulled from" not in text
    add(stream)
    text = page(viewer)
    assert "Pushed to" in text
    assert 'data-do="open:push"' not in text


def test_the_source_is_set_changed_and_removed_and_its_secrets_never_come_back(manager: Client, stream: Stream) -> None:
    answer = manager.post(f"{PAGE}pull", {"url": SOURCE, "when": "demand", "enabled": "on"}, headers=JSON)
    assert answer.status_code == 200
    source = PullSource.objects.get()
    assert (source.shown, source.when) == ("rtmp://…@origin.example.org/app/cam1?…", "demand")
    assert "Waits for players" in page(manager)
    assert manager.post(f"{PAGE}pull", {"url": "", "when": "always"}, headers=JSON).status_code == 200
    source.refresh_from_db()
    assert (source.when, source.enabled) == ("always", False)
    PullSource.objects.update(
        enabled=True, state="retrying", failure="connect", description="Nobody answers at origin.example.org."
    )
    text = page(manager)
    assert "Tries again" in text
    assert "Nobody answers there." in text
    refused = manager.post(f"{PAGE}pull", {"url": "rtmp://example.org/app", "when": "always"}, headers=JSON)
    assert refused.status_code == 409
    make_session(stream, is_pull=True, encoder=f"Pull: {source.shown}")
    text = page(manager)
    assert ">Live</span>" in text.partition('id="pull"')[2]
    assert ">Pulled</span>" in text
    assert ">Pulled</span>" in manager.get("/sessions/").content.decode()
    for secret in SECRETS[1:]:
        assert secret not in page(manager) + audited()
    assert manager.post(f"/pulls/{source.pk}/delete", headers=JSON).status_code == 200
    assert not PullSource.objects.exists()


def test_without_a_script_each_form_leads_back_and_says_what_was_done(manager: Client, target: PushTarget) -> None:
    answer = manager.post(f"/pushes/{target.pk}/delete", follow=True)
    assert answer.redirect_chain == [(PAGE, 302)]
    assert "The target is removed" in answer.content.decode()


# --- What nodes ask ---


@pytest.mark.both_forms
def test_a_node_asks_for_the_targets_of_what_it_publishes(target: PushTarget) -> None:
    other = make_stream("cam-2")
    of_other = add(other)
    add(target.stream, "Off", enabled=False)
    assert pushes.targets_on(node="n1") == []
    session = make_session(target.stream)
    make_session(other, node=Node.objects.create(name="n2"))
    push_targets.start(Actor("test"), target)
    (found,) = pushes.targets_on(node="n1")
    assert (found.pk, found.label, found.url, found.asked, found.asked_for) == (
        target.pk,
        "YouTube",
        SERVER,
        "start",
        session.pk,
    )
    assert found.turn == target.asked_at
    assert [each.pk for each in pushes.targets_on(node="n2")] == [of_other.pk]
    make_session(other, is_test=True)
    assert [each.pk for each in pushes.targets_on(node="n1")] == [target.pk]


@pytest.mark.both_forms
def test_push_start_or_stop_carries_over_to_a_prompt_reconnect_only(stream: Stream) -> None:
    targets = [add(stream, label) for label in ("A", "B", "C")]
    short, long = make_session(stream, age_s=100, ended_ago_s=65), make_session(stream, age_s=900, ended_ago_s=300)
    now = make_session(stream, age_s=60)
    for target, former in zip(targets, (short, long, None), strict=True):
        asked_for = former.pk if former is not None else uuid.uuid4()
        PushTarget.objects.filter(pk=target.pk).update(asked="stop", asked_for=asked_for)
    pushes.carry_over({target.pk: now.pk for target in targets})
    found = dict(PushTarget.objects.values_list("label", "asked_for"))
    assert found == {"A": now.pk, "B": None, "C": None}
    assert set(PushTarget.objects.values_list("label", "asked")) == {("A", "stop"), ("B", ""), ("C", "")}


@pytest.mark.both_forms
def test_pull_candidates_exclude_disabled_leased_and_undemanded_sources(stream: Stream) -> None:
    node, other = Node.objects.get_or_create(name="n1")[0], Node.objects.create(name="n2")
    streams = {name: make_stream(name) for name in ("free", "mine", "theirs", "lost", "demand", "off")}
    now = timezone.now()
    for name, at in (("mine", node), ("theirs", other), ("lost", other)):
        expires = now + timedelta(seconds=-60 if name == "lost" else 60)
        session = make_session(streams[name], node=at)
        Lease.objects.create(stream=streams[name], session=session, node=at, expires_at=expires)
    Lease.objects.create(stream=streams["free"], session=None, expires_at=now + timedelta(seconds=60))
    for name, each in streams.items():
        values = {"url": SOURCE, "when": "demand" if name == "demand" else "always", "enabled": name != "off"}
        pulls.save(Actor("test"), PullSource(stream=each), values)

    def found(*waiting: str) -> set[str]:
        return {row.path for row in pulls.candidates(node="n1", waiting=set(waiting), now=now)}

    assert found() == {"live/free", "live/mine", "live/lost"}
    holders = {row.path: row.session for row in pulls.candidates(node="n1", waiting=(), now=now)}
    assert [path for path, session in holders.items() if session] == ["live/mine"]
    assert found("live/demand", "live/theirs") == {"live/free", "live/mine", "live/lost", "live/demand"}
    Stream.objects.filter(name="free").update(enabled=False)
    assert found() == {"live/mine", "live/lost"}
    edge = Node.objects.create(name="edge", role=Node.Role.EDGE)
    player = make_session(streams["demand"], kind="play", node=edge)
    assert found() == {"live/mine", "live/lost", "live/demand"}
    assert found("live/demand") == {"live/mine", "live/lost", "live/demand"}
    Session.objects.filter(pk=player.pk).update(ended_at=now)
    assert found() == {"live/mine", "live/lost"}
    Node.objects.filter(name="n1").update(role=Node.Role.EDGE)
    assert found("live/demand", "other/lost") == {"live/mine"}


# --- The API ---


def call(client: Client, method: str, path: str, body: Any = None) -> Any:
    return client.generic(method, path, json.dumps(body) if body is not None else "", "application/json")


def test_api_manages_starts_and_stops_push_targets(admin: Client, stream: Stream) -> None:
    made = call(admin, "POST", f"{API}/pushes", {"label": "YouTube", "url": f"{SERVER}/{SECRET}"})
    assert made.status_code == 201
    pk = made.json()["id"]
    assert made.json() == {
        "id": pk,
        "label": "YouTube",
        "url": SERVER,
        "starts": "stream",
        "enabled": True,
        "state": "",
        "since": None,
        "kbps": None,
        "retry_at": None,
        "failure": "",
        "code": "",
        "answer": "",
        "problem": "",
        "advice": "",
    }
    session, one = make_session(stream), f"{API}/pushes/{pk}"
    target = PushTarget.objects.get()
    failed(target, session)
    found = call(admin, "GET", one).json()
    assert (found["state"], found["failure"], found["answer"]) == ("stopped", "refused", "Stream name is in use.")
    assert found["problem"] == "the key is in use already, or wrong"
    assert call(admin, "POST", f"{one}/start").json()["state"] == "connecting"
    assert call(admin, "POST", f"{one}/stop").json()["state"] == "stopped"
    told(session, target)
    assert call(admin, "PATCH", one, {"starts": "hand", "key": "new-key-99"}).json()["starts"] == "hand"
    target.refresh_from_db()
    assert sealing.unseal("push", target.sealed) == "new-key-99"
    problem = call(admin, "PATCH", one, {"url": "rtmp://10.0.0.1/app/k"})
    assert (problem.status_code, "RTMPWEB_RELAY_PRIVATE" in problem.json()["detail"]) == (409, True)
    listed = call(admin, "GET", f"{API}/pushes").json()
    assert (listed["count"], [row["id"] for row in listed["items"]]) == (1, [pk])
    assert call(admin, "GET", f"{API}/pushes/{pk + 1}").status_code == 404
    assert call(admin, "DELETE", one).status_code == 204
    assert call(admin, "POST", f"{one}/start").status_code == 404


def test_api_sets_changes_and_deletes_the_pull_source(admin: Client, stream: Stream) -> None:
    assert call(admin, "GET", f"{API}/pull").status_code == 404
    put = call(admin, "PUT", f"{API}/pull", {"url": SOURCE, "when": "demand"})
    assert put.status_code == 200
    assert (put.json()["source"], put.json()["when"]) == ("rtmp://…@origin.example.org/app/cam1?…", "demand")
    assert call(admin, "PUT", f"{API}/pull", {"when": "always"}).json()["when"] == "always"
    assert call(admin, "PUT", f"{API}/pull", {"url": "rtmp://example.org/app"}).status_code == 409
    for secret in SECRETS:
        assert secret not in call(admin, "GET", f"{API}/pull").content.decode()
    assert call(admin, "DELETE", f"{API}/pull").status_code == 204
    assert call(admin, "DELETE", f"{API}/pull").status_code == 404


# --- The wall ---


def test_wall_card_has_push_counts_without_the_targets(target: PushTarget) -> None:
    now = snapshots.snapshot(target.stream_id, pushes=[{"target": target.pk}], pushing={"live": 1, "failing": 0})
    assert card(now)["pushing"] == {"live": 1, "failing": 0}
    assert "pushes" not in card(now)
    assert "pushing" not in card(snapshots.snapshot(target.stream_id))


@pytest.mark.django_db(transaction=True)
async def test_wall_receives_a_changed_push_count_at_once() -> None:
    before, now = snapshots.snapshot(1), snapshots.snapshot(1, pushing={"live": 0, "failing": 1})
    changes = json.loads(await WallFeed().changes({1: before}, {1: now}))
    assert changes[0]["pushing"] == {"live": 0, "failing": 1}


# --- The admin ---


def test_admin_manages_push_targets_and_pull_sources_without_secrets(boss: Client, stream: Stream) -> None:
    form = {"stream": stream.pk, "label": "YouTube", "url": SERVER, "key": SECRET, "starts": "stream", "enabled": "on"}
    assert boss.post("/admin/ingest/pushtarget/add/", form).status_code == 302
    target = PushTarget.objects.get()
    change = f"/admin/ingest/pushtarget/{target.pk}/change/"
    assert boss.post(change, {"label": "Main", "url": SERVER, "key": "", "starts": "hand"}).status_code == 302
    target.refresh_from_db()
    assert (target.label, sealing.unseal("push", target.sealed)) == ("Main", SECRET)
    again = boss.post("/admin/ingest/pushtarget/add/", form | {"label": "Main"})
    assert "Another target of the stream has this name" in again.content.decode()
    refused = boss.post(change, {"label": "Main", "url": "rtmp://b.example.org/app", "key": "", "starts": "hand"})
    assert "enter the key again" in refused.content.decode()
    source = {"stream": stream.pk, "url": SOURCE, "when": "always", "enabled": "on"}
    assert boss.post("/admin/ingest/pullsource/add/", source).status_code == 302
    pull = PullSource.objects.get()
    pages = [
        boss.get(f"/admin/ingest/{path}").content.decode()
        for path in ("pushtarget/", f"pushtarget/{target.pk}/change/", "pullsource/", f"pullsource/{pull.pk}/change/")
    ]
    for secret in (*SECRETS, target.sealed, pull.sealed):
        assert all(secret not in text for text in (*pages, audited()))
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["push_target.create", "push_target.change", "pull_source.create"]
    for path in (f"pushtarget/{target.pk}", f"pullsource/{pull.pk}"):
        assert boss.post(f"/admin/ingest/{path}/delete/", {"post": "yes"}).status_code == 302
    assert list(actions.all())[3:] == ["push_target.delete", "pull_source.delete"]


def test_targets_and_source_go_with_their_stream(admin: Client, target: PushTarget) -> None:
    PushTarget.objects.update(state_session=uuid.uuid4(), failing_since=timezone.now() - timedelta(days=1))
    call(admin, "PUT", f"{API}/pull", {"url": SOURCE})
    goes = call(admin, "DELETE", f"{API}?dry_run=true").json()["goes"]
    assert goes["push_targets"] == 1
    assert call(admin, "DELETE", API).status_code == 204
    assert not PushTarget.objects.exists()
    assert not PullSource.objects.exists()
