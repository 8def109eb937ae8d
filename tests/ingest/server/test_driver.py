"""One application instance: its inbox, its last event, its failures."""

import asyncio
import logging
from typing import Any

import pytest

from ingest.server.asgi import ASGIApplication, Driver


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


async def test_a_failure_is_logged_once_and_ends_it(caplog: pytest.LogCaptureFixture) -> None:
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
