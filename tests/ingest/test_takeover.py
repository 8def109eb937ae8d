"""When a stream is taken over from its publisher: told by time, on the database's rows alone; and a takeover that is
refused after all: the former publisher stays on air."""

import asyncio
import uuid
from contextlib import nullcontext
from typing import Any

import pytest
from django.db import OperationalError

from ingest.consumers.active import ACTIVE, ActiveSession, standing
from ingest.consumers.decisions import WRITE
from ingest.models import Application, Lease, Session, Stream
from ingest.services import admission, keys, leases, sessions
from ingest.services.admission import Ask, Grant, NotYet
from ingest.services.authorization import Peer, PublishRequest
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from ingest.services.refusals import Refused
from tests.ingest.admitting import NOW, at
from tests.ingest.control import Connection
from tests.ingest.faults import limited, locked_database, patient_database, writing

pytestmark = pytest.mark.stores


def publish(
    secret: str,
    now: float = 0.0,
    *,
    asked: float | None = None,
    address: str = "192.0.2.8",
    node: str = "node-b",
    **knows: Any,
) -> Grant:
    """Admit a publisher to live/ by its key, which asked first at `asked`. `knows` are fields of the Knowledge."""
    peer = Peer(address=address, encoder="OBS", node=node, channel="")
    return admission.admit_publish(
        admission.Ask(uuid.uuid4(), PublishRequest("live", secret, secret, True), peer),
        now=at(now),
        asked_at=at(now if asked is None else asked),
        knowledge=leases.Knowledge(at(now), **knows),
    )


def again(secret: str, now: float, **how: Any) -> float:
    """When the service says to ask again, in seconds after NOW."""
    with pytest.raises(NotYet) as caught:
        publish(secret, now, **how)
    return (caught.value.at - NOW).total_seconds()


def takes_over(secret: str, now: float, **how: Any) -> leases.Former:
    """From whom, and why."""
    replaced = publish(secret, now, **how).replaced
    assert replaced is not None
    return replaced


def is_refused(secret: str, now: float, **how: Any) -> bool:
    with pytest.raises(Refused) as caught:
        publish(secret, now, **how)
    return caught.value.reason == "busy"


@pytest.fixture
def held(key: NewKey) -> Session:
    """The stream's publisher, with the key, on another node."""
    return Session.objects.get(pk=publish(key.secret, address="192.0.2.7", node="node-a").session)


def silent_since(seconds: float) -> None:
    session = Lease.objects.get().session_id
    assert session is not None
    leases.mark_silent(since={session: at(seconds)})


def renewed(seconds: float) -> None:
    Lease.objects.update(expires_at=at(seconds) + leases.TTL)


def test_a_silent_publisher_gives_way_to_its_own_key(held: Session, key: NewKey) -> None:
    silent_since(1)
    grant = publish(key.secret, 4.2)
    assert grant.replaced is not None
    assert (grant.replaced.session, grant.replaced.session.address, grant.replaced.why) == (held, "192.0.2.7", "silent")
    assert grant.replaced.silent_s == pytest.approx(3.2)
    assert grant.lost is None
    lease = Lease.objects.get()
    assert (lease.session_id, lease.fencing, lease.silent_since) == (grant.session, 2, None)
    assert sessions.due_to_end(node="node-a", now=at(5)) == [(held.pk, "replaced")]
    assert leases.renew(node=held.node_id or 0, held=[(held.pk, 1)], now=at(5)) == {held.pk}
    assert sessions.end_reasons_of_lost(sessions={held.pk}) == [(held.pk, "replaced")]
    assert sessions.end(session=held.pk, reason="replaced", description="Said the server.")
    held.refresh_from_db()
    assert (held.end_reason, held.end_description) == ("replaced", "Taken over from 192.0.2.8 after 3.2 s of silence.")
    assert Lease.objects.get().session_id == grant.session, "the end of the old one frees nothing"


def test_an_encoder_that_is_back_too_early_waits_for_the_silence_to_be_long_enough(held: Session, key: NewKey) -> None:
    silent_since(1)
    assert again(key.secret, 3) == 4
    assert takes_over(key.secret, 4, asked=3)


def test_encoder_back_before_silence_is_noted_waits_and_then_takes_over(held: Session, key: NewKey) -> None:
    renewed(1)
    assert again(key.secret, 1.2) == pytest.approx(4.7)
    silent_since(1)
    assert takes_over(key.secret, 4.7, asked=1.2)


def test_a_publisher_that_is_live_keeps_its_stream(held: Session, key: NewKey) -> None:
    assert again(key.secret, 1) == 4.5
    renewed(3)
    assert is_refused(key.secret, 4.5, asked=1)
    assert Lease.objects.get().session_id == held.pk


