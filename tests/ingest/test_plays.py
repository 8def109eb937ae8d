"""Players are admitted by reading alone, and their sessions are written afterwards."""

import asyncio
import threading
import uuid
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ingest.consumers import decisions, rtmp
from ingest.consumers.active import ACTIVE, AWAITED
from ingest.consumers.decisions import READ
from ingest.models import Application, Attempt, Lease, Node, Recording, Session, StatusEvent, Stream
from ingest.rtmp import events
from ingest.services import keys, play_tokens, removal, sessions
from ingest.services.history import BeginRow, write
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.admitting import hold
from tests.ingest.clients import go_live, watch_live
from tests.ingest.control import NODE, Connection, NodeApp, connected, disconnect, flush, listening
from tests.ingest.faults import held, limited, locked_database, until_queued
from tests.ingest.ticks import drop_after_ticks, is_up, snapshot, until
from tests.rtmp_client import RtmpClient

pytestmark = pytest.mark.usefixtures("process")

HERD = 100


async def test_a_herd_of_players_is_let_in(stream: Stream) -> None:
    """As at a broadcast's start, all at once."""

    async def join(port: int) -> RtmpClient:
        player = RtmpClient(port=port, timeout_s=20)
        await player.open()
        await watch_live(player)
        return player

    async with listening() as port:
        players = await asyncio.gather(*(join(port) for _ in range(HERD)))
        for player in players:
            await player.close()
        rows = Session.objects.filter(kind="play", stream=stream, node__name="node-a", app="live", name="cam1")
        await until(lambda: rows.filter(end_reason="tcp_reset").count() == HERD, 20)
    assert not await Attempt.objects.aexists()


@pytest.mark.both_forms
async def test_a_player_is_let_in_while_nothing_can_be_written(stream: Stream) -> None:
    (player,) = await connected(1)
    with locked_database():
        answer = await player.play("cam1")
        assert (answer["type"], answer["path"]) == ("rtmp.play.accept", "live/cam1")
        await player.disconnect("idle_timeout")
        assert not await Session.objects.aexists()
    await asyncio.to_thread(flush)
    session = await Session.objects.aget()
    assert (str(session.pk), session.kind, session.end_reason) == (answer["session_id"], "play", "idle_timeout")
    assert session.started_at <= session.ended_at  # type: ignore[operator]
    codes = StatusEvent.objects.order_by("sequence").values_list("kind", flat=True)
    assert [code async for code in codes] == ["session.started", "session.ended"]


@pytest.mark.both_forms
async def test_a_herd_does_not_stand_in_a_publishers_way(encoder: Connection, key: NewKey) -> None:
    """Those who ask the same at the same time are answered by one read, with one more for those who came later."""
    players = await connected(50)
    with held(READ):
        for player in players:
            await player.tell(player.play_event("cam1"))
        await until_queued(READ, 1)
        await encoder.tell(encoder.publish_event(key.secret))
        await until_queued(READ, 2)
    assert (await encoder.answer())["type"] == "rtmp.publish.accept"
    answers = [await player.answer() for player in players]
    assert {answer["type"] for answer in answers} == {"rtmp.play.accept"}
    assert len({answer["session_id"] for answer in answers}) == 50
    await disconnect(encoder, *players)


async def test_players_are_told_apart_by_what_they_show(stream: Stream) -> None:
    await Application.objects.aupdate(play_policy="token")
    token = play_tokens.PLAY.issue(stream.pk)
    players = await connected(4)
    for player, shown in zip(players, [token, "wrong", "", token], strict=True):
        await player.tell(player.play_event("cam1", shown))
    answers = [(await player.answer())["type"].removeprefix("rtmp.play.") for player in players]
    assert answers == ["accept", "reject", "reject", "accept"]
    await disconnect(*players)


