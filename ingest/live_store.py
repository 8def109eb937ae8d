"""The LiveStore: the last snapshot of each node and stream, which the API, /metrics and a page's first paint read.

In memory within one process; in Redis where media nodes and web processes are apart. Entries expire after EXPIRY_S
without a put, so that a node that died shows nothing. It is a view, never the truth: that is the database.

Redis's library is 11 MB with what it loads: it is loaded only where Redis is used."""

import asyncio
import json
import struct
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict, cast

from django.conf import settings

from ingest.contracts import Health, NodeFigures, StreamSnapshot
from ingest.models import names
from ingest.services import database

if TYPE_CHECKING:
    import redis.asyncio


def redis_errors() -> tuple[type[Exception], ...]:
    """To be asked where an error is caught (`except redis_errors()`); without Redis there are none."""
    if not settings.REDIS_URL and "redis" not in sys.modules:
        return ()
    from redis.exceptions import RedisError

    return (RedisError,)


EXPIRY_S = 5
RECENT_S = 300
"""Seconds of compact samples that are kept for a chart's first paint."""

THUMBNAIL_S = 900
"""How long a stream's last picture is kept: as long as the wall shows that the stream dropped."""
WATCHED_S = 15
"""After somebody has looked at a stream's picture, it counts as watched."""

PREFIX = "rtmpweb:live:"


class CompactSample(TypedDict):
    """One point of a stream's charts. `at`: seconds since the epoch."""

    at: float
    video_kbps: float
    audio_kbps: float
    fps: float | None
    keyframe_interval: float | None
    drift: float | None
    drift_dev: float | None
    rtt_ms: float | None
    players: int
    health: Health


class Thumbnail(NamedTuple):
    at_ms: int
    """When it was taken, since the epoch."""
    image: bytes
    """WebP."""


class LiveView(NamedTuple):
    nodes: list[NodeFigures]
    streams: list[StreamSnapshot]
    key_tests: tuple[StreamSnapshot, ...] = ()
    """What test-only keys publish (ingest.models.names)."""


class MemoryLiveStore:
    """For one process. Values are kept as they are put: nobody may change them afterwards.

    Methods that begin with `a` are those of the same name for event loops.
    """

    wants_text = False
    """Whether `put_node` serialises the streams; a caller on an event loop had better do it, in parts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._nodes: dict[str, tuple[float, NodeFigures, Sequence[StreamSnapshot]]] = {}
        self._samples: dict[int, tuple[float, deque[CompactSample]]] = {}
        self._thumbnails: dict[str, tuple[float, Thumbnail]] = {}
        self._watched: dict[str, float] = {}

    async def put_node(
        self, figures: NodeFigures, streams: Sequence[StreamSnapshot], *, text: str | None = None
    ) -> None:
        """Replaces what the node showed. `text`: the streams as a JSON list, if the caller has it already."""
        self._nodes[figures["node"]] = (self._clock() + EXPIRY_S, figures, streams)

    def remove_node(self, node: str) -> None:
        """Forgets the node at once: it stopped in order."""
        self._nodes.pop(node, None)

    def read(self) -> LiveView:
        now = self._clock()
        fresh = [entry for entry in list(self._nodes.values()) if entry[0] > now]
        return LiveView(
            [entry[1] for entry in fresh], *names.without_key_tests(stream for entry in fresh for stream in entry[2])
        )

    async def aread(self) -> LiveView:
        return self.read()

    async def append_samples(self, samples: Mapping[int, CompactSample]) -> None:
        """Adds a second's samples by stream row id."""
        now = self._clock()
        for stream, sample in samples.items():
            _, kept = self._samples.get(stream) or (now, deque[CompactSample](maxlen=RECENT_S))
            kept.append(sample)
            self._samples[stream] = (now, kept)
        for stream in [stream for stream, (at, _) in self._samples.items() if at < now - RECENT_S]:
            del self._samples[stream]

    def recent(self, stream: int) -> list[CompactSample]:
        """The stream's last RECENT_S seconds, oldest first."""
        _, kept = self._samples.get(stream) or (0.0, ())
        oldest = kept[-1]["at"] - RECENT_S if kept else 0.0
        return [sample for sample in list(kept) if sample["at"] > oldest]

    async def arecent(self, stream: int) -> list[CompactSample]:
        return self.recent(stream)

    async def put_thumbnail(self, path: str, thumbnail: Thumbnail) -> None:
        """Replaces the picture of the stream (app/name)."""
        now = self._clock()
        self._thumbnails[path] = (now + THUMBNAIL_S, thumbnail)
        for stale in [path for path, (until, _) in self._thumbnails.items() if until <= now]:
            del self._thumbnails[stale]

    def thumbnail(self, path: str) -> Thumbnail | None:
        """The stream's last picture. Whoever reads it watches the stream."""
        now = self._clock()
        until, found = self._thumbnails.get(path) or (0.0, None)
        if found is None or until <= now:
            return None
        self._watched[path] = now + WATCHED_S
        return found

    async def awatched(self) -> list[str]:
        """The streams whose pictures were read in the last WATCHED_S, by their paths."""
        now = self._clock()
        for path in [path for path, until in list(self._watched.items()) if until <= now]:
            self._watched.pop(path, None)
        return list(self._watched)