def test_a_publisher_that_speaks_again_keeps_its_stream(held: Session, key: NewKey) -> None:
    silent_since(1)
    assert again(key.secret, 3) == 4
    leases.clear_silent(sessions={held.pk})
    assert again(key.secret, 4, asked=3) == 6.5
    renewed(6)
    assert is_refused(key.secret, 6.5, asked=3)


def test_a_node_that_no_longer_renews_is_waited_for_until_its_lease_expires(held: Session, key: NewKey) -> None:
    """As when it was killed: nobody tells of the silence then."""
    renewed(1)
    assert again(key.secret, 2) == 5.5
    assert again(key.secret, 5.5, asked=2) == 11
    grant = publish(key.secret, 11, asked=2)
    assert grant.replaced is None
    assert grant.lost is not None
    assert (grant.lost.pk, grant.lost.end_reason) == (held.pk, "node_lost")


def test_publish_waits_no_longer_than_a_lease_lives(held: Session, key: NewKey) -> None:
    """However often the publisher falls silent and speaks again."""
    silent_since(8.5)
    assert is_refused(key.secret, 9, asked=1)


HERE: dict[str, Any] = {"node": "node-a", "standing": standing}


@pytest.fixture
def here(held: Session, monkeypatch: pytest.MonkeyPatch) -> ActiveSession:
    key, stream = held.key_id, held.stream_id
    session = ActiveSession(held.pk, "publish", "live", held.name, stream, key, 1, "node-a", held.address, "OBS")
    monkeypatch.setitem(ACTIVE, str(held.pk), session)
    return session


def test_silence_known_locally_counts_though_not_yet_in_the_database(here: ActiveSession, key: NewKey) -> None:
    here.silent_since = at(1)
    assert again(key.secret, 3, **HERE) == 4
    replaced = takes_over(key.secret, 4.2, asked=3, **HERE)
    assert replaced.why == "silent"
    assert replaced.silent_s == pytest.approx(3.2)


def test_publisher_known_locally_to_be_sending_keeps_its_stream(here: ActiveSession, key: NewKey) -> None:
    silent_since(1)
    assert again(key.secret, 4.2, **HERE) == pytest.approx(7.7)
    assert is_refused(key.secret, 7.7, asked=4.2, **HERE)


def test_another_key_does_not_wait(held: Session, stream: Stream) -> None:
    other = keys.create(stream=stream).secret
    assert is_refused(other, 1)
    silent_since(1)
    assert is_refused(other, 9)


def test_keyless_publisher_takes_over_from_a_silent_keyless_one(application: Application) -> None:
    Application.objects.update(publish_policy="open")
    first = publish("cam7")
    silent_since(0)
    assert again("cam7", 1) == 3
    assert takes_over("cam7", 3, address="203.0.113.4").session.pk == first.session
    renewed(6)
    assert is_refused("cam7", 8, asked=4), "from one that is live nobody does"


@pytest.mark.parametrize("same_key", [True, False])
def test_replace_policy_lets_any_newer_publisher_take_over(
    held: Session, stream: Stream, key: NewKey, same_key: bool
) -> None:
    Stream.objects.update(takeover="replace")
    secret = key.secret if same_key else keys.create(stream=stream).secret
    replaced = takes_over(secret, 1)
    assert (replaced.session, replaced.why, replaced.silent_s) == (held, "replace", None)
    assert sessions.due_to_end(node="node-a", now=at(1)) == [(held.pk, "replaced")]


def test_same_address_policy_lets_only_the_same_address_take_over(held: Session, stream: Stream) -> None:
    Stream.objects.update(takeover="same_address")
    other = keys.create(stream=stream).secret
    assert is_refused(other, 1, address="192.0.2.8")
    assert takes_over(other, 1, address="192.0.2.7").why == "same_address"


def test_no_policy_makes_up_for_a_key_that_does_not_work(held: Session, stream: Stream, key: NewKey) -> None:
    Stream.objects.update(takeover="replace")
    keys.revoke(key=key.key)
    with pytest.raises(Refused, match="key_revoked"):
        publish(key.secret, 1)
    assert Lease.objects.get().session_id == held.pk


def test_an_operators_stop_comes_before_a_takeovers(held: Session, key: NewKey) -> None:
    Stream.objects.update(takeover="replace")
    sessions.request_stop(session_id=held.pk, note="Wrong scene.")
    publish(key.secret, 1)
    assert sessions.due_to_end(node="node-a", now=at(1)) == [(held.pk, "kicked")]


def test_silences_of_many_leases_are_noted_in_one_statement(stream: Stream, django_assert_num_queries: object) -> None:
    held = []
    for number in range(20):
        each = Stream.objects.create(application=stream.application, name=f"many{number}")
        held.append(publish(keys.create(stream=each).secret).session)
    since = {session: at(number / 10) for number, session in enumerate(held)}
    with django_assert_num_queries(1):  # type: ignore[operator]
        leases.mark_silent(since=since)
    assert dict(Lease.objects.values_list("session_id", "silent_since")) == since
    with django_assert_num_queries(1):  # type: ignore[operator]
        leases.clear_silent(sessions=held[:19])
    assert Lease.objects.get(silent_since__isnull=False).session_id == held[19]


