"""How many requests run at a time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dashboard.system.watch import Watch
from rtmpweb.atmost import AtMost


class Application:
    """Requests that run until they are let go."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.go_on.wait()
        finally:
            self.running -= 1


def asked(bounded: AtMost, count: int, path: str = "/") -> "list[asyncio.Task[None]]":
    return [asyncio.create_task(bounded({"type": "http", "path": path}, None, None)) for _ in range(count)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # The condition has no event to wait for.
            await asyncio.sleep(0)


async def test_what_is_over_the_limit_waits_for_its_turn() -> None:
    application = Application()
    requests = asked(AtMost(application, 2), 7)
    await until(lambda: application.running == 2)
    requests.pop().cancel()  # Who goes while waiting leaves no place empty,
    requests.pop(0).cancel()  # nor does who goes while it runs.
    application.go_on.set()
    await asyncio.wait_for(asyncio.gather(*requests), 5)
    assert application.most == 2


async def test_health_is_told_at_once() -> None:
    application = Application()
    bounded = AtMost(application, 1)
    requests = asked(bounded, 2)
    await until(lambda: application.running == 1)
    requests += asked(bounded, 1, "/healthz")
    await until(lambda: application.running == 2)
    application.go_on.set()
    await asyncio.wait_for(asyncio.gather(*requests), 5)


async def test_an_outage_of_the_database_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application()
    bounded = AtMost(application, 1)
    requests = asked(bounded, 1)
    await until(lambda: application.running == 1)
    monkeypatch.setattr(Watch, "database_is_down", True)
    requests += asked(bounded, 3)
    await until(lambda: application.running == 4)
    application.go_on.set()
    await asyncio.wait_for(asyncio.gather(*requests), 5)
