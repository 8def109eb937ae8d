"""Calls both ways through sockets: the client's procedures of the application, and the application's of the client."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ingest.rtmp import Limits, events
from ingest.server import RtmpServer
from tests.rtmp_client import Refused, RtmpClient
from tests.server.app import Instance, Message, ScriptedApp
from tests.server.clients import connected, playing, publishing
from tests.server.conftest import Serve
from tests.server.media import key_frame, sound
from tests.server.waiting import set_deadlines

FAILED = "NetConnection.Call.Failed"


def answering(value: Any) -> Callable[[Instance, Message], Awaitable[Message]]:
    async def decide(_instance: Instance, event: Message) -> Message:
        return {"type": "rtmp.result", "request_id": event["request_id"], "value": value}

    return decide


async def length(_instance: Instance, event: Message) -> Message:
    return {"type": "rtmp.length.result", "request_id": event["request_id"], "seconds": 12.5}


def invoke(procedure: str, *arguments: Any, request_id: int | None = 1) -> Message:
    return {"type": "rtmp.invoke", "request_id": request_id, "procedure": procedure, "arguments": list(arguments)}


class TestOfTheClient:
    async def test_client_call_gets_the_applications_result(self, app: ScriptedApp, port: int) -> None:
        async def add(_instance: Instance, event: Message) -> Message:
            return {"type": "rtmp.result", "request_id": event["request_id"], "value": sum(event["arguments"])}

        app.on["rtmp.call"] = add
        async with connected(port) as client:
            assert await client.call("add", 1, 2, 4) == 7
            call = await app.event("rtmp.call")
            assert (call["procedure"], call["stream_id"], call["command_object"]) == ("add", 0, None)

    async def test_client_call_gets_the_applications_error(self, app: ScriptedApp, port: int) -> None:
        async def fail(_instance: Instance, event: Message) -> Message:
            return {"type": "rtmp.error", "request_id": event["request_id"], "code": "Chess.Over", "description": "No."}

        app.on["rtmp.call"] = fail
        async with connected(port) as client:
            with pytest.raises(Refused, match=r"Chess\.Over: No\."):
                await client.call("move")

    async def test_pending_client_call_delays_no_media_commands_or_later_calls(
        self, app: ScriptedApp, port: int
    ) -> None:
        """Media and commands go on, and a later call is answered first."""
        asked: list[Message] = []

        async def only_the_second(_instance: Instance, event: Message) -> Message | None:
            asked.append(event)
            return await answering("second")(_instance, event) if len(asked) == 2 else None

        app.on["rtmp.call"] = only_the_second
        async with connected(port) as client, RtmpClient(port=port) as player:
            client.protocol.call("slow")
            stream_id = await client.publish("cam")
            assert await client.call("quick") == "second"
            await player.connect("live")
            await player.play("cam")
            await client.send_video(stream_id, 0, key_frame(1))
            await client.send_audio(stream_id, 10, sound(1))
            await player.wait_for(events.AudioReceived)
            await app.connections[0].send({"type": "rtmp.result", "request_id": asked[0]["request_id"], "value": 1})
            await client.wait_for(events.ResultReceived, lambda event: event.procedure == "slow" and event.succeeded)

    async def test_without_a_transaction_nothing_is_answered(self, app: ScriptedApp, port: int) -> None:
        app.on["rtmp.call"] = app.ignore
        async with connected(port) as client:
            client.protocol.notify("hello", "x")
            await client.flush()
            assert (await app.event("rtmp.call"))["request_id"] is None
            await client.create_stream()
            assert [event.procedure for event in client.of(events.ResultReceived)] == ["connect", "createStream"]

    async def test_client_call_without_an_answer_fails_after_the_deadline(self, app: ScriptedApp, serve: Serve) -> None:
        app.on["rtmp.call"] = app.on["rtmp.length"] = app.ignore
        server = await serve(call_s=0.1)
        async with connected(server) as client:
            with pytest.raises(Refused, match="in time"):
                await client.call("x")
            assert await client.call("getStreamLength", "cam") == 0
            late = {"type": "rtmp.result", "request_id": app.connections[0].of("rtmp.call")[0]["request_id"]}
            await app.connections[0].send(late | {"value": "too late"})
            await client.create_stream()

    async def test_result_that_cannot_be_encoded_fails_the_call_and_is_logged(
        self, app: ScriptedApp, port: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        app.on["rtmp.call"] = answering(object())
        async with connected(port) as client:
            with pytest.raises(Refused, match=FAILED):
                await client.call("x")
            assert [record.levelno for record in caplog.records if "can't be sent" in record.message] == [logging.ERROR]
            assert "object" not in str(client.of(events.ResultReceived)[-1].values)

    async def test_client_calls_beyond_the_pending_limit_are_refused(self, app: ScriptedApp, serve: Serve) -> None:
        app.on["rtmp.call"] = app.ignore
        server = await serve(config={"limits": Limits(pending_calls=2)})
        async with connected(server) as client:
            client.protocol.call("a")
            client.protocol.call("b")
            with pytest.raises(Refused, match="Too many calls"):
                await client.call("c")
            assert len(app.connections[0].of("rtmp.call")) == 2

    async def test_secrets_in_call_arguments_are_masked(self, app: ScriptedApp, port: int) -> None:
        key = "rk_0123456789abcdefghijklmnopqrstuv"
        imported = "brought-over-from-elsewhere"
        app.on["rtmp.call"] = answering(None)
        async with publishing(port, name=f"cam?key={imported}") as (client, _):
            await client.call("x", {"at": f"rtmp://host/live/cam?key={key}", "mine": imported}, key)
            told = str(app.connections[0].of("rtmp.call"))
        assert key not in told
        assert imported not in told
        assert "cam?key=rk_0123…" in told

    @pytest.mark.parametrize("how", ["play", "ended play", "ended publish", "length"])
    async def test_credentials_presented_earlier_are_masked_in_call_arguments(
        self, app: ScriptedApp, port: int, how: str
    ) -> None:
        """Also when it is in use no longer, and in what a client answers. A public name is no secret."""
        secret = "brought-over-from-elsewhere"
        app.on["rtmp.call"] = answering(None)
        app.on["rtmp.length"] = length
        async with connected(port) as client:
            if how == "length":
                await client.call("getStreamLength", f"show?token={secret}")
            else:
                ask = client.publish if how == "ended publish" else client.play
                stream_id = await ask(f"cam?token={secret}")
                if how.startswith("ended"):
                    await client.delete_stream(stream_id)
            await client.publish("public-name")
            await client.call("x", {"mine": secret, secret: [1.0]}, f"a/{secret}/b", "public-name")
            client.protocol.call(secret)
            await client.flush()
            await client.create_stream()
            told = str(app.connections[0].of("rtmp.call"))
        assert secret not in told
        assert "public-name" in told
        assert "bro…" in told

    async def test_connection_that_only_calls_is_not_ended_as_idle(self, app: ScriptedApp, server: RtmpServer) -> None:
        app.on["rtmp.call"] = answering(None)
        async with connected(server) as caller, connected(server) as idle:
            await caller.call("x")
            set_deadlines(server, publish_or_play_s=0.2, waiting_s=0)
            await idle.wait_closed()
            await caller.call("x")


class TestRefused:
    """With a reason, and what is no fault of the protocol itself leaves the connection as it is."""

    async def test_commands_before_connect_are_refused(self, app: ScriptedApp, port: int) -> None:
        async with RtmpClient(port=port) as client:
            for count, procedure in enumerate(("createStream", "x"), 1):
                client.protocol.send_command(0, procedure, client.protocol.calls.start(procedure), None)
                await client.flush()
                await client.wait_count(events.ResultReceived, count)
                refused = client.of(events.ResultReceived)[-1]
                assert not refused.succeeded
                assert refused.values[-1]["code"] == FAILED
                assert "connect first" in refused.values[-1]["description"]
            await client.connect("live")
            await client.publish("cam")
        assert not app.connections[0].of("rtmp.call")

    async def test_impossible_commands_are_refused_and_the_publisher_goes_on(self, app: ScriptedApp, port: int) -> None:
        async with publishing(port, name="cam") as (client, stream_id), playing(port, name="cam") as player:
            for _ in range(Limits().message_streams - 1):
                await client.create_stream()
            with pytest.raises(Refused, match=FAILED):
                await client.create_stream()
            client.protocol.send_command(0, "connect", client.protocol.calls.start("again"), {"app": "other"})
            await client.flush()
            refused = await client.wait_for(events.ResultReceived, lambda event: event.procedure == "again")
            assert refused.values[-1]["code"] == "NetConnection.Connect.Rejected"
            await client.send_video(stream_id, 0, key_frame(1))
            await player.wait_for(events.VideoReceived, lambda event: event.payload == key_frame(1))
        assert len(app.connections[0].of("rtmp.connect")) == 1


class TestLength:
    async def test_stream_length_is_asked_of_the_application(self, app: ScriptedApp, port: int) -> None:
        app.on["rtmp.length"] = length
        async with connected(port) as client:
            assert await client.call("getStreamLength", "show?token=secret-token") == 12.5
            asked = await app.event("rtmp.length")
            assert (asked["name"], asked["credential"]) == ("show", "secret-token")
            assert "secret-token" not in str(asked["query"])
        assert not app.connections[0].of("rtmp.play")


class TestOfTheServer:
    async def test_server_call_gets_the_clients_result_or_error(self, app: ScriptedApp, port: int) -> None:
        async with RtmpClient(port=port) as client:
            client.procedures["add"] = lambda *numbers: sum(numbers)
            await client.connect("live")
            instance = app.connections[0]
            await instance.send(invoke("add", 1, 2, request_id=7))
            await instance.send(invoke("none", request_id=8))
            await instance.send(invoke("told", "x", request_id=None))
            await app.wait_until(lambda: len(instance.of("rtmp.invoke.result")) == 2)
            added, failed = instance.of("rtmp.invoke.result")
            assert (added["request_id"], added["succeeded"], added["values"]) == (7, True, [None, 3.0])
            assert (failed["request_id"], failed["succeeded"]) == (8, False)
            assert failed["values"][1]["code"] == FAILED
            told = await client.wait_for(events.CallReceived, lambda event: event.procedure == "told")
            assert (told.request_id, told.arguments) == (0, ["x"])

    async def test_server_call_without_an_answer_fails_after_the_deadline(self, app: ScriptedApp, serve: Serve) -> None:
        server = await serve(invoke_s=0.1)
        async with connected(server) as client:
            client.pause_reading()
            await app.connections[0].send(invoke("x"))
            result = await app.event("rtmp.invoke.result")
            assert (result["succeeded"], result["values"]) == (False, [])

    async def test_server_call_of_a_leaving_client_ends_before_the_disconnect_event(
        self, app: ScriptedApp, port: int
    ) -> None:
        async with connected(port) as client:
            client.pause_reading()
            instance = app.connections[0]
            await instance.send(invoke("x"))
        await app.event("rtmp.disconnect")
        assert instance.kinds[-2:] == ["rtmp.invoke.result", "rtmp.disconnect"]
        await instance.send(invoke("x", request_id=2))
        assert instance.kinds[-1] == "rtmp.disconnect"

    async def test_server_call_with_arguments_that_cannot_be_encoded_fails(self, app: ScriptedApp, port: int) -> None:
        async with connected(port):
            await app.connections[0].send(invoke("x", object()))
            assert (await app.event("rtmp.invoke.result"))["succeeded"] is False

    async def test_server_call_before_the_connect_is_accepted_fails(self, app: ScriptedApp, port: int) -> None:
        async def too_early(instance: Instance, _event: Message) -> Message:
            await instance.send(invoke("x"))
            return {"type": "rtmp.accept"}

        app.on["rtmp.connect"] = too_early
        async with connected(port) as client:
            assert (await app.event("rtmp.invoke.result"))["succeeded"] is False
            assert client.of(events.CallReceived) == []


class TestClose:
    async def test_close_command_ends_all_sessions_and_the_connection(self, app: ScriptedApp, port: int) -> None:
        async with publishing(port) as (client, first):
            await client.publish("cam2")
            await client.play("cam3")
            await client.send_audio(first, 0, sound(1))
            client.protocol.notify("close")
            await client.flush()
            await client.wait_closed()
        gone = await app.event("rtmp.disconnect")
        assert (gone["reason"], gone["description"]) == ("client_unpublish", "The client sent close.")
        ends = [event for event in app.connections[0].events if event["type"] in ("rtmp.unpublish", "rtmp.stop")]
        assert [event["reason"] for event in ends] == ["client_unpublish"] * 3

    async def test_commands_after_the_close_command_are_not_read(self, app: ScriptedApp, port: int) -> None:
        async with connected(port) as client:
            client.protocol.notify("close")
            client.protocol.call("x")
            await client.flush()
            await client.wait_closed()
        await app.event("rtmp.disconnect")
        assert "rtmp.call" not in app.connections[0].kinds


async def test_message_streams_are_limited_at_one_time_but_not_in_total(app: ScriptedApp, port: int) -> None:
    """createStream as often as one likes, and so many at once as there may be."""
    async with connected(port) as client:
        for _ in range(50):
            await client.delete_stream(await client.create_stream())
        streams = [await client.create_stream() for _ in range(Limits().message_streams)]
        assert streams == list(range(51, 51 + len(streams)))
        await asyncio.gather(*(client.publish(f"cam{stream}", stream_id=stream) for stream in streams[:3]))
        assert len(app.connections[0].of("rtmp.publish")) == 3
        with pytest.raises(Refused, match="delete one first"):
            await client.create_stream()
        await client.delete_stream(streams[-1])
        assert await client.create_stream() == streams[-1] + 1
