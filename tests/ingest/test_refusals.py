"""What is refused: by the rules, and while the database is slow or broken."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.db import InterfaceError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from ingest import log_records
from ingest.consumers import decisions
from ingest.consumers.active import ACTIVE
from ingest.consumers.admissions import SINGLY, Single
from ingest.consumers.decisions import READ, WRITE, decide_or_refuse
from ingest.consumers.journal import FAILURES_S
from ingest.models import Attempt, Lease, Session, StatusEvent, Stream
from ingest.services import keys
from ingest.services.admission import Ask
from ingest.services.authorization import Peer, PublishRequest
from ingest.services.keys import NewKey
from ingest.services.refusals import Refused
from tests.ingest.admitting import hold
from tests.ingest.control import NODE, Connection, connected, disconnect, flush
from tests.ingest.faults import (
    held,
    limited,
    locked_database,
    missing_table,
    patient_database,
    writing,
)
from tests.ingest.ticks import until

pytestmark = pytest.mark.usefixtures("process")


async def until_accepted(connection: Connection, key: NewKey) -> dict[str, Any]:
    """Publish again and again until the stream is free."""
    async with asyncio.timeout(10):
        while (answer := await connection.publish(key.secret))["type"] != "rtmp.publish.accept":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return answer


@pytest.mark.usefixtures("application")
async def test_connect_to_an_unknown_application_is_refused_and_recorded() -> None:
    connection = Connection(app="other")
    answer = await connection.connect()
    assert (answer["type"], answer["code"]) == ("rtmp.reject", "NetConnection.Connect.InvalidApp")
    await connection.disconnect("rejected")
    flush()
    attempt = await Attempt.objects.aget()
    assert (attempt.action, attempt.app, attempt.reason) == ("connect", "other", "unknown_app")
    assert (attempt.address, attempt.encoder, attempt.node) == (
        "192.0.2.7",
        "FMLE/3.0 (compatible; FMSc/1.0)",
        "node-a",
    )


@pytest.mark.usefixtures("application")
@pytest.mark.parametrize(("app", "shown"), [("live", "live"), ("other", "o…")])
async def test_the_log_has_the_name_of_an_application_that_there_is(
    caplog: pytest.LogCaptureFixture, app: str, shown: str
) -> None:
    """Any other may be a key by mistake."""
    caplog.set_level("INFO")
    connection = Connection(app=app)
    assert (await connection.connect(keys.generate()))["type"] == "rtmp.reject"
    await connection.disconnect("rejected")
    assert f"A connect of {shown} from 192.0.2.7 refused" in caplog.text


async def test_publish_with_a_wrong_key_is_refused_and_recorded(encoder: Connection) -> None:
    event = encoder.publish_event(keys.generate())
    answer = await encoder.ask(event)
    assert (answer["type"], answer["code"]) == ("rtmp.publish.reject", "NetStream.Publish.Denied")
    assert answer["request_id"] == event["request_id"]
    await encoder.disconnect("rejected")
    flush()
    attempt = await Attempt.objects.aget()
    assert (attempt.action, attempt.reason, attempt.code) == ("publish", "key_unknown", "NetStream.Publish.Denied")
    assert not await Session.objects.aexists()


@pytest.mark.parametrize("reason", ["protocol_error", "idle_timeout", "tcp_reset"])
async def test_a_connection_that_comes_to_nothing_is_one_attempt(reason: str) -> None:
    scanner = Connection(app="")
    await scanner.disconnect(reason)
    flush()
    attempt = await Attempt.objects.aget()
    assert (attempt.action, attempt.reason) == ("connect", reason)


# --- The database is slow or broken ---


@pytest.mark.both_forms
async def test_admission_completed_after_the_time_limit_is_undone(encoder: Connection, key: NewKey) -> None:
    """The lock outlasts the limit but not the statement's own patience: the thread admits, and nobody is there."""
    with patient_database(10):
        with locked_database(), limited(0.5):
            answer = await encoder.publish(key.secret)
            assert (answer["type"], answer["code"]) == ("rtmp.publish.reject", "NetStream.Publish.Failed")
        late = Connection()
        await late.connect()
        answer = await until_accepted(late, key)
    assert answer["type"] == "rtmp.publish.accept"
    flush()
    assert [str(session.pk) async for session in Session.objects.all()] == [answer["session_id"]]
    assert str((await Lease.objects.aget()).session_id) == answer["session_id"]
    await late.disconnect()
    await encoder.disconnect("rejected")


@pytest.mark.both_forms
async def test_a_kick_does_not_wait_behind_a_validation(encoder: Connection, key: NewKey, other_key: NewKey) -> None:
    first = await encoder.publish(key.secret, stream_id=1)
    with patient_database(20), locked_database():
        await encoder.tell(encoder.publish_event(other_key.secret, stream_id=2))
        await writing()
        layer = get_channel_layer()
        channel = (await Session.objects.aget()).channel
        await layer.send(channel, {"type": "session.stop", "session_id": first["session_id"], "reason": "kicked"})
        assert await encoder.answer() == {"type": "rtmp.close", "reason": "kicked"}
        assert encoder.app.output_queue.empty()
    assert (await encoder.answer())["type"] == "rtmp.publish.accept"
    await encoder.disconnect()