class RedisLiveStore:
    """As MemoryLiveStore, for several processes. A node is one value with an expiry; a stream's samples are a list of
    JSON texts.
    """

    wants_text = True

    def __init__(self, url: str) -> None:
        import redis  # Loaded only where it is used (ingest.live_store).

        self._url = url
        self._sync = redis.Redis.from_url(url, decode_responses=True, socket_timeout=2, socket_connect_timeout=2)
        self._bytes = redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2)
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, redis.asyncio.Redis] = (
            weakref.WeakKeyDictionary()
        )

    def _client(self) -> "redis.asyncio.Redis":
        """One client for each event loop: its connections belong to the loop that made them."""
        import redis.asyncio

        loop = asyncio.get_running_loop()
        client = self._loops.get(loop)
        if client is None:
            client = self._loops[loop] = redis.asyncio.Redis.from_url(
                self._url, decode_responses=True, socket_timeout=2, socket_connect_timeout=2
            )
        return client

    async def put_node(
        self, figures: NodeFigures, streams: Sequence[StreamSnapshot], *, text: str | None = None
    ) -> None:
        streams_text = json.dumps(list(streams)) if text is None else text
        name = figures["node"]
        value = f'{{"figures":{json.dumps(figures)},"streams":{streams_text}}}'
        now = database.shared_now().timestamp()
        async with self._client().pipeline(transaction=False) as pipe:
            pipe.set(f"{PREFIX}node:{name}", value, ex=EXPIRY_S)
            pipe.zadd(f"{PREFIX}nodes", {name: now})
            pipe.zremrangebyscore(f"{PREFIX}nodes", 0, now - 60)
            await pipe.execute()

    def remove_node(self, node: str) -> None:
        self._sync.delete(f"{PREFIX}node:{node}")

    def read(self) -> LiveView:
        names = cast("list[str]", self._sync.zrange(f"{PREFIX}nodes", 0, -1))
        return _view(cast("list[str | None]", self._sync.mget(_node_keys(names))) if names else [])

    async def aread(self) -> LiveView:
        client = self._client()
        names = cast("list[str]", await client.zrange(f"{PREFIX}nodes", 0, -1))
        return _view(cast("list[str | None]", await client.mget(_node_keys(names))) if names else [])

    async def append_samples(self, samples: Mapping[int, CompactSample]) -> None:
        if not samples:
            return
        async with self._client().pipeline(transaction=False) as pipe:
            for stream, sample in samples.items():
                key = f"{PREFIX}samples:{stream}"
                pipe.rpush(key, json.dumps(sample))
                pipe.ltrim(key, -RECENT_S, -1)
                pipe.expire(key, RECENT_S)
            await pipe.execute()

    def recent(self, stream: int) -> list[CompactSample]:
        return _samples(cast("list[str]", self._sync.lrange(f"{PREFIX}samples:{stream}", 0, -1)))

    async def arecent(self, stream: int) -> list[CompactSample]:
        return _samples(cast("list[str]", await self._client().lrange(f"{PREFIX}samples:{stream}", 0, -1)))

    async def put_thumbnail(self, path: str, thumbnail: Thumbnail) -> None:
        value = _stamp.pack(thumbnail.at_ms) + thumbnail.image
        await self._client().set(f"{PREFIX}thumbnail:{path}", value, ex=THUMBNAIL_S)

    def thumbnail(self, path: str) -> Thumbnail | None:
        value = cast("bytes | None", self._bytes.get(f"{PREFIX}thumbnail:{path}"))
        if value is None:
            return None
        self._bytes.zadd(f"{PREFIX}watched", {path: time.time()})
        return Thumbnail(_stamp.unpack_from(value)[0], value[_stamp.size :])

    async def awatched(self) -> list[str]:
        async with self._client().pipeline(transaction=False) as pipe:
            pipe.zremrangebyscore(f"{PREFIX}watched", 0, time.time() - WATCHED_S)
            pipe.zrange(f"{PREFIX}watched", 0, -1)
            return cast("list[str]", (await pipe.execute())[1])


_stamp = struct.Struct(">Q")
"""Before a thumbnail's image: its at_ms."""


def _node_keys(names: Sequence[str]) -> list[str]:
    return [f"{PREFIX}node:{name}" for name in names]


def _view(values: Sequence[str | None]) -> LiveView:
    nodes = [json.loads(value) for value in values if value is not None]
    return LiveView(
        [node["figures"] for node in nodes],
        *names.without_key_tests(stream for node in nodes for stream in node["streams"]),
    )


def _samples(texts: Sequence[str]) -> list[CompactSample]:
    samples: list[CompactSample] = [json.loads(text) for text in texts]
    oldest = samples[-1]["at"] - RECENT_S if samples else 0.0
    return [sample for sample in samples if sample["at"] > oldest]


LiveStore = MemoryLiveStore | RedisLiveStore

_store: LiveStore | None = None


def get_livestore() -> LiveStore:
    global _store
    if _store is None:
        _store = RedisLiveStore(settings.REDIS_URL) if settings.REDIS_URL else MemoryLiveStore()
    return _store
