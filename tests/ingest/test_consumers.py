import asyncio
import logging
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from asgiref.sync import sync_to_async
from channels.layers import channel_layers, get_channel_layer
from django.db import InterfaceError, connections
from django.db import connection as database
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from ingest import history
from ingest.consumers.active import ACTIVE
from ingest.consumers.database import WRITE
from ingest.history import HistoryWriter
from ingest.models import Application, Attempt, Lease, Session, StatusEvent, Stream
from ingest.services import keys, sessions
from ingest.services.keys import NewKey
from ingest.telemetry import TelemetryWriter, set_writer
from tests.ingest.control import TOTALS, Connection
from tests.redis_server import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def encoder(process: HistoryWriter, key: NewKey) -> AsyncIterator[Connection]:
    """A connected encoder."""
    made = Connection()
    assert await made.connect() == {"type": "rtmp.accept"}
    yield made
    made.app.stop(exceptions=False)


@contextmanager
def locked_database() -> Iterator[None]:
    """Another program holds the database's write lock."""
    other = sqlite3.connect(database.settings_dict["NAME"], isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    finally:
        other.close()


# --- A session's life ---


async def test_a_session_from_connect_to_end(encoder: Connection, process: HistoryWriter, key: NewKey) -> None:
    await encoder.status("NetConnection.Connect.Success", stream_id=0)
    answer = await encoder.publish(key.secret)
    assert answer["type"] == "rtmp.publish.accept"
    assert answer["path"] == "live/cam1"
    assert answer["labels"] == {"stream": key.key.stream_id, "key": key.key.pk}
    await encoder.status("NetStream.Publish.Start")
    await encoder.unpublish(answer["session_id"])
    await encoder.disconnect()
    assert process.flush(5)
    session = await Session.objects.aget()
    assert str(session.pk) == answer["session_id"]
    assert (session.kind, session.end_reason) == ("publish", "client_unpublish")
    assert {name: getattr(session, name) for name in sessions.TOTALS} == {n: TOTALS[n] for n in sessions.TOTALS}  # type: ignore[literal-required]
    assert session.summary == {"dropped_frames": 1, "duration_ms": 1500}
    events = [(event.sequence, event.kind, event.code) async for event in StatusEvent.objects.order_by("sequence")]
    assert events == [
        (1, "onstatus", "NetConnection.Connect.Success"),
        (2, "session.started", "publish"),
        (3, "onstatus", "NetStream.Publish.Start"),
        (4, "session.ended", "client_unpublish"),
    ]
    assert (await Lease.objects.aget()).session_id is None
    assert not await Attempt.objects.aexists()


async def test_a_connection_that_is_lost_ends_its_sessions(
    encoder: Connection, process: HistoryWriter, key: NewKey
) -> None:
    await encoder.publish(key.secret)
    await encoder.disconnect("idle_timeout")
    assert process.flush(5)
    assert (await Session.objects.aget()).end_reason == "idle_timeout"
    assert not ACTIVE


async def test_a_server_that_gives_up_leaves_no_session_open(
    encoder: Connection, process: HistoryWriter, key: NewKey
) -> None:
    await encoder.publish(key.secret)
    encoder.app.future.cancel()
    await asyncio.wait({encoder.app.future})
    assert process.flush(5)
    assert (await Session.objects.aget()).end_reason == "node_shutdown"


async def test_several_streams_on_one_connection(
    encoder: Connection, process: HistoryWriter, stream: Stream, key: NewKey
) -> None:
    other = await Stream.objects.acreate(application=stream.application, name="cam2")
    second_key = await sync_to_async(keys.create)(stream=other)
    first = await encoder.publish(key.secret, stream_id=1)
    second = await encoder.publish(second_key.secret, stream_id=2)
    await encoder.status("NetStream.Publish.Start", stream_id=2)
    await encoder.unpublish(first["session_id"])
    await encoder.disconnect()
    assert process.flush(5)
    ends = {str(session.pk): session.end_reason async for session in Session.objects.all()}
    assert ends == {first["session_id"]: "client_unpublish", second["session_id"]: "tcp_reset"}
    started = await StatusEvent.objects.aget(code="NetStream.Publish.Start")
    assert str(started.session_id) == second["session_id"]


async def test_metadata_is_kept_and_made_fit(encoder: Connection, process: HistoryWriter, key: NewKey) -> None:
    await encoder.publish(key.secret)
    claimed = {"encoder": "obs\x00output", "framerate": float("nan"), "width": 1280.0, "deep": [[[[["x"]]]]]}
    media = {"video_codec": "avc1", "audio_codec": "mp4a", "width": 1920, "height": 1080, "profile": "High"}
    await encoder.tell({"type": "rtmp.metadata", "stream_id": 1, "metadata": claimed, "media": media})
    await encoder.disconnect()
    assert process.flush(5)
    session = await Session.objects.aget()
    assert (session.video_codec, session.audio_codec, session.width, session.height) == ("avc1", "mp4a", 1920, 1080)
    assert session.summary["media"] == {"profile": "High"}
    assert session.summary["metadata"]["framerate"] is None
    assert session.summary["metadata"]["encoder"] == "obs\ufffdoutput"


async def test_each_sessions_metadata_is_recorded_whatever_went_before_on_its_connection(
    encoder: Connection, process: HistoryWriter, key: NewKey
) -> None:
    """Up to 50 changes of one session; those of no session count for none."""
    media = {"video_codec": "avc1"}

    async def claim(times: int, stream_id: int = 1) -> None:
        for bitrate in range(times):
            claimed = {"videodatarate": bitrate}
            await encoder.tell({"type": "rtmp.metadata", "stream_id": stream_id, "metadata": claimed, "media": media})

    await claim(60, stream_id=9)
    first = await encoder.publish(key.secret)
    await claim(60)
    await encoder.unpublish(first["session_id"])
    second = await encoder.publish(key.secret)
    await claim(3)
    await encoder.disconnect()
    assert process.flush(5)
    counts = [
        await StatusEvent.objects.filter(session=answer["session_id"], kind="metadata").acount()
        for answer in (first, second)
    ]
    assert counts == [50, 3]


async def test_a_player(process: HistoryWriter, stream: Stream) -> None:
    player = Connection()
    await player.connect()
    answer = await player.play("cam1")
    assert answer["type"] == "rtmp.play.accept"
    assert answer["path"] == "live/cam1"
    await player.disconnect()
    assert process.flush(5)
    session = await Session.objects.aget()
    assert (session.kind, session.end_reason) == ("play", "tcp_reset")


async def test_an_encoder_may_publish_again_at_once(
    encoder: Connection, process: HistoryWriter, key: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the end of its former session takes to be written."""
    monkeypatch.setattr(history, "GATHER_S", 60)
    first = await encoder.publish(key.secret)
    await encoder.unpublish(first["session_id"])
    second = await encoder.publish(key.secret)
    assert second["type"] == "rtmp.publish.accept"
    assert await Session.objects.filter(ended_at=None).acount() == 2, "the first one's end is not written yet"
    await encoder.disconnect()
    await asyncio.to_thread(process.close, 10)
    ends = {str(session.pk): session.end_reason async for session in Session.objects.all()}
    assert ends == {first["session_id"]: "client_unpublish", second["session_id"]: "tcp_reset"}
    lease = await Lease.objects.aget()
    assert (lease.session_id, lease.fencing) == (None, 2)


async def test_a_lease_that_could_not_be_renewed_is_not_free_while_its_publisher_is_live(
    encoder: Connection, process: HistoryWriter, key: NewKey
) -> None:
    """As after an outage of the database that lasted longer than a lease."""
    first = await encoder.publish(key.secret)
    await Lease.objects.aupdate(expires_at=timezone.now() - timedelta(seconds=1))
    second = Connection(address="192.0.2.8")
    await second.connect()
    assert (await second.publish(key.secret))["code"] == "NetStream.Publish.BadName"
    assert str((await Lease.objects.aget()).session_id) == first["session_id"]
    await second.disconnect("rejected")
    await encoder.disconnect()


# --- Refusals ---


@pytest.mark.usefixtures("application")
async def test_an_unknown_application(process: HistoryWriter) -> None:
    connection = Connection(app="other")
    answer = await connection.connect()
    assert (answer["type"], answer["code"]) == ("rtmp.reject", "NetConnection.Connect.InvalidApp")
    await connection.disconnect("rejected")
    assert process.flush(5)
    attempt = await Attempt.objects.aget()
    assert (attempt.action, attempt.app, attempt.reason) == ("connect", "other", "unknown_app")
    assert (attempt.address, attempt.encoder, attempt.node) == (
        "192.0.2.7",
        "FMLE/3.0 (compatible; FMSc/1.0)",
        "node-a",
    )


async def test_a_wrong_key(encoder: Connection, process: HistoryWriter) -> None:
    event = encoder.publish_event(keys.generate())
    answer = await encoder.ask(event)
    assert (answer["type"], answer["code"]) == ("rtmp.publish.reject", "NetStream.Publish.Denied")
    assert answer["request_id"] == event["request_id"]
    await encoder.disconnect("rejected")
    assert process.flush(5)
    attempt = await Attempt.objects.aget()
    assert (attempt.action, attempt.reason, attempt.code) == ("publish", "key_unknown", "NetStream.Publish.Denied")
    assert not await Session.objects.aexists()


async def test_a_second_publisher(encoder: Connection, process: HistoryWriter, key: NewKey) -> None:
    first = await encoder.publish(key.secret)
    second = Connection(address="192.0.2.8")
    await second.connect()
    answer = await second.publish(key.secret)
    assert (answer["type"], answer["code"]) == ("rtmp.publish.reject", "NetStream.Publish.BadName")
    await second.disconnect("rejected")
    assert process.flush(5)
    attempt = await Attempt.objects.aget()
    assert (attempt.reason, attempt.address, attempt.name) == ("busy", "192.0.2.8", "cam1")
    assert str((await Lease.objects.aget()).session_id) == first["session_id"]
    await encoder.disconnect()


@pytest.mark.parametrize("reason", ["protocol_error", "idle_timeout", "tcp_reset"])
async def test_a_connection_that_comes_to_nothing_is_one_attempt(process: HistoryWriter, reason: str) -> None:
    scanner = Connection(app="")
    await scanner.disconnect(reason)
    assert process.flush(5)
    attempt = await Attempt.objects.aget()
    assert (attempt.action, attempt.reason) == ("connect", reason)


# --- The database is slow or broken ---


async def test_a_locked_database_refuses_and_never_admits(
    encoder: Connection, process: HistoryWriter, key: NewKey
) -> None:
    loop = asyncio.get_running_loop()
    with locked_database():
        asked = loop.time()
        answer = await encoder.publish(key.secret)
        took = loop.time() - asked
    assert (answer["type"], answer["code"]) == ("rtmp.publish.reject", "NetStream.Publish.Failed")
    assert took < 2.5
    await encoder.disconnect("rejected")
    assert process.flush(5)
    assert (await Attempt.objects.aget()).reason == "database_slow"
    assert not await Session.objects.aexists()
    assert not await Lease.objects.filter(session__isnull=False).aexists()


async def test_what_the_database_does_too_late_is_undone(
    encoder: Connection, process: HistoryWriter, key: NewKey
) -> None:
    """The lock outlasts the 2 s limit but not the statement's own patience: the thread admits, and nobody is there."""
    with patient_database(10):
        with locked_database():
            answer = await encoder.publish(key.secret)
            assert (answer["type"], answer["code"]) == ("rtmp.publish.reject", "NetStream.Publish.Failed")
        late = Connection()
        await late.connect()
        answer = await until_accepted(late, key)
    assert answer["type"] == "rtmp.publish.accept"
    assert process.flush(5)
    assert [str(session.pk) async for session in Session.objects.all()] == [answer["session_id"]]
    assert str((await Lease.objects.aget()).session_id) == answer["session_id"]
    await late.disconnect()
    await encoder.disconnect("rejected")


async def test_a_kick_does_not_wait_behind_a_validation(
    encoder: Connection, process: HistoryWriter, stream: Stream, key: NewKey
) -> None:
    other = await Stream.objects.acreate(application=stream.application, name="cam2")
    second_key = await sync_to_async(keys.create)(stream=other)
    first = await encoder.publish(key.secret, stream_id=1)
    loop = asyncio.get_running_loop()
    with locked_database():
        await encoder.tell(encoder.publish_event(second_key.secret, stream_id=2))
        asked = loop.time()
        layer = get_channel_layer()
        channel = (await Session.objects.aget()).channel
        await layer.send(channel, {"type": "session.stop", "session_id": first["session_id"], "reason": "kicked"})
        assert await encoder.answer() == {"type": "rtmp.close", "reason": "kicked"}
        assert loop.time() - asked < 1
        assert (await encoder.answer())["type"] == "rtmp.publish.reject"
    await encoder.disconnect()


async def test_a_client_that_leaves_before_the_answer_leaves_nothing(
    encoder: Connection, process: HistoryWriter, key: NewKey
) -> None:
    with locked_database():
        await encoder.tell(encoder.publish_event(key.secret))
        await writing()
        await encoder.disconnect()
    assert not ACTIVE
    second = Connection()
    await second.connect()
    assert (await until_accepted(second, key))["type"] == "rtmp.publish.accept"
    assert process.flush(5)
    assert await Session.objects.acount() == 1
    await second.disconnect()


async def test_a_database_without_tables_is_an_error(encoder: Connection, process: HistoryWriter, key: NewKey) -> None:
    with missing_table("ingest_streamkey"):
        answer = await encoder.publish(key.secret)
    assert (answer["type"], answer["code"]) == ("rtmp.publish.reject", "NetStream.Publish.Failed")
    await encoder.disconnect("rejected")
    assert process.flush(5)
    assert (await Attempt.objects.aget()).reason == "database_error"


async def test_a_connection_that_the_database_closed_is_an_error(
    encoder: Connection, process: HistoryWriter, key: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ensure(self: BaseDatabaseWrapper) -> None:
        raise InterfaceError("connection already closed")

    with monkeypatch.context() as patch:
        patch.setattr(BaseDatabaseWrapper, "ensure_connection", ensure)
        answer = await encoder.publish(key.secret)
    assert (answer["type"], answer["code"]) == ("rtmp.publish.reject", "NetStream.Publish.Failed")
    await encoder.disconnect("rejected")
    assert process.flush(5)
    assert (await Attempt.objects.aget()).reason == "database_error"


async def test_a_publisher_does_not_wait_behind_a_herd_of_players(
    encoder: Connection, process: HistoryWriter, key: NewKey
) -> None:
    players = [Connection() for _ in range(20)]
    for player in players:
        await player.connect()
    gate = threading.Event()
    WRITE.submit(gate.wait, 5)
    for player in players:
        await player.tell(player.play_event("cam1"))
    async with asyncio.timeout(5):
        while WRITE._work_queue.qsize() < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await encoder.tell(encoder.publish_event(key.secret))
    async with asyncio.timeout(5):
        while WRITE._work_queue.qsize() < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    gate.set()
    for each in (encoder, *players):
        assert (await each.answer())["type"] in {"rtmp.publish.accept", "rtmp.play.accept"}
    publisher = await Session.objects.aget(kind="publish")
    assert await Session.objects.filter(kind="play", started_at__lt=publisher.started_at).acount() == 2
    assert await Session.objects.filter(kind="play").acount() == 20
    for each in (encoder, *players):
        await each.disconnect()


async def test_players_that_wait_too_long_for_their_turn_are_refused(process: HistoryWriter, stream: Stream) -> None:
    players = [Connection() for _ in range(5)]
    for player in players:
        await player.connect()
    gate = threading.Event()
    WRITE.submit(gate.wait, 10)
    for player in players:
        await player.tell(player.play_event("cam1"))
    answers = [await player.answer() for player in players]
    gate.set()
    assert {answer.get("code") for answer in answers} == {"NetStream.Play.Failed"}
    for player in players:
        await player.disconnect()
    assert process.flush(5)
    assert not await Session.objects.aexists()
    assert {attempt.reason async for attempt in Attempt.objects.all()} == {"database_slow"}


# --- Stops ---


async def test_a_kick_closes_the_connection_and_says_by_whom(
    encoder: Connection, process: HistoryWriter, key: NewKey, django_user_model: Any
) -> None:
    user = await django_user_model.objects.acreate(username="olga")
    answer = await encoder.publish(key.secret)
    assert await sync_to_async(sessions.request_stop)(session_id=answer["session_id"], by=user)
    assert await encoder.answer() == {"type": "rtmp.close", "reason": "kicked"}
    await encoder.unpublish(answer["session_id"], "kicked")
    await encoder.disconnect("kicked")
    assert process.flush(5)
    session = await Session.objects.aget()
    assert (session.end_reason, session.end_description) == ("kicked", "Ended by olga.")
    assert not await sync_to_async(sessions.request_stop)(session_id=answer["session_id"], by=user)


async def test_a_kick_of_one_of_two_stops_that_stream_only(
    encoder: Connection, process: HistoryWriter, stream: Stream, key: NewKey
) -> None:
    other = await Stream.objects.acreate(application=stream.application, name="cam2")
    second_key = await sync_to_async(keys.create)(stream=other)
    await encoder.publish(key.secret, stream_id=1)
    second = await encoder.publish(second_key.secret, stream_id=2)
    await sync_to_async(sessions.request_stop)(session_id=second["session_id"])
    assert await encoder.answer() == {"type": "rtmp.stream.stop", "stream_id": 2, "reason": "kicked"}
    await encoder.disconnect()


@pytest.fixture
def redis_layer(process: HistoryWriter, settings: Any, tmp_path: Path) -> Iterator[RedisServer]:
    """The channel layer is a Redis server's."""
    server = RedisServer(tmp_path)
    server.start()
    layer = {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [server.url]}}
    settings.CHANNEL_LAYERS = {"default": layer}
    channel_layers.backends.clear()
    yield server
    server.stop()
    channel_layers.backends.clear()


async def test_a_connection_outlives_its_channel_layer(
    redis_layer: RedisServer, process: HistoryWriter, key: NewKey, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = Connection()
    await encoder.connect()
    await asyncio.to_thread(redis_layer.stop)
    async with asyncio.timeout(5):
        while "channel layer" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    answer = await encoder.publish(key.secret)
    assert answer["type"] == "rtmp.publish.accept"
    await asyncio.to_thread(redis_layer.start)
    async with asyncio.timeout(10):
        while encoder.app.output_queue.empty():
            await sync_to_async(sessions.request_stop)(session_id=answer["session_id"])
            await asyncio.sleep(0.1)
    assert await encoder.answer() == {"type": "rtmp.close", "reason": "kicked"}
    await encoder.disconnect("kicked")
    assert process.flush(5)
    assert (await Session.objects.aget()).end_reason == "kicked"


# --- Secrets ---


async def test_a_key_is_nowhere(
    encoder: Connection, process: HistoryWriter, key: NewKey, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = keys.generate()
    answers = [await encoder.publish(key.secret), await encoder.publish(wrong, stream_id=2)]
    with missing_table("ingest_streamkey"):
        answers.append(await encoder.publish(key.secret, stream_id=3))
    await encoder.disconnect()
    assert process.flush(5)
    rows = [
        str(row)
        for model in (Application, Stream, Session, StatusEvent, Attempt, Lease)
        async for row in model.objects.values()
    ]
    for secret in (key.secret, wrong):
        assert secret not in "\n".join(rows)
        assert secret not in caplog.text
        assert secret not in str(answers)


@pytest.mark.parametrize("app", ["live/{}", "{}", "live/{}/x", "other/{}"])
async def test_an_imported_key_in_the_applications_place_is_nowhere(
    process: HistoryWriter, stream: Stream, settings: Any, app: str
) -> None:
    """An encoder that takes the key for a part of the server's URL, or breaks off before an answer."""
    imported = await sync_to_async(keys.create)(stream=stream, secret="oldserver-key-1")
    writer = TelemetryWriter(settings.LAKE_DIR, "node-a")
    writer.start()
    set_writer(writer)
    try:
        refused, broken = (Connection(app=app.format(imported.secret)) for _ in range(2))
        assert (await refused.connect())["code"] == "NetConnection.Connect.InvalidApp"
        await refused.disconnect("rejected")
        await broken.disconnect("idle_timeout")
    finally:
        set_writer(None)
        writer.close()
    assert process.flush(5)
    attempts = [str(row) async for row in Attempt.objects.values()]
    lake = duckdb.read_parquet(f"{settings.LAKE_DIR}/events/**/*.parquet").fetchall()
    assert len(attempts) == len(lake) == 2
    assert imported.secret not in str(attempts)
    assert imported.secret not in str(lake)


@pytest.mark.usefixtures("application")
async def test_what_follows_an_unknown_applications_name_is_not_kept(process: HistoryWriter) -> None:
    """It may be a key that this server doesn't know; the first part tells the operator enough."""
    encoder = Connection(app="live/oldserver-key-1")
    await encoder.connect()
    await encoder.disconnect("rejected")
    assert process.flush(5)
    assert (await Attempt.objects.aget()).app == "live/…"


async def test_a_peer_cannot_cause_events_without_bound(
    encoder: Connection, process: HistoryWriter, key: NewKey
) -> None:
    await encoder.publish(key.secret)
    for _ in range(2100):
        await encoder.status("NetStream.Seek.Failed", level="error")
    await encoder.disconnect()
    assert process.flush(10)
    assert await StatusEvent.objects.acount() == 2001
    assert (await StatusEvent.objects.order_by("-sequence").afirst()).kind == "session.ended"  # type: ignore[union-attr]


# --- Help ---


async def writing() -> None:
    """Waits until the thread that writes is at work: then it doesn't get to an empty task."""
    async with asyncio.timeout(5):
        while (await asyncio.to_thread(wait, {WRITE.submit(int)}, 0.1)).done:
            pass


async def until_accepted(connection: Connection, key: NewKey) -> dict[str, Any]:
    """Asks again until the stream is free."""
    async with asyncio.timeout(10):
        while (answer := await connection.publish(key.secret))["type"] != "rtmp.publish.accept":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return answer


@contextmanager
def patient_database(seconds: float) -> Iterator[None]:
    """New connections wait for locks longer than an admission may take."""
    options = database.settings_dict["OPTIONS"]
    before = options["timeout"]
    options["timeout"] = seconds
    reconnect()
    try:
        yield
    finally:
        options["timeout"] = before
        reconnect()


def reconnect() -> None:
    """Has the thread that writes open a new connection."""
    WRITE.submit(connections.close_all).result(10)


@contextmanager
def missing_table(name: str) -> Iterator[None]:
    """A table that can't be found, as before a migration."""
    other = sqlite3.connect(database.settings_dict["NAME"], isolation_level=None)
    try:
        other.execute(f"ALTER TABLE {name} RENAME TO {name}_away")
        try:
            yield
        finally:
            other.execute(f"ALTER TABLE {name}_away RENAME TO {name}")
    finally:
        other.close()
