"""A takeover that is refused after all: the former publisher stays on air."""

import asyncio
import uuid
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError

from ingest.consumers.decisions import WRITE
from ingest.models import Lease, Session, Stream
from ingest.services import admission, leases, sessions
from ingest.services.admission import Grant
from ingest.services.authorization import Peer, PublishRequest
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.control import Connection
from tests.ingest.faults import limited, locked_database, patient_database, writing

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def publish(secret: str, seconds: float = 0, node: str = "node-b", address: str = "192.0.2.8") -> Grant:
    return admission.admit_publish(
        session=uuid.uuid4(),
        request=PublishRequest("live", secret, secret, True),
        peer=Peer(address=address, encoder="OBS", node=node, channel=""),
        now=at(seconds),
        asked_at=at(seconds),
    )


@pytest.fixture
def held(key: NewKey) -> Session:
    Stream.objects.update(takeover="replace")
    return Session.objects.get(pk=publish(key.secret, node="node-a", address="192.0.2.7").session)


@pytest.mark.both_forms
def test_the_former_publisher_has_its_stream_again(held: Session, key: NewKey) -> None:
    second = publish(key.secret, 1)
    sessions.discard(session=second.session)
    lease = Lease.objects.get()
    assert (lease.session_id, lease.node_id, lease.fencing, lease.silent_since) == (held.pk, held.node_id, 1, None)
    assert leases.renew(node=held.node_id or 0, held=[(held.pk, 1)], now=NOW) == set()
    assert sessions.due_to_end(node="node-a", now=NOW) == []
    held.refresh_from_db()
    assert (held.stop_requested, held.stop_note) == ("", "")
    assert Session.objects.get() == held


def test_its_silence_is_still_known(held: Session, key: NewKey) -> None:
    leases.fell_silent(since={held.pk: NOW})
    second = publish(key.secret, 4)
    assert second.replaced is not None
    sessions.discard(session=second.session, silent_since=second.replaced.silent_since)
    assert Lease.objects.get().silent_since == NOW


def test_of_several_the_last_one_has_it_again(held: Session, key: NewKey) -> None:
    second, third = publish(key.secret, 1), publish(key.secret, 2)
    sessions.discard(session=third.session)
    assert Lease.objects.get().session_id == second.session
    assert sessions.due_to_end(node="node-a", now=NOW) == [(held.pk, "replaced")]
    assert sessions.due_to_end(node="node-b", now=NOW) == []


@pytest.mark.both_forms
def test_who_took_over_meanwhile_keeps_it(held: Session, key: NewKey) -> None:
    second, third = publish(key.secret, 1), publish(key.secret, 2)
    sessions.discard(session=second.session)
    assert Lease.objects.get().session_id == third.session
    assert sessions.due_to_end(node="node-a", now=NOW) == [(held.pk, "replaced")]


@pytest.mark.both_forms
def test_who_is_to_end_anyway_gets_nothing_back(held: Session, key: NewKey) -> None:
    sessions.request_stop(session_id=held.pk)
    sessions.discard(session=publish(key.secret, 1).session)
    assert Lease.objects.get().session_id is None
    assert sessions.due_to_end(node="node-a", now=NOW) == [(held.pk, "kicked")]


@pytest.mark.both_forms
def test_who_ended_meanwhile_gets_nothing_back(held: Session, key: NewKey) -> None:
    second = publish(key.secret, 1)
    sessions.end(session=held.pk, reason="tcp_reset")
    sessions.discard(session=second.session)
    assert Lease.objects.get().session_id is None


async def stays(process: HistoryWriter, session_id: str) -> None:
    """Once all is written that was asked for, the session is the only one, has its stream, and is not to end."""
    await asyncio.to_thread(WRITE.submit(int).result, 10)
    assert await asyncio.to_thread(process.flush, 5)
    session = await Session.objects.aget()
    assert (str(session.pk), session.stop_requested, session.ended_at) == (session_id, "", None)
    assert (await Lease.objects.aget()).session_id == session.pk


@pytest.mark.both_forms
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
        with locked_database(), nullcontext() if leaves else limited(3):
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

    def lose(**fields: Any) -> Grant:
        admit(**fields)
        raise OperationalError("gone after the commit")

    monkeypatch.setattr(admission, "admit_publish", lose)
    assert (await encoder.publish(key.secret, stream_id=2))["code"] == "NetStream.Publish.Failed"
    await stays(process, live)
    await encoder.disconnect()
