"""While the channel layer is away, one asks for all; when it is back, all go on."""

import asyncio
import logging
import re
from typing import Any

import pytest

from ingest.consumers import channel_layer
from ingest.consumers.channel_layer import absence

CONSUMERS = 50


class Layer:
    """Takes messages when it is up, and counts the tries."""

    def __init__(self) -> None:
        self.up = False
        self.tries = 0

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        self.tries += 1
        if not self.up:
            raise ConnectionError


async def test_one_asks_for_all(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(channel_layer, "ASK_S", 0.01)
    monkeypatch.setattr(channel_layer, "SPREAD_S", 0.05)
    caplog.set_level(logging.INFO)
    away = Layer()
    waiting = [asyncio.ensure_future(absence().over(away, "one", ConnectionError())) for _ in range(CONSUMERS)]
    async with asyncio.timeout(5):
        while away.tries < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not any(task.done() for task in waiting)
    waiting[0].cancel()  # The connection that noticed it first ends: the others still hear of its end.
    tries = away.tries
    away.up = True
    async with asyncio.timeout(5):
        await asyncio.wait(waiting)
    assert away.tries == tries + 1
    assert [task.cancelled() for task in waiting] == [True] + [False] * (CONSUMERS - 1)
    said = [record.getMessage() for record in caplog.records]
    assert said[:-1] == ["The channel layer gives no messages: ConnectionError"]
    assert re.fullmatch(r"The channel layer is back after \d+ s\.", said[-1])


async def test_a_second_absence_is_noticed_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_layer, "ASK_S", 0.01)
    monkeypatch.setattr(channel_layer, "SPREAD_S", 0.0)
    away = Layer()
    away.up = True
    for times in (1, 2):
        async with asyncio.timeout(5):
            await absence().over(away, "one", ConnectionError())
        assert away.tries == times
