"""Both stores hold to the same behaviour; Redis is a server of its own on a free port."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from ingest import live_store
from ingest.contracts import NodeFigures
from ingest.live_store import CompactSample, LiveStore, LiveView, MemoryLiveStore, RedisLiveStore, Thumbnail
from tests.ingest.ticks import snapshot
from tests.redis_server import RedisServer


class Clock:
    """Time that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server.url
    server.stop()


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[LiveStore]:
    if request.param == "memory":
        yield MemoryLiveStore()
        return
    made = RedisLiveStore(request.getfixturevalue("redis_url"))
    yield made
    made._sync.flushall()
    made._sync.close()
    made._bytes.close()


def figures(node: str) -> NodeFigures:
    return {
        "node": node,
        "at": 100.0,
        "streams": 1,
        "publishers": 1,
        "players": 0,
        "connections": 1,
        "refused_connections": 0,
        "in_kbps": 1.0,
        "out_kbps": 0.0,
        "loop_delay_ms": 0.1,
        "cpu_percent": None,
        "disk_free_percent": None,
    }


def point(at: float) -> CompactSample:
    return {
        "at": at,
        "video_kbps": 2500.0,
        "audio_kbps": 128.0,
        "fps": 30.0,
        "keyframe_interval": 2.0,
        "drift_dev": None,
        "rtt_ms": None,
        "players": 0,
        "health": "good",
    }


def within_one_loop(store: LiveStore, *work: object) -> None:
    async def run() -> None:
        for each in work:
            await each  # type: ignore[misc]
        if isinstance(store, RedisLiveStore):
            await store._client().aclose()

    asyncio.run(run())


def test_nodes_are_put_together(store: LiveStore) -> None:
    one, two, three = snapshot(1), snapshot(2), snapshot(3)
    within_one_loop(
        store,
        store.put_node(figures("a"), [one]),
        store.put_node(figures("b"), [two]),
        store.put_node(figures("a"), [one, three]),
    )
    found = store.read()
    assert {node["node"] for node in found.nodes} == {"a", "b"}
    assert sorted(stream["id"] for stream in found.streams) == [1, 2, 3]
    assert one in found.streams


def test_a_loop_reads_the_same(store: LiveStore) -> None:
    async def run() -> None:
        await store.put_node(figures("a"), [snapshot(1)])
        await store.append_samples({1: point(100.0)})
        assert await store.aread() == store.read()
        assert await store.arecent(1) == store.recent(1) == [point(100.0)]
        if isinstance(store, RedisLiveStore):
            await store._client().aclose()

    asyncio.run(run())


def test_a_node_that_stopped_is_gone_at_once(store: LiveStore) -> None:
    within_one_loop(store, store.put_node(figures("a"), [snapshot(1)]), store.put_node(figures("b"), [snapshot(2)]))
    store.remove_node("a")
    assert [stream["id"] for stream in store.read().streams] == [2]


def test_the_last_five_minutes_are_kept(store: LiveStore) -> None:
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
    asyncio.run(store.put_node(figures("a"), [snapshot(1)]))
    clock.now += 4.9
    assert len(store.read().nodes) == 1
    clock.now += 0.2
    assert store.read() == LiveView([], [])


def expires_after(store: RedisLiveStore, key: str, seconds: float, before: float) -> bool:
    """Whether the entry, which was put after the moment, goes so many seconds after it was put."""
    put = store._sync.pexpiretime(f"{live_store.PREFIX}{key}") / 1000 - seconds
    return before - 0.1 < put < time.time() + 0.1  # Redis reads the clock once for several commands.


def test_redis_forgets_a_node_after_five_seconds(redis_url: str) -> None:
    store = RedisLiveStore(redis_url)
    before = time.time()
    within_one_loop(store, store.put_node(figures("a"), [snapshot(1)]))
    assert expires_after(store, "node:a", 5, before)
    store._sync.delete(f"{live_store.PREFIX}node:a")
    assert store.read() == LiveView([], [])
    store._sync.flushall()
    store._sync.close()


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


def test_what_was_read_is_watched(store: LiveStore) -> None:
    async def run() -> None:
        await store.put_thumbnail("live/a", PICTURE)
        await store.put_thumbnail("live/b", PICTURE)
        assert await store.awatched() == []
        store.thumbnail("live/b")
        store.thumbnail("live/none")
        assert await store.awatched() == ["live/b"]
        if isinstance(store, RedisLiveStore):
            await store._client().aclose()

    asyncio.run(run())


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


def test_redis_forgets_thumbnails_and_who_watched(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RedisLiveStore(redis_url)
    before = time.time()
    within_one_loop(store, store.put_thumbnail("live/a", PICTURE))
    assert expires_after(store, "thumbnail:live/a", live_store.THUMBNAIL_S, before)
    store.thumbnail("live/a")
    monkeypatch.setattr(live_store, "WATCHED_S", 0)

    async def watched() -> list[str]:
        found = await store.awatched()
        await store._client().aclose()
        return found

    assert asyncio.run(watched()) == []
    store._sync.flushall()
    store._sync.close()
    store._bytes.close()
