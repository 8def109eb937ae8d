"""Procedures that a project registers, called by clients; and calls of clients, by the project."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from ingest import procedures
from ingest.consumers import calls
from ingest.models import Application, Attempt, Lease, Recording, Session, Stream
from ingest.procedures import CallContext, CallError, InvokeError, procedure
from ingest.services import play_tokens
from ingest.services.keys import NewKey
from tests.ingest.control import flush, listening
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient

pytestmark = pytest.mark.usefixtures("process")

FAILED = "NetConnection.Call.Failed"


@pytest.fixture(autouse=True)
def registry(settings: Any) -> Iterator[None]:
    settings.REFUSAL_DELAY_S = 0.0
    before = dict(procedures._registered)
    yield
    procedures._registered.clear()
    procedures._registered.update(before)


# --- Registering ---


def test_procedure_is_registered_by_its_own_or_a_given_name() -> None:
    @procedure
    async def plain(context: CallContext) -> None: ...

    @procedure("chess.move", limit_s=1.5)
    async def move(context: CallContext) -> None: ...

    for name, function, limit_s in (("plain", plain, procedures.LIMIT_S), ("chess.move", move, 1.5)):
        found = procedures.find(name)
        assert found is not None
        assert (found.function, found.limit_s) == (function, limit_s)
    assert procedures.find("move") is None


@pytest.mark.parametrize("name", ["publish", "connect", "_result", "taken"])
def test_reserved_or_taken_procedure_name_is_refused(name: str) -> None:
    @procedure("taken")
    async def first(context: CallContext) -> None: ...

    async def second(context: CallContext) -> None: ...

    procedure("taken")(first)
    with pytest.raises(ValueError, match=name):
        procedure(name)(second)


def test_modules_of_installed_apps_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, settings: Any) -> None:
    folder = tmp_path / "a_project"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "procedures.py").write_text(
        "from ingest.procedures import procedure\n@procedure\nasync def found_by_itself(context): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "a_project"]
    autodiscover_modules("procedures")
    assert procedures.find("found_by_itself") is not None


# --- Calls of clients ---


async def test_client_calls_a_procedure_and_gets_its_result(application: Application) -> None:
    seen: list[CallContext] = []

    @procedure
    async def add(context: CallContext, *numbers: float) -> dict[str, Any]:
        seen.append(context)
        return {"sum": sum(numbers), "of": list(numbers)}

    async with listening() as port:
        async with RtmpClient(port=port) as client:
            await client.connect("live")
            assert await client.call("add", 1, 2.5) == {"sum": 3.5, "of": [1.0, 2.5]}
        (context,) = seen
        assert (context.app, context.address) == ("live", "127.0.0.1")
        assert (context.sessions, context.authenticated) == ((), False)
    flush()
    assert not await Attempt.objects.aexists(), "it came for a call"


async def test_the_context_tells_what_the_client_has_shown(key: NewKey) -> None:
    @procedure
    async def who(context: CallContext) -> Any:
        return [context.authenticated, [str(session) for session in context.sessions]]

    async with listening() as port, RtmpClient(port=port) as client, RtmpClient(port=port) as by_app:
        await client.connect("live")
        assert await client.call("who") == [False, []]
        await client.publish(key.secret)
        session = await Session.objects.aget()
        assert await client.call("who") == [True, [str(session.pk)]]
        await by_app.connect(f"live?key={key.secret}")
        assert await by_app.call("who") == [True, []]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nothing", f"{FAILED}: There is no such procedure."),
        ("refusing", "Chess.Illegal: No such move."),
        ("broken", f"{FAILED}: The procedure failed."),
        ("timing_out", f"{FAILED}: The procedure failed."),
        ("slow", f"{FAILED}: The procedure took too long."),
        ("unsendable", f"{FAILED}: The procedure's result can't be sent."),
        ("without_arguments", f"{FAILED}: The procedure failed."),
    ],
)
async def test_failed_call_returns_an_error_without_internal_details(
    application: Application, caplog: pytest.LogCaptureFixture, name: str, told: str
) -> None:
    @procedure
    async def refusing(context: CallContext, *_: Any) -> None:
        raise CallError("Chess.Illegal", "No such move.")

    @procedure
    async def broken(context: CallContext, *arguments: Any) -> None:
        raise RuntimeError(f"a detail of the project's, for {arguments}") from ValueError(*arguments)

    @procedure
    async def timing_out(context: CallContext, *arguments: Any) -> None:
        raise TimeoutError(f"a detail of the project's, for {arguments}")

    @procedure(limit_s=0.05)
    async def slow(context: CallContext, *_: Any) -> None:
        await asyncio.Event().wait()

    @procedure
    async def unsendable(context: CallContext, *_: Any) -> object:
        return object()

    @procedure
    async def without_arguments(context: CallContext) -> None: ...

    async with listening() as port, RtmpClient(port=port) as client:
        await client.connect("live")
        with pytest.raises(Refused) as refused:
            await client.call(name, "an-argument")
        assert str(refused.value) == told
        assert await client.create_stream() == 1, "the connection goes on"
    assert "detail" not in str(client.received)
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) == (name not in ("nothing", "refusing"))
    assert "an-argument" not in caplog.text
    assert not [line for line in lines if line.exc_info]
    assert ("in broken" in caplog.text) == (name == "broken"), "where it failed"


async def test_number_of_calls_running_at_once_is_bounded(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_RUNNING", 2)
    go = asyncio.Event()

    @procedure
    async def wait(context: CallContext) -> str:
        await go.wait()
        return "done"

    async with listening() as port, RtmpClient(port=port) as client:
        await client.connect("live")
        client.protocol.notify("wait")
        client.protocol.call("wait")
        with pytest.raises(Refused, match="Too many calls"):
            await client.call("wait")
        go.set()
        await client.wait_until(lambda: any("done" in str(event) for event in client.received))
        assert await client.call("wait") == "done"


# --- getStreamLength ---


async def record(application: Application, stream: Stream | None, name: str, duration_ms: int, **fields: Any) -> None:
    await Recording.objects.acreate(
        application=application,
        stream=stream,
        name=name,
        duration_ms=duration_ms,
        file=f"{name}-{duration_ms}.flv",
        **{"state": "complete", **fields},
    )


async def test_stream_length_call_follows_the_play_policy_of_the_recording(
    stream: Stream, application: Application
) -> None:
    """Which goes by who may play it."""
    await record(application, stream, "cam1", 1000)
    await record(application, stream, "cam1", 7250, started_at=timezone.now())
    await record(application, stream, "cam1", 90_000, state="recording")
    async with listening() as port, RtmpClient(port=port) as client:
        await client.connect("live")
        assert await client.call("getStreamLength", "cam1") == 0
        await Application.objects.aupdate(play_recordings="as_live")
        assert await client.call("getStreamLength", "cam1") == 7.25
        assert await client.call("getStreamLength", "unknown") == 0
        await Application.objects.aupdate(play_policy="token")
        assert await client.call("getStreamLength", "cam1") == 0
        assert await client.call("getStreamLength", "cam1?token=wrong") == 0
        token = await sync_to_async(play_tokens.PLAY.issue)(stream.pk)
        assert await client.call("getStreamLength", f"cam1?token={token}") == 7.25
    flush()
    assert not await Session.objects.aexists(), "it plays nothing"


async def test_stream_length_call_returns_0_while_the_stream_is_live(key: NewKey, stream: Stream) -> None:
    await Application.objects.aupdate(play_recordings="as_live")
    await record(await Application.objects.aget(), stream, "cam1", 1000)
    async with listening() as port, RtmpClient(port=port) as encoder, RtmpClient(port=port) as client:
        await encoder.connect("live")
        await encoder.publish(key.secret)
        await client.connect("live")
        assert await client.call("getStreamLength", "cam1") == 0
        await encoder.close()
        await until(lambda: Lease.objects.filter(session=None).exists())
        assert await client.call("getStreamLength", "cam1") == 1


async def test_wrong_tokens_in_stream_length_calls_ban_the_address(stream: Stream, settings: Any) -> None:
    settings.GUESSES = 3
    await Application.objects.aupdate(play_policy="token")
    async with listening() as port, RtmpClient(port=port) as client:
        await client.connect("live")
        for number in range(3):
            assert await client.call("getStreamLength", f"cam1?token=guess-{number}") == 0
        with pytest.raises(Refused, match="Too many wrong"):
            await client.play("cam1?token=another")


# --- Calls of the project ---


async def test_an_answer_is_not_held_up_by_who_else_waits_for_the_layer(key: NewKey) -> None:
    """As pages and nodes of the process do."""
    layer = get_channel_layer()
    async with listening() as port, RtmpClient(port=port) as client, asyncio.timeout(5):
        client.procedures["double"] = lambda number: number * 2
        await client.connect("live")
        await client.publish(key.secret)
        session = await Session.objects.aget()
        others = [asyncio.create_task(layer.receive(await layer.new_channel())) for _ in range(5)]
        for number in range(10):
            assert await procedures.invoke(session.pk, "double", number) == 2 * number
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@pytest.mark.both_forms
async def test_the_project_calls_a_sessions_client(key: NewKey) -> None:
    async with listening() as port, RtmpClient(port=port) as client:
        told: list[Any] = []
        client.procedures["double"] = lambda number: number * 2
        client.procedures["note"] = told.append
        await client.connect("live")
        await client.publish(key.secret)
        session = await Session.objects.aget()
        assert await procedures.invoke(session.pk, "double", 21) == 42
        with pytest.raises(InvokeError) as failed:
            await procedures.invoke(session.pk, "unknown")
        assert failed.value.values[-1]["code"] == FAILED
        await procedures.notify(session.pk, "shown", {"text": "hello"})
        await client.wait_until(lambda: "shown" in str(client.received))
        client.pause_reading()
        with pytest.raises(InvokeError, match="in time"):
            await procedures.invoke(session.pk, "double", 1, limit_s=0.1)
    await until(lambda: not Session.objects.filter(ended_at=None).exists())
    with pytest.raises(InvokeError, match="has ended"):
        await procedures.invoke(session.pk, "double", 1)
