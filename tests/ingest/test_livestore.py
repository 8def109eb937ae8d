"""Both stores hold to the same behaviour; Redis is a server of its own on a free port."""

import asyncio
import time
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from ingest import live_store
from ingest.live_store import CompactSample, LiveStore, LiveView, MemoryLiveStore, RedisLiveStore, Thumbnail
from tests.production.parts import RedisServer
from tests.snapshots import figures, snapshot


class Clock:
    """Time that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture
def redis_store(redis_url: str) -> Iterator[RedisLiveStore]:
    made = RedisLiveStore(redis_url)
    yield made
    made._sync.flushall()
    made._sync.close()
    made._bytes.close()


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> LiveStore:
    return MemoryLiveStore() if request.param == "memory" else request.getfixturevalue("redis_store")


def point(at: float) -> CompactSample:
    return {
        "at": at,
        "video_kbps": 2500.0,
        "audio_kbps": 128.0,
        "fps": 30.0,
        "keyframe_interval": 2.0,
        "drift": None,
        "drift_dev": None,
        "rtt_ms": None,
        "players": 0,
        "health": "good",
    }


def within_one_loop(store: LiveStore, *work: Awaitable[Any]) -> list[Any]:
    async def run() -> list[Any]:
        found = [await each for each in work]
        if isinstance(store, RedisLiveStore):
            await store._client().aclose()
        return found

    return asyncio.run(run())


def test_live_view_joins_the_snapshots_of_all_nodes(store: LiveStore) -> None:
    one, two, three = snapshot(1), snapshot(2), snapshot(3)
    within_one_loop(
        store,
        store.put_node(figures("a", 100.0), [one]),
        store.put_node(figures("b", 100.0), [two]),
        store.put_node(figures("a", 100.0), [one, three]),
    )
    found = store.read()
    assert {node["node"] for node in found.nodes} == {"a", "b"}
    assert sorted(stream["id"] for stream in found.streams) == [1, 2, 3]
    assert one in found.streams


def test_async_reads_return_the_same_as_sync_reads(store: LiveStore) -> None:
    put = (store.put_node(figures("a", 100.0), [snapshot(1)]), store.append_samples({1: point(100.0)}))
    _, _, view, recent = within_one_loop(store, *put, store.aread(), store.arecent(1))
    assert view == store.read()
    assert recent == store.recent(1) == [point(100.0)]


def test_a_node_that_stopped_is_gone_at_once(store: LiveStore) -> None:
    within_one_loop(
        store,
        store.put_node(figures("a", 100.0), [snapshot(1)]),
        store.put_node(figures("b", 100.0), [snapshot(2)]),
    )
    store.remove_node("a")
    assert [stream["id"] for stream in store.read().streams] == [2]


def test_samples_of_the_last_five_minutes_are_kept(store: LiveStore) -> None:
    points = [point(float(at)) for at in range(1000, 1400)]
    within_one_loop(store, *(store.append_samples({1: each}) for each in points))
    assert store.recent(1) == points[-300:]
    assert store.recent(2) == []


def test_old_points_of_a_stream_that_comes_back_are_left_out(store: LiveStore) -> None:
    within_one_loop(store, store.append_samples({1: point(1000.0)}), store.append_samples({1: point(2000.0)}))
    assert store.recent(1) == [point(2000.0)]


def test_memory_forgets_a_node_after_five_seconds() -> None:
    clock = Clock()
    store = MemoryLiveStore(clock)
    asyncio.run(store.put_node(figures("a", 100.0), [snapshot(1)]))
    clock.now += 4.9
    assert len(store.read().nodes) == 1
    clock.now += 0.2
    assert store.read() == LiveView([], [])


def expires_after(store: RedisLiveStore, key: str, seconds: float, before: float) -> bool:
    """Whether the entry, which was put after the moment, goes so many seconds after it was put."""
    put = store._sync.pexpiretime(f"{live_store.PREFIX}{key}") / 1000 - seconds
    return before - 0.1 < put < time.time() + 0.1  # Redis reads the clock once for several commands.


def test_redis_forgets_a_node_after_five_seconds(redis_store: RedisLiveStore) -> None:
    store = redis_store
    before = time.time()
    within_one_loop(store, store.put_node(figures("a", 100.0), [snapshot(1)]))
    assert expires_after(store, "node:a", 5, before)
    store._sync.delete(f"{live_store.PREFIX}node:a")
    assert store.read() == LiveView([], [])


# --- Thumbnails ---

PICTURE = Thumbnail(1_700_000_000_123, b"RIFF\x00\xff\r\nWEBP")


def test_the_last_thumbnail_is_kept_byte_by_byte(store: LiveStore) -> None:
    newer = Thumbnail(PICTURE.at_ms + 5000, b"another")
    within_one_loop(store, store.put_thumbnail("live/a", PICTURE), store.put_thumbnail("live/b", PICTURE))
    assert store.thumbnail("live/a") == store.thumbnail("live/b") == PICTURE
    within_one_loop(store, store.put_thumbnail("live/a", newer))
    assert store.thumbnail("live/a") == newer
    assert store.thumbnail("live/b") == PICTURE
    assert store.thumbnail("live/c") is None


def test_thumbnail_that_was_read_counts_as_watched(store: LiveStore) -> None:
    put = (store.put_thumbnail(path, PICTURE) for path in ("live/a", "live/b"))
    assert within_one_loop(store, *put, store.awatched())[-1] == []
    store.thumbnail("live/b")
    store.thumbnail("live/none")
    assert within_one_loop(store, store.awatched()) == [["live/b"]]


def test_memory_forgets_thumbnails_and_who_watched() -> None:
    clock = Clock()
    store = MemoryLiveStore(clock)
    asyncio.run(store.put_thumbnail("live/a", PICTURE))
    store.thumbnail("live/a")
    clock.now += live_store.WATCHED_S + 0.1
    assert asyncio.run(store.awatched()) == []
    clock.now += live_store.THUMBNAIL_S - live_store.WATCHED_S - 0.2
    assert store.thumbnail("live/a") == PICTURE
    clock.now += 0.2
    assert store.thumbnail("live/a") is None
    asyncio.run(store.put_thumbnail("live/b", PICTURE))
    assert list(store._thumbnails) == ["live/b"]


def test_redis_forgets_thumbnails_and_who_watched(redis_store: RedisLiveStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store = redis_store
    before = time.time()
    within_one_loop(store, store.put_thumbnail("live/a", PICTURE))
    assert expires_after(store, "thumbnail:live/a", live_store.THUMBNAIL_S, before)
    store.thumbnail("live/a")
    monkeypatch.setattr(live_store, "WATCHED_S", 0)
    assert within_one_loop(store, store.awatched()) == [[]]