async def test_loss_of_a_former_session_is_recorded_though_its_successor_left(stream: Stream, key: NewKey) -> None:
    """The publisher that left is undone; that it found the former one's lease expired is not."""
    now = timezone.now()
    lost = await sync_to_async(hold)(stream, "node-b", started_at=now, expires_at=now)
    request, peer = PublishRequest("live", "rk_…", key.secret, True), Peer("192.0.2.7", "OBS", NODE, "")
    single = Single(Ask(uuid.uuid4(), request, peer), timezone.now(), asyncio.get_running_loop())
    with patient_database(10), locked_database(), limited(8):
        successor = asyncio.create_task(SINGLY.ask(single))
        await writing()
        successor.cancel()
    await until(StatusEvent.objects.filter(session=lost, kind="session.ended", code="node_lost").exists)
    await until(Lease.objects.filter(session=None).exists)
    assert [session.pk async for session in Session.objects.all()] == [lost.pk]


@pytest.mark.stores
async def test_a_database_that_hangs_leaves_nothing_behind(encoder: Connection, key: NewKey) -> None:
    """It holds every thread, then goes on: what was asked meanwhile was refused, and is not done any more."""
    players = await connected(5)
    with held(READ), held(WRITE), limited(0.5):
        for player in players:
            await player.tell(player.play_event("cam1"))
        answers = [await encoder.publish(key.secret), *[await player.answer() for player in players]]
        assert {answer["type"] for answer in answers} == {"rtmp.publish.reject", "rtmp.play.reject"}
    assert (await encoder.publish(key.secret))["type"] == "rtmp.publish.accept"
    flush()
    session = await Session.objects.aget()
    assert (await Lease.objects.aget()).session_id == session.pk
    await disconnect(encoder, *players)


@pytest.mark.both_forms
async def test_number_of_players_waiting_for_a_hanging_database_is_bounded(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "MAX_UNDONE", 3)
    players = await connected(5)
    with held(READ):
        for number, player in enumerate(players):
            await player.tell(player.play_event(f"cam{number}"))
        for player in players[3:]:
            assert (await player.answer())["code"] == "NetStream.Play.Failed"
    assert [(await player.answer())["type"] for player in players[:3]] == [
        "rtmp.play.reject",
        "rtmp.play.accept",
        "rtmp.play.reject",
    ]
    assert (await players[4].play("cam1"))["type"] == "rtmp.play.accept"
    await disconnect(*players)


async def test_a_client_that_leaves_before_the_answer_leaves_nothing(encoder: Connection, key: NewKey) -> None:
    with locked_database():
        await encoder.tell(encoder.publish_event(key.secret))
        await writing()
        await encoder.disconnect()
    assert not ACTIVE
    second = Connection()
    await second.connect()
    assert (await until_accepted(second, key))["type"] == "rtmp.publish.accept"
    flush()
    assert await Session.objects.acount() == 1
    await second.disconnect()


@contextmanager
def closed_connection() -> Iterator[None]:
    def ensure(self: BaseDatabaseWrapper) -> None:
        raise InterfaceError("connection already closed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseWrapper, "ensure_connection", ensure)
        yield


@pytest.mark.both_forms
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (locked_database, "database_slow"),
        (lambda: missing_table("ingest_streamkey"), "database_error"),
        (closed_connection, "database_error"),
    ],
    ids=["locked", "without tables", "a closed connection"],
)
async def test_a_faulty_database_refuses_and_never_admits(
    encoder: Connection, key: NewKey, fault: Callable[[], Any], reason: str
) -> None:
    with fault():
        answer = await encoder.publish(key.secret)
    assert (answer["type"], answer["code"]) == ("rtmp.publish.reject", "NetStream.Publish.Failed")
    await encoder.disconnect("rejected")
    flush()
    assert (await Attempt.objects.aget()).reason == reason
    assert not await Session.objects.aexists()
    assert not await Lease.objects.filter(session__isnull=False).aexists()


@pytest.mark.parametrize("error", [OperationalError("gone"), KeyError("x")], ids=["database", "own fault"])
async def test_a_flood_while_nothing_can_be_decided_fills_no_log(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic() + 10  # A test before this one may have had this second's line.
    monkeypatch.setattr(log_records, "time", SimpleNamespace(monotonic=lambda: now))

    async def fail(_deadline: float) -> None:
        raise error

    async def refuse() -> None:
        with pytest.raises(Refused):
            await decide_or_refuse("publish", fail)

    for _ in range(200):
        await refuse()
    assert len(caplog.records) == FAILURES_S
    assert type(error).__name__ in caplog.text
    now += 1
    for _ in range(200):
        await refuse()
    assert len(caplog.records) == 2 * FAILURES_S
