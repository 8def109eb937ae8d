"""The packager's process: a node without a listener of RTMP, its HTTP, and the streams that are packaged."""

import asyncio
import logging
import socket
from collections import Counter
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Final

from ingest.consumers import decisions
from ingest.contracts import Labels, PlayAccept, RelayOrder
from ingest.hls import HlsSettings
from ingest.live import LiveStream
from ingest.packager.access import Access, Found, read_always
from ingest.packager.application import HlsApplication
from ingest.packager.demand import Demand
from ingest.packager.http_server import HttpServer
from ingest.packager.packaged import PackagedStream
from ingest.packager.requests import Target
from ingest.packager.rewind import Key, Rewind
from ingest.packager.settings import PackagerSettings
from ingest.packager.shared_answers import SharedAnswers
from ingest.packager.viewers import Viewer, ViewerIds, Viewers
from ingest.server import RtmpServer, ServerConfig, connections_possible
from ingest.server.asgi import ASGIApplication
from ingest.server.connection_limits import ConnectionLimits
from ingest.server.process import raise_open_file_limit

logger = logging.getLogger(__name__)

TICK_S: Final = 1.0


class Packager:
    """`start` serves on the running loop; `stop` ends all of it in order."""

    def __init__(
        self,
        application: ASGIApplication,
        config: ServerConfig,
        settings: PackagerSettings,
        hls: HlsSettings,
        secret: bytes,
    ) -> None:
        self.settings = settings
        self._hls = hls
        self.server = RtmpServer(application, config)
        self._access = Access(config.node, settings)
        self._demand = Demand()
        self._streams: dict[str, PackagedStream] = {}
        self._watching: Counter[str] = Counter()
        """Viewers, by path: they outlive what is packaged."""
        self._ids = ViewerIds(secret)
        self.viewers: Viewers
        self._rewind = Rewind(settings.rewind, settings, self._dropped) if settings.rewind else None
        self._http: HttpServer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._always: asyncio.Task[None] | None = None
        self._is_always_failing = False

    async def start(self, listener: socket.socket) -> None:
        """Raises ListenError."""
        await self._open_rewind()
        await self.server.start()
        self._loop = asyncio.get_running_loop()
        self.viewers = Viewers(self.server, self.settings, self._ids, joined=self._joined, left=self._left)
        self.viewers.local = listener.getsockname()[:2]
        raise_open_file_limit(self.settings.connections)
        limits = ConnectionLimits(
            min(self.settings.connections, connections_possible()),
            self.settings.connections_per_address,
            scheme="hls",
            setting="The packager's limit of connections",
            advice="Put a cache in front, or run another packager.",
        )
        self._http = HttpServer(HlsApplication(self, self.settings.proxies), SharedAnswers(self), self.settings, limits)
        self._http.begin(listener)
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self._always = self._loop.create_task(self._look_for_always())

    async def stop(self, grace_s: float) -> None:
        for handle in (self._timer, self._always):
            if handle is not None:
                handle.cancel()
        for path in list(self._streams):
            self._end(path)
        if self._http is not None:
            await self._http.stop()
        await self.server.stop(grace_s)
        if self._rewind is not None:
            await self._rewind.close()

    async def _open_rewind(self) -> None:
        if self._rewind is not None:
            try:
                await self._rewind.open()
            except OSError as error:
                logger.warning("%s can't be used: %s. Viewers can't go back.", self.settings.rewind, error.strerror)
                self._rewind = None

    def _dropped(self, key: Key) -> None:
        for stream in self._streams.values():
            if stream.epoch == key.epoch:
                stream.packaging.renditions[key.rendition].lose(key.msn)

    # --- What the HTTP application asks ---

    async def look(self, target: Target, address: str) -> Found:
        """A stream whose media come is live, though its node could not say so to the database for long."""
        found = await self._access.look(target.app, target.name, target.token, address)
        stream = self._streams.get(found.path) if found.state == "waiting" else None
        if stream is not None and stream.is_published:
            return replace(found, state="live")
        if found.pull is not None:
            self._demand.ask(found.pull)
        return found

    async def look_until_begun(self, target: Target, address: str) -> Found:
        """The same; of a stream on demand, once it is live or that takes too long. That nobody publishes is not true of
        now when it was read before: an encoder may have begun in between."""
        began, name = self._loop.time(), (target.app, target.name, target.token)
        until = began + self.settings.pulled_s
        found = await self.look(target, address)
        while (
            found.state == "waiting"
            and (found.pull is not None or not self._access.has_answered_since(began, *name))
            and self._loop.time() < until
        ):
            await asyncio.sleep(self.settings.known_s / 2)
            found = await self.look(target, address)
        return found

    def known(self, target: Target) -> Found | None:
        return self._access.known(target.app, target.name, target.token)

    def packaged(self, path: str) -> PackagedStream | None:
        return self._streams.get(path)

    def from_disk(self, target: Target) -> AbstractAsyncContextManager[bytes | None]:
        if self._rewind is None:
            return nullcontext()
        return self._rewind.read(Key(target.epoch, target.rendition, target.number))

    # --- Streams ---

    def _joined(self, viewer: Viewer, accept: PlayAccept) -> None:
        self._watching[viewer.path] += 1
        stream = self._package(viewer.path, accept["labels"], accept.get("source"))
        if stream is not None:
            stream.viewers = self._watching[viewer.path]
            stream.asked_at = self._loop.time()

    def _left(self, viewer: Viewer) -> None:
        self._watching[viewer.path] -= 1
        stream = self._streams.get(viewer.path)
        if stream is not None:
            stream.viewers = self._watching[viewer.path]
        if not self._watching[viewer.path]:
            del self._watching[viewer.path]

    def _package(
        self, path: str, labels: Labels, order: RelayOrder | None, *, is_always: bool = False
    ) -> PackagedStream | None:
        """The stream, from now on if it was not before. None: there are as many as there may be."""
        if order is not None:
            self.server.relays.want(path, order)
        stream = self._streams.get(path)
        if stream is not None and stream.has_ended:
            self._end(path)
            stream = None
        if stream is None and len(self._streams) < self.settings.most_streams:
            live: LiveStream = self.server.registry.get_or_create(path, labels)
            stream = self._streams[path] = PackagedStream(
                self.server,
                live,
                self.settings,
                self._hls,
                is_always=is_always,
                keep=self._rewind.keep if self._rewind is not None else None,
            )
            logger.info("%s is packaged.", path)
        return stream

    def _end(self, path: str) -> None:
        stream = self._streams.pop(path)
        stream.close()
        if self._rewind is not None:
            self._rewind.forget(stream.epoch)
        logger.info("%s is not packaged any more.", path)

    def _tick(self) -> None:
        now = self._loop.time()
        self._timer = self._loop.call_later(TICK_S, self._tick)
        for path, stream in list(self._streams.items()):
            try:
                stream.tick(now)
            except Exception:
                logger.exception("%s: packaging failed, and is given up", path)
                self._end(path)
                continue
            if stream.is_idle(now):
                self._end(path)
        self.viewers.sweep(now, self._gone_s)

    def _gone_s(self, path: str) -> float:
        stream = self._streams.get(path)
        renditions = stream.packaging.renditions.values() if stream is not None else ()
        return max([self.settings.gone_s, *(2 * each.targets.duration_s + 2 for each in renditions)])

    # --- What is always packaged ---

    async def _look_for_always(self) -> None:
        while True:
            await asyncio.sleep(self.settings.always_s)
            try:
                await self._package_always()
            except Exception as error:
                if not self._is_always_failing:
                    logger.warning("Which streams are always packaged is not known: %s", type(error).__name__)
                self._is_always_failing = True
            else:
                self._is_always_failing = False

    async def _package_always(self) -> None:
        known = frozenset(path for path, stream in self._streams.items() if not stream.has_ended)
        wanted, names = await decisions.run(
            lambda: read_always(node=self.server.config.node, known=known), executor=decisions.READ
        )
        for path, stream in self._streams.items():
            stream.is_always = path in names
        for each in wanted:
            self._package(each.path, each.labels, each.order, is_always=True)
