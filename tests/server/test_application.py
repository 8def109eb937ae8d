"""The application's side: its inbox, its failures, and requests that await its answer."""

import asyncio
import logging
from typing import Any

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.asgi import ASGIApplication, Driver
from ingest.server.connection import Connection
from tests.rtmp_client import RtmpClient
from tests.server.app import Instance, Message, ScriptedApp, published_name
from tests.server.clients import connected, playing, publishing
from tests.server.conftest import Serve
from tests.server.media import AVC_HEADER, key_frame
from tests.server.waiting import becomes


def drive(application: ASGIApplication, *, inbox_events: int = 4) -> tuple[Driver, asyncio.Event, list[Any]]:
    ended, sent = asyncio.Event(), []  # type: ignore[var-annotated]
    driver = Driver(
        application,
        {"type": "test"},
        handle=sent.append,
        ended=lambda _driver: ended.set(),
        inbox_events=inbox_events,
        label="test",
    )
    return driver, ended, sent


async def test_events_arrive_in_order_and_answers_are_handled() -> None:
    async def echo(scope: Any, receive: Any, send: Any) -> None:
        while (event := await receive())["type"] != "last":
            await send({"type": "echo", "of": event["type"], "scope": scope["type"]})

    driver, ended, sent = drive(echo)
    driver.put({"type": "one"})
    driver.put({"type": "two"})
    driver.finish({"type": "last"}, 1)
    await asyncio.wait_for(ended.wait(), 20)
    assert sent == [{"type": "echo", "of": of, "scope": "test"} for of in ("one", "two")]


async def test_a_full_inbox_drops_only_what_may_be_dropped() -> None:
    go, got = asyncio.Event(), []

    async def slow(_scope: Any, receive: Any, _send: Any) -> None:
        await go.wait()
        while (event := await receive())["type"] != "last":
            got.append(event["type"])

    driver, ended, _ = drive(slow, inbox_events=2)
    for number in range(5):
        driver.put({"type": f"status {number}"}, droppable=True)
    driver.put({"type": "end"})
    driver.finish({"type": "last"}, 1)
    go.set()
    await asyncio.wait_for(ended.wait(), 20)
    assert got == ["status 0", "status 1", "end"]
    assert driver.dropped == 3


async def test_application_failure_is_logged_once_and_ends_its_driver(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_scope: Any, _receive: Any, _send: Any) -> None:
        raise RuntimeError("broken on purpose")

    driver, ended, _ = drive(broken)
    await asyncio.wait_for(ended.wait(), 20)
    await driver.task
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage() for record in errors] == ["test: the application failed"]


async def test_an_application_that_does_not_return_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    async def deaf(_scope: Any, _receive: Any, _send: Any) -> None:
        await asyncio.Event().wait()

    driver, ended, _ = drive(deaf)
    driver.finish({"type": "last"}, 0.05)
    await asyncio.wait_for(ended.wait(), 20)
    assert "cancelled" in caplog.text


def hold_back(app: ScriptedApp) -> None:
    """Publishes whose name begins with slow are answered by the test."""

    async def decide(instance: Instance, event: Message) -> Message | None:
        return None if published_name(event).startswith("slow") else await app.accept_publish(instance, event)

    app.on["rtmp.publish"] = decide


async def asks(client: RtmpClient, name: str) -> int:
    """A message stream that publishes, as soon as it is decided."""
    stream_id = await client.create_stream()
    client.protocol.publish(stream_id, name)
    await client.flush()
    return stream_id


async def asked(app: ScriptedApp, name: str, connection: int = -1) -> Message:
    """The application was."""

    def found() -> list[Message]:
        return [each for each in app.connections[connection].of("rtmp.publish") if published_name(each) == name]

    await app.wait_until(lambda: bool(app.connections) and bool(found()))
    return found()[0]


async def accept(app: ScriptedApp, name: str, connection: int = -1) -> Message:
    event = await asked(app, name, connection)
    answer = await app.accept_publish(app.connections[connection], event)
    await app.connections[connection].send(answer)
    return answer


async def refuse(app: ScriptedApp, name: str, connection: int = -1) -> None:
    event = await asked(app, name, connection)
    answer = {"code": "NetStream.Publish.BadName", "description": "Taken."}
    await app.connections[connection].send({"type": "rtmp.publish.reject", "request_id": event["request_id"], **answer})


async def started(client: RtmpClient, stream_id: int) -> None:
    said = (stream_id, "NetStream.Publish.Start")
    await client.wait_for(events.StatusReceived, lambda status: (status.stream_id, status.code) == said)


