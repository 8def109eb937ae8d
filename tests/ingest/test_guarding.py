"""Guessing as attackers, encoders, viewers and operators see it: real connections to a media node."""

import asyncio
import contextlib
import logging
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.consumers import login, upkeep
from ingest.models import Application, Attempt, Ban, Session, Stream
from ingest.rtmp import events
from ingest.services import bans, keys, play_tokens
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.control import NODE
from tests.ingest.faults import missing_table
from tests.ingest.listener import listening
from tests.ingest.server.media import AVC_HEADER
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient

pytestmark = pytest.mark.django_db(transaction=True)

HERE = "127.0.0.1"


@pytest.fixture(autouse=True)
def quick(settings: Any) -> None:
    settings.GUESSES = 3


async def publish(port: int, secret: str, app: str = "live") -> str:
    """What came of it: the refusal's code and description, or "live"."""
    async with RtmpClient(port=port, timeout_s=20) as encoder:
        try:
            await encoder.connect(app)
            await encoder.publish(secret)
        except Refused as refused:
            return str(refused)
    return "live"


async def play(port: int, name: str, app: str = "live") -> str:
    async with RtmpClient(port=port) as player:
        try:
            await player.connect(app)
            await player.play(name)
        except Refused as refused:
            return str(refused)
    return "live"


async def guess(port: int, count: int) -> list[str]:
    return [await publish(port, keys.generate()) for _ in range(count)]


async def impose() -> None:
    await sync_to_async(bans.impose)(address=HERE, seconds=600, now=timezone.now())


class Looks:
    """Counts the node's looks at the bans that are over. It takes one each second, test_node has that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.over = 0
        self._tell = bans.tell_guard
        monkeypatch.setattr(bans, "tell_guard", self._look)

    def _look(self, *args: Any, **kwargs: Any) -> bans.Mark:
        mark = self._tell(*args, **kwargs)
        self.over += 1
        return mark

    async def another(self) -> None:
        """Waits for one that begins after now: the next one that ends may be under way."""
        seen = self.over
        await until(lambda: self.over > seen + 1)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


async def test_who_guesses_is_banned_and_nobody_else_is_disturbed(
    process: HistoryWriter, stream: Stream, key: NewKey, caplog: pytest.LogCaptureFixture
) -> None:
    other = await Stream.objects.acreate(application=stream.application, name="cam2")
    live_key = await sync_to_async(keys.create)(stream=other)
    async with listening() as port, RtmpClient(port=port) as before:
        await before.connect("live")
        stream_id = await before.publish(live_key.secret)
        with caplog.at_level(logging.WARNING):
            wrong = await guess(port, 3)
        assert {"NetStream.Publish.Denied: The stream key is not known."} == set(wrong)
        refusal = await publish(port, key.secret)
        assert refusal.startswith(
            "NetStream.Publish.Denied: Too many wrong keys, tokens or passwords came from this address."
        )
        by_app = await publish(port, "cam1", app=f"live?key={key.secret}")
        assert by_app.startswith("NetConnection.Connect.Rejected: Too many wrong keys")
        assert "Too many wrong keys" in await play(port, "cam1?token=anything")
        assert await play(port, "cam1") == "live"
        await before.send_video(stream_id, 0, AVC_HEADER)
        assert not before.closed
    assert f"manage.py ban lift {HERE}" in caplog.text
    assert process.flush(5)
    ban = await Ban.objects.aget()
    assert (ban.address, ban.guesses, ban.node, ban.lifted_at) == (HERE, 3, NODE, None)
    assert 590 < (ban.until - timezone.now()).total_seconds() < 600
    refused = [
        (row.action, row.name, row.count) async for row in Attempt.objects.filter(reason="banned").order_by("pk")
    ]
    assert refused == [("publish", "", 1), ("connect", "", 1), ("play", "", 1)]
    assert await Session.objects.filter(kind="publish").acount() == 1


async def test_one_wrong_key_again_and_again_bans_nobody(process: HistoryWriter, key: NewKey) -> None:
    async with listening() as port:
        mistyped = keys.generate()
        for _ in range(5):
            assert "not known" in await publish(port, mistyped)
        assert await publish(port, key.secret) == "live"
    assert process.flush(5)
    assert (await Attempt.objects.aget()).count == 5
    assert not await Ban.objects.aexists()


async def test_wrong_tokens_are_guesses_too(process: HistoryWriter, stream: Stream) -> None:
    await Application.objects.aupdate(play_policy="token")
    token = play_tokens.issue(stream=stream.pk)
    async with listening() as port:
        assert await play(port, f"cam1?token={token}") == "live"
        for number in range(3):
            assert "not valid" in await play(port, f"cam1?token=guess-{number}")
        assert "Too many wrong keys, tokens or passwords" in await play(port, f"cam1?token={token}")


async def test_those_on_the_application_are_refused_there(process: HistoryWriter, stream: Stream) -> None:
    await Application.objects.aupdate(play_policy="token")
    token = play_tokens.issue(stream=stream.pk)
    async with listening() as port:
        assert await play(port, "cam1", app=f"live?token={token}") == "live"
        for number in range(3):
            refused = await play(port, "cam1", app=f"live?token=guess-{number}")
            assert refused == "NetConnection.Connect.Rejected: The play token is not valid for this stream."
        assert "Too many wrong keys, tokens or passwords" in await play(port, "cam1", app=f"live?token={token}")


async def test_a_lifted_ban_is_over_with_the_nodes_next_look(process: HistoryWriter, key: NewKey, looks: Looks) -> None:
    async with listening() as port:
        await guess(port, 3)
        assert "Too many" in await publish(port, key.secret)
        await until(Ban.objects.exists)
        assert await sync_to_async(bans.lift)(address=HERE, now=timezone.now()) == 1
        await looks.another()
        assert await publish(port, key.secret) == "live"


@pytest.mark.both_forms
async def test_another_nodes_ban_holds_here_with_the_next_look_and_ends_by_itself(
    process: HistoryWriter, key: NewKey, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening() as port:
        assert await publish(port, key.secret) == "live"
        await impose()
        await looks.another()
        assert "Too many" in await publish(port, key.secret)
        monkeypatch.setattr(login, "clock", SimpleNamespace(now=lambda: time.time() + 600))
        assert await publish(port, key.secret) == "live"


@pytest.mark.both_forms
async def test_a_node_that_starts_knows_the_bans(
    process: HistoryWriter, key: NewKey, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its start, not from its first look afterwards."""
    monkeypatch.setattr(upkeep.Upkeep, "_revocations", AsyncMock())
    await impose()
    async with listening() as port:
        await until(lambda: looks.over)
        assert "Too many" in await publish(port, key.secret)


