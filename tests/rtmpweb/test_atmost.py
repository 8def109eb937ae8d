"""How many requests run at a time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dashboard.system.watch import Watch
from rtmpweb.middleware import WAITING_EACH, RequestLimit


class Application:
    """Requests that run until they are let go."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.bodies: list[bytes] = []
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.running += 1
        self.bodies.append((await receive())["body"])
        self.most = max(self.most, self.running)
        try:
            await self.go_on.wait()
        finally:
            self.running -= 1


class Asked:
    """A request, and who asks."""

    def __init__(self, bounded: RequestLimit, path: str, body: bytes) -> None:
        self.says: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.says.put_nowait({"type": "http.request", "body": body, "more_body": False})
        self.told: list[dict[str, Any]] = []
        self.task = asyncio.create_task(bounded({"type": "http", "path": path}, self.says.get, self._hear))

    async def _hear(self, message: dict[str, Any]) -> None:
        self.told.append(message)

    def leave(self) -> None:
        self.says.put_nowait({"type": "http.disconnect"})


def ask(bounded: RequestLimit, count: int, path: str = "/") -> list[Asked]:
    return [Asked(bounded, path, b"%d" % number) for number in range(count)]


def asked(bounded: RequestLimit, count: int, path: str = "/") -> "list[asyncio.Task[None]]":
    return [each.task for each in ask(bounded, count, path)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # The condition has no event to wait for.
            await asyncio.sleep(0)


async def test_what_is_over_the_limit_waits_for_its_turn() -> None:
    application = Application()
    requests = asked(RequestLimit(application, 2), 7)
    await until(lambda: application.running == 2)
    requests.pop().cancel()  # Who goes while waiting leaves no place empty,
    requests.pop(0).cancel()  # nor does who goes while it runs.
    application.go_on.set()
    await asyncio.wait_for(asyncio.gather(*requests), 5)
    assert application.most == 2


async def test_who_leaves_is_not_waited_for() -> None:
    application = Application()
    bounded = RequestLimit(application, 2)
    requests = ask(bounded, 6)
    await until(lambda: application.running == 2)
    for request in requests[3:]:
        request.leave()
    await until(lambda: all(request.task.done() for request in requests[3:]))
    application.go_on.set()
    await asyncio.wait_for(requests[2].task, 5)
    assert sorted(application.bodies) == [b"0", b"1", b"2"]
    later = ask(bounded, 2)  # And all places are there again.
    await asyncio.wait_for(asyncio.gather(*(request.task for request in later)), 5)


async def test_who_leaves_as_its_turn_comes_leaves_no_place_empty() -> None:
    application = Application()
    bounded = RequestLimit(application, 1)
    first, second, third = ask(bounded, 3)
    await until(lambda: application.running == 1)
    application.go_on.set()
    first.task.add_done_callback(lambda _: second.leave())
    await asyncio.wait_for(asyncio.gather(first.task, second.task, third.task), 5)
    assert application.bodies[-1] == b"2"


async def test_beyond_so_many_that_wait_one_is_refused_and_told_when_to_come_again() -> None:
    application = Application()
    bounded = RequestLimit(application, 1)
    *_, refused = requests = ask(bounded, 1 + WAITING_EACH + 1)
    await asyncio.wait_for(refused.task, 5)
    start, body = refused.told
    assert start["status"] == 503
    assert dict(start["headers"])[b"retry-after"] == b"5"
    assert b"try again" in body["body"]
    application.go_on.set()
    await asyncio.wait_for(asyncio.gather(*(request.task for request in requests)), 5)
    assert len(application.bodies) == 1 + WAITING_EACH


async def test_health_is_told_at_once() -> None:
    application = Application()
    bounded = RequestLimit(application, 1)
    requests = asked(bounded, 2)
    await until(lambda: application.running == 1)
    requests += asked(bounded, 1, "/healthz")
    await until(lambda: application.running == 2)
    application.go_on.set()
    await asyncio.wait_for(asyncio.gather(*requests), 5)


async def test_an_outage_of_the_database_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application()
    bounded = RequestLimit(application, 1)
    requests = asked(bounded, 1)
    await until(lambda: application.running == 1)
    monkeypatch.setattr(Watch, "database_is_down", True)
    requests += asked(bounded, 3)
    await until(lambda: application.running == 4)
    application.go_on.set()
    await asyncio.wait_for(asyncio.gather(*requests), 5)