async def test_undecided_publish_delays_no_live_stream_and_no_commands(app: ScriptedApp, port: int) -> None:
    hold_back(app)
    async with playing(port) as player, publishing(port) as (encoder, live):
        await player.play("slow")
        waiting = await asks(encoder, "slow")
        await asked(app, "slow")
        encoder.protocol.send_video(waiting, 0, AVC_HEADER)
        await encoder.send_video(waiting, 0, key_frame(7))
        for number in range(3):
            await encoder.send_video(live, 40 * number, key_frame(number))
            await player.wait_count(events.VideoReceived, number + 1)
        assert await encoder.create_stream() > waiting
        other = await encoder.publish("cam2")
        await encoder.delete_stream(other)
        await app.event("rtmp.unpublish")
        assert key_frame(7) not in [event.payload for event in player.of(events.VideoReceived)]
        await accept(app, "slow")
        await started(encoder, waiting)
        await player.wait_for(events.VideoReceived, lambda event: event.payload == key_frame(7))


async def test_refused_publish_keeps_the_connection_open_while_another_is_pending(app: ScriptedApp, port: int) -> None:
    """Encoders of several bitrates ask for all of them at once."""
    hold_back(app)
    async with connected(port) as encoder:
        first, second = await asks(encoder, "slow one"), await asks(encoder, "slow two")
        await asked(app, "slow two")
        await refuse(app, "slow one")
        refused = await encoder.wait_for(events.StatusReceived, lambda status: status.stream_id == first)
        assert refused.code == "NetStream.Publish.BadName"
        await accept(app, "slow two")
        await started(encoder, second)
        await encoder.create_stream()
        assert not encoder.closed


async def test_connection_ends_when_all_pending_publishes_are_refused(app: ScriptedApp, port: int) -> None:
    hold_back(app)
    async with connected(port) as encoder:
        for name in ("slow one", "slow two"):
            await asks(encoder, name)
        for name in ("slow two", "slow one"):
            await refuse(app, name)
        await encoder.wait_closed()
    assert (await app.event("rtmp.disconnect"))["reason"] == "rejected"


async def test_media_read_before_the_publish_decision_are_bounded(
    app: ScriptedApp, server: RtmpServer, port: int
) -> None:
    """Over the bound the connection is not read from."""
    hold_back(app)
    async with playing(port, name="slow") as player, connected(port) as encoder:
        stream_id = await asks(encoder, "slow")
        await asked(app, "slow")
        (connection,) = (each for each in server.connections if isinstance(each, Connection) and not each.sessions)
        for number in range(50):
            encoder.protocol.send_video(stream_id, number, key_frame(number, 60_000))
        sending = asyncio.create_task(encoder.flush())

        await becomes(lambda: connection.rtmp.paused)
        received = connection.rtmp.bytes_received
        await asyncio.sleep(0.2)  # What is read all the same would be here.
        assert connection.rtmp.bytes_received == received < 1_000_000
        await accept(app, "slow")
        await sending
        await player.wait_for(events.VideoReceived, lambda event: event.payload == key_frame(49, 60_000))


async def test_each_pending_publish_has_its_own_decision_deadline(app: ScriptedApp, serve: Serve) -> None:
    hold_back(app)
    server = await serve(decision_s=0.6)
    async with publishing(server) as (encoder, live):
        first = await asks(encoder, "slow one")
        await asyncio.sleep(0.4)  # By so much the second has its end later.
        second = await asks(encoder, "slow two")
        refused = await encoder.wait_for(events.StatusReceived, lambda status: status.level == "error")
        assert (refused.stream_id, refused.code) == (first, "NetStream.Failed")
        await accept(app, "slow two")
        await started(encoder, second)
        await encoder.send_video(live, 0, key_frame(1))
        await encoder.create_stream()


async def test_publishes_accepted_after_the_client_left_are_reported_as_ended(app: ScriptedApp, port: int) -> None:
    """What is accepted then is told to have ended, each, before the last event."""
    hold_back(app)
    async with connected(port) as encoder:
        for name in ("slow one", "slow two"):
            await asks(encoder, name)
            await asked(app, name)
        encoder.abort()
        instance = app.connections[-1]
        sessions = [(await accept(app, name))["session_id"] for name in ("slow two", "slow one")]
        await app.event("rtmp.disconnect")
        assert [event["session_id"] for event in instance.of("rtmp.unpublish")] == sessions
        assert instance.kinds[-1] == "rtmp.disconnect"