async def test_question_after_a_change_is_not_answered_by_an_earlier_read() -> None:
    """Even if that read is still under way."""
    truth, reading, gate = ["before"], threading.Event(), threading.Event()
    together: decisions.Together[str] = decisions.Together()
    deadline = asyncio.get_running_loop().time() + 5

    def read() -> str:
        found = truth[0]
        reading.set()
        gate.wait(5)
        return found

    first = asyncio.create_task(together.ask("?", read, deadline))
    await asyncio.to_thread(reading.wait, 5)
    truth[0] = "after"
    later = [asyncio.create_task(together.ask("?", read, deadline)) for _ in range(3)]
    await asyncio.sleep(0)
    gate.set()
    assert await first == "before"
    assert await asyncio.gather(*later) == ["after"] * 3


async def test_players_that_wait_too_long_for_an_answer_are_refused(stream: Stream) -> None:
    players = await connected(5)
    with held(READ), limited(0.5):
        for player in players:
            await player.tell(player.play_event("cam1"))
        answers = [await player.answer() for player in players]
    assert {answer.get("code") for answer in answers} == {"NetStream.Play.Failed"}
    await disconnect(*players)
    await asyncio.to_thread(flush)
    assert not await Session.objects.aexists()
    assert {attempt.reason async for attempt in Attempt.objects.all()} == {"database_slow"}


async def test_a_player_is_refused_while_its_session_could_not_be_kept(process: HistoryWriter, stream: Stream) -> None:
    """History is as full as it may be: nothing may begin that would not be recorded."""
    process._max_waiting = 0
    (player,) = await connected(1)
    answer = await player.play("cam1")
    assert (answer["type"], answer["code"]) == ("rtmp.play.reject", "NetStream.Play.Failed")
    await player.disconnect("rejected")


@pytest.mark.both_forms
async def test_player_of_a_stream_deleted_before_its_row_is_written_is_dropped(
    node: NodeApp, process: HistoryWriter, stream: Stream
) -> None:
    deleted = threading.Event()
    write = process._write

    def write_later(batch: Any) -> None:
        assert deleted.wait(10)
        write(batch)

    await is_up()
    (player,) = await connected(1)
    process._write = write_later  # type: ignore[method-assign]
    answer = await player.play("cam1")
    await Stream.objects.all().adelete()
    assert not await Session.objects.aexists()
    deleted.set()
    dropped = await drop_after_ticks(node)
    assert dropped == {"type": "node.drop", "session_id": answer["session_id"], "reason": "key_revoked"}
    await player.disconnect("key_revoked")
    assert await asyncio.to_thread(process.flush, 5)
    assert (await Session.objects.aget()).end_reason == "key_revoked"