async def test_who_is_banned_learns_nothing_of_keys(process: HistoryWriter, key: NewKey) -> None:
    """Not even whether they could be looked up."""
    async with listening() as port:
        await guess(port, 3)
        with missing_table("ingest_streamkey"):
            right, wrong = await publish(port, key.secret), await publish(port, keys.generate())
    assert right == wrong
    assert "Too many" in right


async def test_without_bans_wrong_keys_stay_wrong(process: HistoryWriter, key: NewKey, settings: Any) -> None:
    settings.BAN_S = 0
    async with listening() as port:
        assert all("not known" in answer for answer in await guess(port, 6))
        assert await publish(port, key.secret) == "live"


def held_long(_least: float, _most: float) -> float:
    """In place of a random time: clients don't wait so long."""
    return 60.0


async def test_wrong_keys_are_answered_late_and_right_ones_at_once(
    process: HistoryWriter, key: NewKey, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REFUSAL_DELAY_S = 2.0
    loop = asyncio.get_running_loop()
    mistyped = keys.generate()
    drawn: list[tuple[float, float]] = []

    def draw(least: float, most: float) -> float:
        drawn.append((least, most))
        return held_long(least, most)

    async def timed() -> tuple[str, float]:
        asked = loop.time()
        return await publish(port, mistyped), loop.time() - asked

    async with listening() as port:
        with monkeypatch.context() as longer:
            longer.setattr(login._random, "uniform", draw)
            waiting = asyncio.gather(*(timed() for _ in range(8)))
            await until(lambda: len(drawn) == 8)
            assert await publish(port, key.secret) == "live"
            assert not waiting.done()
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
        answers = await asyncio.gather(*(timed() for _ in range(8)))
    assert drawn == [(0, 2.0)] * 8
    assert all("not known" in answer for answer, _ in answers)
    times = [took for _, took in answers]
    assert max(times) > 0.25  # Eight random times of up to 2 s.
    assert max(times) - min(times) > 0.1


async def test_a_client_that_leaves_meanwhile_is_forgotten(
    process: HistoryWriter, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REFUSAL_DELAY_S = 7.0
    monkeypatch.setattr(login._random, "uniform", held_long)
    application = await Application.objects.acreate(name="live")
    async with listening() as port, RtmpClient(port=port) as encoder:
        await encoder.connect(application.name)
        stream_id = await encoder.create_stream()
        encoder.protocol.publish(stream_id, keys.generate(), "live")
        await encoder.flush()
        await until(Attempt.objects.exists)
        assert not encoder.of(events.StatusReceived)
        encoder.abort()
    assert (await Attempt.objects.aget()).count == 1
