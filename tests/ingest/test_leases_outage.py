"""Leases that expired while the database was away: nobody takes a live stream for it."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.consumers.active import BREAK, Reach
from ingest.models import Lease, Node, Session, Stream
from ingest.services import admission, keys, leases
from ingest.services.admission import Grant, NotYet
from ingest.services.authorization import Peer, PublishRequest
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from ingest.services.refusals import Refused
from tests.ingest.control import Connection, NodeApp
from tests.ingest.ticks import is_up

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BACK = 30.0
"""When the database is back, after NOW, when the publisher began."""


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def publish(secret: str, now: float, *, reached: float, asked: float | None = None, node: str = "node-b") -> Grant:
    """`reached`: since when the node could write."""
    return admission.admit_publish(
        session=uuid.uuid4(),
        request=PublishRequest("live", secret, secret, True),
        peer=Peer(address="192.0.2.8", encoder="OBS", node=node, channel=""),
        now=at(now),
        asked_at=at(now if asked is None else asked),
        reached_since=at(reached),
    )


@pytest.fixture
def held(key: NewKey) -> Session:
    """The stream's publisher, with the key, on another node: live, but its lease has expired."""
    return Session.objects.get(pk=publish(key.secret, 0, reached=-60, node="node-a").session)


@pytest.mark.both_forms
@pytest.mark.parametrize("same_key", [False, True])
def test_a_publisher_keeps_its_stream_until_its_node_had_time_to_renew(
    held: Session, stream: Stream, key: NewKey, same_key: bool
) -> None:
    secret = key.secret if same_key else keys.create(stream=stream).secret
    with pytest.raises(NotYet) as caught:
        publish(secret, BACK + 1, reached=BACK)
    assert caught.value.at == at(BACK + 10)
    assert leases.renew(node=held.node_id or 0, held=[(held.pk, 1)], now=at(BACK + 9)) == set()
    with pytest.raises(Refused, match="busy"):
        publish(secret, BACK + 10, asked=BACK + 1, reached=BACK)
    held.refresh_from_db()
    assert (held.end_reason, held.stop_requested) == ("", "")


@pytest.mark.both_forms
def test_a_node_that_died_in_the_outage_is_found_out_afterwards(held: Session, stream: Stream) -> None:
    secret = keys.create(stream=stream).secret
    with pytest.raises(NotYet):
        publish(secret, BACK + 1, reached=BACK)
    grant = publish(secret, BACK + 10, asked=BACK + 1, reached=BACK)
    assert grant.lost is not None
    assert (grant.lost.pk, grant.lost.end_reason) == (held.pk, "node_lost")


@pytest.mark.both_forms
def test_nobody_waits_for_a_database_that_comes_and_goes(held: Session, key: NewKey) -> None:
    with pytest.raises(Refused, match="busy"):
        publish(key.secret, BACK + 9, asked=BACK, reached=BACK + 8)


@pytest.mark.both_forms
def test_a_silence_of_before_the_outage_may_be_over(held: Session, key: NewKey) -> None:
    leases.fell_silent(since={held.pk: at(1)})
    with pytest.raises(NotYet):
        publish(key.secret, BACK + 1, reached=BACK)


def test_the_streams_policy_holds_all_the_same(held: Session, stream: Stream) -> None:
    Stream.objects.update(takeover="replace")
    grant = publish(keys.create(stream=stream).secret, BACK + 1, reached=BACK)
    assert grant.replaced is not None
    assert grant.replaced.session == held.pk


def test_since_when_a_process_could_write() -> None:
    found = Reach()
    assert found.since(at(3)) == at(3), "it never could"
    for second in (0, 3, 6, 9):
        found.reached(at(second))
    assert found.since(at(12)) == at(0)
    assert found.since(at(9) + BREAK + timedelta(seconds=0.1)) > at(14), "a write that hangs says nothing"
    found.reached(at(24))
    assert found.since(at(25)) == at(24)


def test_a_clock_that_leaps_is_a_break() -> None:
    """For all that others wrote before, it tells nothing of them."""
    found = Reach()
    for second in (0, 3, 6, 3606, 3609):
        found.reached(at(second))
    assert found.since(at(3612)) == at(3606)
    found.reached(at(12))
    found.reached(at(15))
    assert found.since(at(18)) == at(12)


@pytest.mark.both_forms
@pytest.mark.django_db(transaction=True)
async def test_a_node_that_finds_the_database_again_takes_no_lease_for_expired(
    process: HistoryWriter, stream: Stream, key: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that just started: the outage may have been before."""
    monkeypatch.setattr("ingest.consumers.active.REACH._last", timezone.now() - timedelta(hours=2))
    other = await Node.objects.acreate(name="node-b")
    live = await Session.objects.acreate(
        kind="publish", app="live", name="cam1", stream=stream, key=key.key, node=other, address="192.0.2.7"
    )
    await Lease.objects.acreate(stream=stream, session=live, node=other, expires_at=timezone.now())
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