async def test_player_waits_for_the_first_publisher_of_an_unknown_name(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where anyone may publish. It has no stream until then, and looks of the node don't end it for that."""
    await Application.objects.aupdate(publish_policy="open")
    looks = 0

    def look(**about: Any) -> Any:
        nonlocal looks
        looks += 1
        return due(**about)

    due = sessions.due_to_end
    monkeypatch.setattr(sessions, "due_to_end", look)
    playing = Session.objects.filter(kind="play", ended_at=None)
    async with (
        listening() as port,
        RtmpClient(port=port, timeout_s=10) as player,
        RtmpClient(port=port) as other,
        RtmpClient(port=port) as encoder,
    ):
        for client, name in ((player, "next"), (other, "another")):
            await watch_live(client, name)
        await until(lambda: playing.filter(stream=None).count() == 2)
        before = looks
        await until(lambda: looks > before + 1)
        await go_live(encoder, "next")
        await player.wait_count(events.VideoReceived, 2)
        stream = await Stream.objects.select_related("application").aget()
        assert stream.path == "live/next"
        assert [session.name async for session in playing.filter(stream=stream)] == ["next"]
        assert {session.stream for session in ACTIVE.values() if session.name == "next"} == {stream.pk}
        assert not other.of(events.VideoReceived)
        assert not other.closed


async def test_waiting_player_joins_the_stream_an_operator_creates_by_that_name(application: Application) -> None:
    """With the first to publish there, by a key as by none: it is disabled and deleted with its players."""
    await Application.objects.aupdate(publish_policy="open")
    player, encoder = await connected(2)
    assert (await player.play("next"))["type"] == "rtmp.play.accept"
    await asyncio.to_thread(flush)
    stream = await Stream.objects.acreate(application=application, name="next")
    key = await sync_to_async(keys.create)(stream=stream)
    assert (await encoder.publish(key.secret))["type"] == "rtmp.publish.accept"
    assert (await Session.objects.aget(kind="play")).stream_id == stream.pk
    assert {session.stream for session in ACTIVE.values()} == {stream.pk}
    found = await sync_to_async(removal.of_streams)(Stream.objects.filter(pk=stream.pk))
    assert (found.publishers, found.players) == (1, 1)
    await disconnect(player, encoder)


async def test_number_of_awaited_unknown_names_is_bounded(
    node: NodeApp, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams that there are may be waited for all the same."""
    await Application.objects.aupdate(publish_policy="open")
    monkeypatch.setattr(rtmp, "MOST_AWAITED", 2)
    early, late = await connected(2)
    for number, name in enumerate(("one", "two"), 1):
        assert (await early.play(name, stream_id=number))["type"] == "rtmp.play.accept"
    await node.tick(streams=[snapshot(0, state="waiting", name=name) for name in ("one", "two")])
    await until(lambda: AWAITED.get(NODE) == 2)
    refused = await late.play("three")
    assert (refused["type"], refused["passes"]) == ("rtmp.play.reject", True)
    assert (await late.play("cam1"))["type"] == "rtmp.play.accept"
    await disconnect(early, late)
    await asyncio.to_thread(flush)
    assert (await Attempt.objects.aget()).reason == "too_many_awaited"


def begin(stream: Stream) -> BeginRow:
    return BeginRow(uuid.uuid4(), "live", "cam1", stream.pk, "node-a", "channel", "192.0.2.7", "VLC", timezone.now())


@pytest.mark.stores
def test_a_herds_rows_are_written_by_few_statements(stream: Stream) -> None:
    rows = [begin(stream) for _ in range(40)]
    told = [StatusEvent(session_id=row.session, sequence=1, at=row.at, kind="session.started") for row in rows]
    mixed = [operation for pair in zip(rows, told, strict=True) for operation in pair]
    with CaptureQueriesContext(connection) as queries:
        write(mixed)
    assert len(queries) < 15
    write(mixed)
    assert Session.objects.count() == StatusEvent.objects.count() == 40


HERE, THERE = "node-a", "node-b"


def publish_there(stream: Stream, **node: str) -> Lease:
    Node.objects.create(name=THERE, **node)
    now = timezone.now()
    hold(stream, THERE, started_at=now, expires_at=now + timedelta(seconds=10))
    return Lease.objects.get()


def recorded(stream: Stream) -> Recording:
    fields = {"application": stream.application, "stream": stream, "state": "complete"}
    return Recording.objects.create(name="cam1", file="cam1.flv", **fields)


async def test_recording_of_a_stream_on_another_node_is_played_only_by_start_0(stream: Stream) -> None:
    await sync_to_async(publish_there)(stream)
    await Application.objects.aupdate(play_recordings="as_live")
    await sync_to_async(recorded)(stream)
    player = Connection(node=HERE)
    await player.connect()
    answers = [await player.ask(player.play_event("cam1") | {"start": start}) for start in (-1.0, -2.0, 0.0)]
    assert [answer["type"] for answer in answers] == ["rtmp.play.reject", "rtmp.play.reject", "rtmp.play.accept"]
    assert answers[0]["code"] == "NetStream.Play.StreamNotFound"
    await player.disconnect()
