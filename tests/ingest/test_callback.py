"""The authorisation callback: a real encoder and player; a service that allows, refuses, hangs and talks nonsense."""

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from ingest.models import Application, Attempt, OutboxEvent, Session, Stream
from ingest.services import callback, play_tokens
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.clients import watch_live
from tests.ingest.control import Connection, disconnect, listening
from tests.ingest.ticks import until
from tests.receivers import HttpReceiver, answer, http_receiver
from tests.rtmp_client import Refused, RtmpClient

pytestmark = pytest.mark.usefixtures("process")

SECRET = "shared-with-the-service"


@pytest.fixture
def service(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpReceiver]:
    """It may take its time, except where that is tested."""
    monkeypatch.setattr(callback, "LIMIT_S", 20.0)
    callback.get_callback_client.cache_clear()
    with http_receiver() as made:
        settings.AUTH_URL = made.url
        settings.AUTH_SECRET = SECRET
        yield made
    callback.get_callback_client.cache_clear()


@pytest.fixture
async def asked(service: HttpReceiver, key: NewKey, process: HistoryWriter) -> HttpReceiver:
    """The service, for an application that has it asked of all."""
    await Application.objects.aupdate(callback="all")
    return service


def questions(service: HttpReceiver) -> list[dict[str, Any]]:
    assert all(got.is_signed_with(SECRET) for got in service.got)
    return [json.loads(got.body) for got in service.got]


async def attempt(process: HistoryWriter) -> tuple[str, str]:
    assert await sync_to_async(process.flush)(5)
    found = await Attempt.objects.alatest("at")
    return found.reason, found.description


async def test_callback_that_allows_lets_encoder_publish_and_player_play(asked: HttpReceiver, key: NewKey) -> None:
    async with listening() as port, RtmpClient(port=port) as encoder, RtmpClient(port=port) as player:
        await encoder.connect("live")
        await encoder.publish(key.secret)
        await watch_live(player)
        session = await Session.objects.aget(kind="publish")
    said = questions(asked)
    assert [(each["action"], each["name"]) for each in said] == [
        ("connect", ""),
        ("publish", "cam1"),
        ("connect", ""),
        ("play", "cam1"),
    ]
    publish = said[1]
    assert publish["session"] == str(session.pk)
    assert publish["key"] == {"label": "camera", "prefix": key.key.prefix}
    assert (publish["app"], publish["address"], publish["node"]) == ("live", "127.0.0.1", "node-a")
    assert key.secret not in str(asked.got)


async def test_callback_request_names_the_instance(asked: HttpReceiver, stream: Stream) -> None:
    await Stream.objects.acreate(application_id=stream.application_id, name="room/cam1")
    async with listening() as port, RtmpClient(port=port) as player:
        await watch_live(player, app="live/room")
    found = [(each["action"], each["app"], each["instance"], each["name"]) for each in questions(asked)]
    assert found == [("connect", "live", "room", ""), ("play", "live", "room", "room/cam1")]


async def test_publish_refused_by_callback_states_reason_and_opens_no_session(
    asked: HttpReceiver, key: NewKey, process: HistoryWriter
) -> None:
    asked.behaviours = [answer(200), answer(403, json.dumps({"reason": "Not paid.\x00" + "x" * 900}).encode())]
    async with listening() as port, RtmpClient(port=port) as encoder:
        await encoder.connect("live")
        with pytest.raises(Refused) as refused:
            await encoder.publish(key.secret)
    assert "NetStream.Publish.Denied" in str(refused.value)
    reason, description = await attempt(process)
    assert reason == "callback_refused"
    assert description.startswith("Your authorisation service refused this: Not paid.\ufffdxxx")
    assert len(description) < 300
    assert not await Session.objects.aexists()
    assert not await OutboxEvent.objects.aexists()


async def test_a_connect_and_a_play_are_refused_too(asked: HttpReceiver, process: HistoryWriter) -> None:
    asked.behaviours = [answer(403), answer(200), answer(403)]
    async with listening() as port:
        async with RtmpClient(port=port) as player:
            with pytest.raises(Refused):
                await player.connect("live")
        assert (await attempt(process))[1] == "Your authorisation service refused this: it gave no reason."
        async with RtmpClient(port=port) as player:
            await player.connect("live")
            with pytest.raises(Refused):
                await player.play("cam1")