@pytest.fixture
def replaceable(held: Session) -> Session:
    Stream.objects.update(takeover="replace")
    return held


def test_discarded_takeover_returns_the_lease_to_the_former_publisher(replaceable: Session, key: NewKey) -> None:
    second = publish(key.secret, 1)
    sessions.discard(session=second.session)
    lease = Lease.objects.get()
    assert (lease.session_id, lease.node_id, lease.fencing, lease.silent_since) == (
        replaceable.pk,
        replaceable.node_id,
        1,
        None,
    )
    assert leases.renew(node=replaceable.node_id or 0, held=[(replaceable.pk, 1)], now=NOW) == set()
    assert sessions.due_to_end(node="node-a", now=NOW) == []
    replaceable.refresh_from_db()
    assert (replaceable.stop_requested, replaceable.stop_note) == ("", "")
    assert Session.objects.get() == replaceable


def test_discarded_takeover_restores_the_noted_silence(replaceable: Session, key: NewKey) -> None:
    leases.mark_silent(since={replaceable.pk: NOW})
    second = publish(key.secret, 4)
    assert second.replaced is not None
    sessions.discard(session=second.session, silent_since=second.replaced.silent_since)
    assert Lease.objects.get().silent_since == NOW


@pytest.mark.parametrize("which", [0, 1])
def test_discard_of_one_of_two_takeovers_leaves_the_lease_to_the_other(
    replaceable: Session, key: NewKey, which: int
) -> None:
    taken = [publish(key.secret, 1), publish(key.secret, 2)]
    sessions.discard(session=taken.pop(which).session)
    assert Lease.objects.get().session_id == taken[0].session
    assert sessions.due_to_end(node="node-a", now=NOW) == [(replaceable.pk, "replaced")]
    assert sessions.due_to_end(node="node-b", now=NOW) == []


@pytest.mark.parametrize("ended", [False, True], ids=["is to end anyway", "ended meanwhile"])
def test_discarded_takeover_returns_no_lease_to_an_ending_publisher(
    replaceable: Session, key: NewKey, ended: bool
) -> None:
    if not ended:
        sessions.request_stop(session_id=replaceable.pk)
    second = publish(key.secret, 1)
    if ended:
        sessions.end(session=replaceable.pk, reason="tcp_reset")
    sessions.discard(session=second.session)
    assert Lease.objects.get().session_id is None
    assert sessions.due_to_end(node="node-a", now=NOW) == ([] if ended else [(replaceable.pk, "kicked")])


async def stays(process: HistoryWriter, session_id: str) -> None:
    """Once all is written that was asked for, the session is the only one, has its stream, and is not to end."""
    await asyncio.to_thread(WRITE.submit(int).result, 10)
    assert await asyncio.to_thread(process.flush, 5)
    session = await Session.objects.aget()
    assert (str(session.pk), session.stop_requested, session.ended_at) == (session_id, "", None)
    assert (await Lease.objects.aget()).session_id == session.pk


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("leaves", [False, True])
async def test_a_takeover_that_comes_too_late_displaces_nobody(
    encoder: Connection, process: HistoryWriter, stream: Stream, key: NewKey, leaves: bool
) -> None:
    """The database takes it after the limit, or after the client left."""
    await Stream.objects.aupdate(takeover="replace")
    live = (await encoder.publish(key.secret))["session_id"]
    spare = Connection()
    await spare.connect()
    with patient_database(10):
        with locked_database(), nullcontext() if leaves else limited(1):
            await spare.tell(spare.publish_event(key.secret))
            await writing()
            if leaves:
                await spare.disconnect()
            else:
                assert (await spare.answer())["code"] == "NetStream.Publish.Failed"
        await stays(process, live)
    await encoder.disconnect()


@pytest.mark.django_db(transaction=True)
async def test_a_takeover_whose_answer_was_lost_displaces_nobody(
    encoder: Connection, process: HistoryWriter, stream: Stream, key: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit went through, the connection to the database broke."""
    await Stream.objects.aupdate(takeover="replace")
    live = (await encoder.publish(key.secret))["session_id"]
    admit = admission.admit_publish

    def lose(ask: Ask, **fields: Any) -> Grant:
        admit(ask, **fields)
        raise OperationalError("gone after the commit")

    monkeypatch.setattr(admission, "admit_publish", lose)
    assert (await encoder.publish(key.secret, stream_id=2))["code"] == "NetStream.Publish.Failed"
    await stays(process, live)
    await encoder.disconnect()
