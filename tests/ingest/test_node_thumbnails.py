"""What a node's application does with the server's pictures."""

import asyncio
import itertools
import logging
from collections.abc import Iterator

import pytest

from ingest import live_store
from ingest.consumers.node import Thumbnails
from ingest.contracts import NodeThumbnail
from ingest.live_store import RedisLiveStore, Thumbnail, get_livestore
from tests.background import free_port
from tests.ingest.control import NodeApp
from tests.ingest.ticks import snapshot, tick_until, until

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS: Iterator[int] = itertools.count(100)
SESSION, OTHER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


async def picture(node: NodeApp, at_ms: int, session: str = SESSION) -> None:
    await node.tell("node.thumbnail", path="live/cam1", session_id=session, at_ms=at_ms, image=b"WEBP")


async def shown(node: NodeApp, session: str | None) -> int | None:
    """What the next tick's snapshot in the live store says of the picture."""
    at = float(next(SECONDS))
    await tick_until(
        node,
        lambda: any(figures["at"] == at for figures in get_livestore().read().nodes),
        at=at,
        streams=[snapshot(1, session)],
    )
    (stream,) = get_livestore().read().streams
    return stream["thumbnail"]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[int]":
    """When the pictures were taken that nodes have kept: the store's answer was there."""
    found: asyncio.Queue[int] = asyncio.Queue()
    keep = Thumbnails.keep

    async def keeping(thumbnails: Thumbnails, event: NodeThumbnail) -> None:
        await keep(thumbnails, event)
        found.put_nowait(event["at_ms"])

    monkeypatch.setattr(Thumbnails, "keep", keeping)
    return found


@pytest.mark.both_forms
async def test_a_picture_is_kept_and_named_in_the_next_snapshot(node: NodeApp, kept: "asyncio.Queue[int]") -> None:
    assert await shown(node, SESSION) is None
    for at_ms in (5000, 10_000):
        await picture(node, at_ms)
        async with asyncio.timeout(5):
            assert await kept.get() == at_ms
        assert get_livestore().thumbnail("live/cam1") == Thumbnail(at_ms, b"WEBP")
        assert await shown(node, SESSION) == at_ms
    assert await shown(node, OTHER) is None, "another publisher"
    assert await shown(node, None) is None


async def test_the_server_is_told_what_somebody_looks_at(node: NodeApp) -> None:
    await picture(node, 5000)
    await until(lambda: get_livestore().thumbnail("live/cam1") is not None)
    await node.tick(at=100.0)
    async with asyncio.timeout(5):
        assert await node.app.receive_output() == {"type": "node.watch", "paths": ["live/cam1"]}
    await node.tick(at=101.0)
    await until(lambda: any(figures["at"] == 101.0 for figures in get_livestore().read().nodes))
    assert node.app.output_queue.empty(), "it has not changed"


async def test_a_store_that_is_away_is_told_once_and_nothing_is_named(
    node: NodeApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live_store, "_store", RedisLiveStore(f"redis://127.0.0.1:{free_port()}/0"))
    with caplog.at_level(logging.WARNING, "ingest.consumers.node"):
        await picture(node, 5000)
        await picture(node, 10_000)
        await until(lambda: "The live store takes no thumbnails" in caplog.text)
        await node.tick(at=100.0)
    assert caplog.text.count("takes no thumbnails") == 1
