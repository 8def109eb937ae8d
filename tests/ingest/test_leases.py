"""Leases: held, renewed, lost; and if they expired while the database was away, nobody takes a live stream for it."""

import uuid
from datetime import datetime, timedelta
from functools import partial

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from ingest.consumers.active import BREAK, Reach
from ingest.models import Lease, Node, Session, Stream
from ingest.services import keys, leases, nodes, sessions
from ingest.services.admission import NotYet
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from ingest.services.leases import Claim, Knowledge
from ingest.services.refusals import Refused
from tests.ingest.admitting import NOW, at, hold
from tests.ingest.control import Connection, NodeApp
from tests.ingest.faults import at_once
from tests.ingest.test_takeover import publish
from tests.ingest.ticks import is_up

pytestmark = pytest.mark.stores


@pytest.fixture
def node(db: None) -> Node:
    return Node.objects.create(name="node-a")


def session_of(stream: Stream, node: Node) -> uuid.UUID:
    made = Session.objects.create(
        kind="publish", app="live", name=stream.name, stream=stream, node=node, started_at=NOW
    )
    return made.pk


def claim(asked_at: datetime = NOW) -> Claim:
    return Claim(None, None, "192.0.2.7", Stream.Takeover.REJECT, asked_at)


def take(stream: Stream, node: Node, now: datetime = NOW) -> tuple[uuid.UUID, int]:
    session = session_of(stream, node)
    knowledge = Knowledge(now)
    fencing, _ = leases.take(stream=stream.pk, session=session, node=node.pk, claim=claim(now), knowledge=knowledge)
    return session, fencing


def is_free(stream: Stream, now: datetime, known: leases.Standing = "unknown") -> bool:
    try:
        leases.check(stream=stream.pk, claim=claim(now), knowledge=Knowledge(now, lambda session: known))
    except leases.Busy:
        return False
    return True


def test_fencing_numbers_grow_over_release_and_expiry(stream: Stream, node: Node) -> None:
    first, one = take(stream, node)
    leases.release(sessions=[first])
    second, two = take(stream, node)
    late = NOW + timedelta(seconds=10)
    three, former = leases.take(
        stream=stream.pk, session=session_of(stream, node), node=node.pk, claim=claim(), knowledge=Knowledge(late)
    )
    assert (one, two, three) == (1, 2, 3)
    assert former is not None
    assert (former.why, former.session.pk) == ("expired", second)


def test_a_held_lease_is_busy_until_it_expires(stream: Stream, node: Node) -> None:
    take(stream, node)
    with pytest.raises(leases.Busy):
        take(stream, node, NOW + timedelta(seconds=9.9))
    assert not is_free(stream, NOW + timedelta(seconds=9.9))
    assert is_free(stream, NOW + timedelta(seconds=10))


def test_local_knowledge_of_a_session_overrides_the_lease_expiry(stream: Stream, node: Node) -> None:
    take(stream, node)
    late = NOW + timedelta(minutes=1)
    assert not is_free(stream, late, "alive")
    assert is_free(stream, NOW, "ended")
    second = session_of(stream, node)

    def again(now: datetime, known: leases.Standing) -> tuple[int, leases.Former | None]:
        knowledge = Knowledge(now, lambda session: known)
        return leases.take(stream=stream.pk, session=second, node=node.pk, claim=claim(), knowledge=knowledge)

    with pytest.raises(leases.Busy):
        again(late, "alive")
    assert again(NOW, "ended") == (2, None), "who ended was not lost"


def test_releasing_what_another_took_changes_nothing(stream: Stream, node: Node) -> None:
    first, _ = take(stream, node)
    second, _ = take(stream, node, NOW + timedelta(seconds=11))
    leases.release(sessions=[first])
    assert Lease.objects.get().session_id == second