@pytest.mark.parametrize("said", [answer(500), answer(302, Location="/"), answer(401), answer(404, b"{")])
async def test_invalid_callback_answer_refuses_connect_as_callback_failure(
    asked: HttpReceiver, process: HistoryWriter, said: Any
) -> None:
    asked.behaviours = [said]
    connection = Connection()
    refused = await connection.connect()
    assert (refused["type"], refused["code"]) == ("rtmp.reject", "NetConnection.Connect.Failed")
    await connection.disconnect("rejected")
    assert (await attempt(process))[0] == "callback_failed"
    assert len(asked.got) == 1


@pytest.mark.parametrize("how", ["hang", "drip"])
async def test_slow_callback_blocks_no_other_connection_and_refuses_in_time(
    asked: HttpReceiver, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    asked.behaviours = [getattr(asked, how)]
    await Application.objects.acreate(name="other")
    slow, quick = Connection(), Connection(app="other")
    await slow.tell({"type": "rtmp.connect", "credential": "", "login": None})
    await until(lambda: asked.got)
    assert (await quick.connect())["type"] == "rtmp.accept"
    assert slow.app.output_queue.empty()
    await disconnect(slow, quick)
    monkeypatch.setattr(callback, "LIMIT_S", 0.5)
    late = Connection()
    assert (await late.connect())["type"] == "rtmp.reject"
    await late.disconnect("rejected")


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """Without an answer."""
    handler.close_connection = True


async def test_a_dead_service_is_left_alone_and_then_tried_again(
    asked: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callback, "REST_S", 60.0)
    asked.behaviours = [hang_up]
    for _ in range(callback.FAILURES):
        assert (await Connection().connect())["type"] == "rtmp.reject"
    answers = await asyncio.gather(*(Connection().connect() for _ in range(20)))
    assert {each["type"] for each in answers} == {"rtmp.reject"}
    assert len(asked.got) == callback.FAILURES
    asked.behaviours = [answer(200)]
    callback.get_callback_client()._rests_until = 0.0  # A minute later.
    assert (await Connection().connect())["type"] == "rtmp.accept"


async def test_publish_with_wrong_key_is_refused_without_asking_callback(asked: HttpReceiver) -> None:
    connection = Connection()
    await connection.connect()
    assert (await connection.publish("wrong"))["type"] == "rtmp.publish.reject"
    assert [each["action"] for each in questions(asked)] == ["connect"]


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_operator_preview_is_accepted_without_asking_callback(asked: HttpReceiver, scheme: str) -> None:
    stream = await Stream.objects.aget(name="cam1")
    connection = Connection()
    connection.app.scope["scheme"] = scheme
    await connection.connect()
    event = connection.play_event("cam1", play_tokens.PREVIEW.issue(stream.pk)) | {"start": -1.0}
    accepted = await connection.ask(event)
    assert accepted["type"] == "rtmp.play.accept"
    assert accepted["preview"] is True
    assert [each["action"] for each in questions(asked)] == ["connect"]
    await connection.disconnect()


async def test_connect_is_refused_while_the_callback_is_not_configured(asked: HttpReceiver, settings: Any) -> None:
    settings.AUTH_SECRET = ""
    assert (await Connection().connect())["type"] == "rtmp.reject"
    assert not asked.got


@pytest.mark.parametrize(
    ("policy", "actions"),
    [
        ("none", []),
        ("publish", ["publish"]),
        ("publish_play", ["publish", "play"]),
        ("all", ["connect", "publish", "play"]),
    ],
)
def test_callback_policy_decides_which_actions_ask_the_callback(policy: str, actions: list[str]) -> None:
    application = Application(name="live", callback=policy)
    assert [each for each in ("connect", "publish", "play") if application.asks(each)] == actions


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b'{"reason": 5}', b"[" * 4000, b"\xff"])
def test_a_refusal_may_say_nothing(body: bytes) -> None:
    assert callback.reason_of(body) == ""