def test_a_node_renews_all_of_its_leases_in_one_statement(
    stream: Stream, node: Node, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    names = [Stream.objects.create(application=stream.application, name=f"many{n}") for n in range(50)]
    held = [take(each, node) for each in names]
    later = NOW + timedelta(seconds=3)
    with django_assert_num_queries(1):
        assert leases.renew(node=node.pk, held=held, now=later) == set()
    assert set(Lease.objects.values_list("expires_at", flat=True)) == {later + leases.TTL}


def test_renewal_returns_the_session_that_lost_its_lease(stream: Stream, node: Node) -> None:
    other = Node.objects.create(name="node-b")
    kept_stream = Stream.objects.create(application=stream.application, name="cam2")
    kept, lost = take(kept_stream, node), take(stream, node)
    take(stream, other, NOW + timedelta(seconds=11))
    assert leases.renew(node=node.pk, held=[kept, lost], now=NOW + timedelta(seconds=12)) == {lost[0]}


def test_a_renewal_brings_back_no_lease_that_another_took(stream: Stream, node: Node) -> None:
    """As when the database was away for longer than a lease, and another node was quicker when it came back."""
    other = Node.objects.create(name="node-b")
    held = take(stream, node)
    successor, fencing = take(stream, other, NOW + timedelta(seconds=11))
    for seconds in (12, 30):  # Nor later, when the successor's lease has expired as well.
        assert leases.renew(node=node.pk, held=[held], now=NOW + timedelta(seconds=seconds)) == {held[0]}
        lease = Lease.objects.get()
        assert (lease.session_id, lease.node_id, lease.fencing) == (successor, other.pk, fencing)
        assert lease.expires_at == NOW + timedelta(seconds=21)


@pytest.mark.django_db(transaction=True)
def test_concurrent_takes_of_a_lease_have_one_winner(stream: Stream, node: Node) -> None:
    contenders = [session_of(stream, node) for _ in range(6)]
    won: list[uuid.UUID] = []
    lost: list[uuid.UUID] = []

    def contend(session: uuid.UUID) -> None:
        try:
            leases.take(stream=stream.pk, session=session, node=node.pk, claim=claim(), knowledge=Knowledge(NOW))
        except leases.Busy:
            lost.append(session)
        else:
            won.append(session)

    at_once(*(partial(contend, session) for session in contenders))
    assert (len(won), len(lost)) == (1, len(contenders) - 1)
    assert Lease.objects.get().session_id == won[0]


def test_a_node_that_comes_back_closes_what_its_former_process_left(stream: Stream) -> None:
    node = nodes.started(name="node-a", address="", now=NOW)
    other = nodes.started(name="node-b", address="", now=NOW)
    left, _ = take(stream, node)
    elsewhere = session_of(stream, other)
    seen = NOW + timedelta(seconds=6)
    nodes.seen(name="node-a", now=seen)
    closed: list[Session] = []
    nodes.started(name="node-a", address="", now=NOW + timedelta(minutes=5), left=closed)
    assert [session.pk for session in closed] == [left]
    session = Session.objects.get(pk=left)
    assert (session.end_reason, session.ended_at) == ("node_lost", seen)
    assert is_free(stream, NOW)
    assert Session.objects.get(pk=elsewhere).ended_at is None


@pytest.mark.parametrize("began", [NOW, NOW + timedelta(hours=1)], ids=["", "by a wrong clock"])
def test_a_dead_node_is_swept(stream: Stream, began: datetime) -> None:
    dead = nodes.started(name="node-a", address="", now=NOW)
    nodes.started(name="node-b", address="", now=NOW + timedelta(minutes=1))
    left, _ = take(stream, dead)
    Session.objects.update(started_at=began)
    assert [session.pk for session in nodes.sweep(now=NOW + timedelta(minutes=1))] == [left]
    assert nodes.sweep(now=NOW + timedelta(minutes=1)) == []
    assert Session.objects.get(pk=left).end_reason == "node_lost"
    assert dict(Node.objects.values_list("name", "state")) == {"node-a": "down", "node-b": "up"}


def test_a_session_ends_once(stream: Stream, node: Node) -> None:
    session, _ = take(stream, node)
    assert sessions.end(session=session, reason="client_unpublish", at=NOW + timedelta(seconds=5)) is True
    assert sessions.end(session=session, reason="tcp_reset", at=NOW + timedelta(seconds=9)) is False
    row = Session.objects.get()
    assert (row.end_reason, row.ended_at) == ("client_unpublish", NOW + timedelta(seconds=5))


BACK = 30.0
"""When the database is back, after NOW, when the publisher began."""


@pytest.fixture
def held(key: NewKey) -> Session:
    """The stream's publisher, with the key, on another node: live, but its lease has expired."""
    return Session.objects.get(pk=publish(key.secret, 0, reached_since=at(-60), node="node-a").session)


@pytest.mark.parametrize("same_key", [False, True])
def test_a_publisher_keeps_its_stream_until_its_node_had_time_to_renew(
    held: Session, stream: Stream, key: NewKey, same_key: bool
) -> None:
    secret = key.secret if same_key else keys.create(stream=stream).secret
    with pytest.raises(NotYet) as caught:
        publish(secret, BACK + 1, reached_since=at(BACK))
    assert caught.value.at == at(BACK + 10)
    assert leases.renew(node=held.node_id or 0, held=[(held.pk, 1)], now=at(BACK + 9)) == set()
    with pytest.raises(Refused, match="busy"):
        publish(secret, BACK + 10, asked=BACK + 1, reached_since=at(BACK))
    held.refresh_from_db()
    assert (held.end_reason, held.stop_requested) == ("", "")


def test_lease_of_a_node_that_died_in_an_outage_is_taken_after_a_delay(held: Session, stream: Stream) -> None:
    secret = keys.create(stream=stream).secret
    with pytest.raises(NotYet):
        publish(secret, BACK + 1, reached_since=at(BACK))
    grant = publish(secret, BACK + 10, asked=BACK + 1, reached_since=at(BACK))
    assert grant.lost is not None
    assert (grant.lost.pk, grant.lost.end_reason) == (held.pk, "node_lost")


def test_publish_is_refused_as_busy_while_the_database_comes_and_goes(held: Session, key: NewKey) -> None:
    with pytest.raises(Refused, match="busy"):
        publish(key.secret, BACK + 9, asked=BACK, reached_since=at(BACK + 8))


def test_silence_noted_before_an_outage_does_not_free_the_stream_at_once(held: Session, key: NewKey) -> None:
    leases.mark_silent(since={held.pk: at(1)})
    with pytest.raises(NotYet):
        publish(key.secret, BACK + 1, reached_since=at(BACK))


def test_replace_policy_takes_over_right_after_an_outage(held: Session, stream: Stream) -> None:
    Stream.objects.update(takeover="replace")
    grant = publish(keys.create(stream=stream).secret, BACK + 1, reached_since=at(BACK))
    assert grant.replaced is not None
    assert grant.replaced.session == held


def test_reach_tells_since_when_the_database_was_writable() -> None:
    found = Reach()
    assert found.since(at(3)) == at(3), "it never could"
    for second in (0, 3, 6, 9):
        found.reached(at(second))
    assert found.since(at(12)) == at(0)
    assert found.since(at(9) + BREAK + timedelta(seconds=0.1)) > at(14), "a write that hangs says nothing"
    found.reached(at(24))
    assert found.since(at(25)) == at(24)


def test_reach_starts_again_after_a_clock_leap() -> None:
    """For all that others wrote before, it tells nothing of them."""
    found = Reach()
    for second in (0, 3, 6, 3606, 3609):
        found.reached(at(second))
    assert found.since(at(3612)) == at(3606)
    found.reached(at(12))
    found.reached(at(15))
    assert found.since(at(18)) == at(12)


@pytest.mark.django_db(transaction=True)
async def test_a_node_that_finds_the_database_again_takes_no_lease_for_expired(
    process: HistoryWriter, stream: Stream, key: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that just started: the outage may have been before."""
    monkeypatch.setattr("ingest.consumers.active.REACH._last", timezone.now() - timedelta(hours=2))
    now = timezone.now()
    live = await sync_to_async(hold)(stream, "node-b", key=key.key, started_at=now, expires_at=now)
    node, spare = NodeApp(), Connection()
    await node.tell("node.started")
    await is_up()
    await spare.connect()
    second = await sync_to_async(keys.create)(stream=stream)
    await spare.tell(spare.publish_event(second.secret))
    assert await spare.app.receive_nothing(1)
    assert (await Lease.objects.aget()).session_id == live.pk
    assert (await Session.objects.aget(pk=live.pk)).ended_at is None
    await spare.disconnect()
    await node.stop()
    assert await Session.objects.acount() == 1
