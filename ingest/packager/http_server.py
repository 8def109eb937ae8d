"""HTTP for the packager: uvicorn, with bounds on what a connection may take.

uvicorn waits for a request's head for as long as it likes, reads any length of one, and serves as many connections as
come. Here each connection has a place from its accept on, its head a bound and a deadline, and its requests a rate.
And what many viewers are given alike (`shared_answers`) is written here, without a task for each: a request that waits
is a row in a list."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ingest import addresses
from ingest.packager.application import HAS_WAITED
from ingest.packager.settings import PackagerSettings
from ingest.packager.shared_answers import Awaited, Shared, SharedAnswers
from ingest.rate_limit import TokenBucket
from ingest.server.connection_limits import ConnectionLimits
from ingest.server.sockets import address, tune

UNSENT_BYTES = 128 * 1024
BACKLOG = 2048
LOGGER = "uvicorn.error"

OK = b"HTTP/1.1 200 OK\r\n"
TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Held:
    """In the place of uvicorn's cycle for a request that the connection answers itself."""

    __slots__ = ("body", "disconnected", "keep_alive", "message_event", "more_body", "response_complete", "scope")

    def __init__(self, scope: Any) -> None:
        self.scope = scope
        self.response_complete = self.disconnected = False
        self.keep_alive = self.more_body = True
        self.body = bytearray()
        self.message_event = NOBODY_WAITS


class _NobodyWaits:
    def set(self) -> None:
        """For an event that uvicorn has for its application."""


NOBODY_WAITS = _NobodyWaits()


class Flow(FlowControl):
    """Reading goes on once neither an answer nor the rate of requests holds it up."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._is_full = self._is_over_rate = False

    def pause_reading(self) -> None:
        self._is_full = True
        self._hold()

    def resume_reading(self) -> None:
        self._is_full = False
        self._hold()

    def over_rate(self, whether: bool) -> None:
        self._is_over_rate = whether
        self._hold()

    def _hold(self) -> None:
        if self._is_full or self._is_over_rate:
            super().pause_reading()
        else:
            super().resume_reading()


class TooManyWait(Exception):  # noqa: N818 - the parser's callback says so.
    """Requests of a connection behind the one that is answered."""


class HlsConnection(HttpToolsProtocol):
    """One connection; the application finds it in its scope, under `connection`."""

    settings: ClassVar[PackagerSettings]
    limits: ClassVar[ConnectionLimits]
    shared: ClassVar[SharedAnswers]

    transport: Any
    cycle: Any
    flow: Flow
    viewer = ""
    """Whose playlists were asked for by it last: what else is asked for by it is that viewer's."""
    peer = ""
    answering: asyncio.Task[Any] | None = None
    """What makes the answer to a request: it ends with the connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_counted = self._is_proxy = False
        self._held: Held | None = None
        """The request that waits, if there is one, and how that is given up."""
        self._let_go: Callable[[], object] | None = None
        self._answered: RequestResponseCycle | None = None
        """The request that is answered, or was last; `cycle` is the one that came last."""
        self._head_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._rate = TokenBucket(self.settings.requests_per_s, self.settings.requests, self.loop.time())
        self._resume: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self.peer = address(transport.get_extra_info("peername"))[0]
        self._is_proxy = addresses.is_in(self.peer, self.settings.proxies)
        if not self.limits.take(self.peer, is_proxy=self._is_proxy):
            transport.abort()
            return
        self._is_counted = True
        tune(transport.get_extra_info("socket"), UNSENT_BYTES)
        super().connection_made(transport)
        self.flow = Flow(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._stuck, self._resume):
            if timer is not None:
                timer.cancel()
        if self._is_counted:
            self._is_counted = False
            self.limits.free(self.peer)
            super().connection_lost(exc)
            self.pipeline.clear()
            if self._answered is not None:
                self._answered.disconnected = True
            if self.answering is not None:
                self.answering.cancel()
            if self._held is not None and self._let_go is not None:
                self._held.disconnected = True
                self._let_go()

    @property
    def is_lost(self) -> bool:
        return not self._is_counted

    def data_received(self, data: bytes) -> None:
        if not self._is_counted:
            return
        self._head_bytes += len(data)
        if self._head_bytes > self.settings.head_bytes:
            self._refuse(TOO_LONG)
            return
        super().data_received(data)
        if self._head_bytes and self._deadline is None and not self.transport.is_closing():
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["connection"] = self  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self.settings.pipelined:
            raise TooManyWait
        if not self._is_plain():
            super().on_headers_complete()
            return
        found = self.shared.find(self, self.url, self.headers)
        if found is None:
            super().on_headers_complete()
            return
        self.cycle = held = Held(self.scope)
        if isinstance(found, Awaited):
            go_on = partial(self._go_on_with, held, self.url, self.headers)
            self._held, self._let_go = held, found.stream.hold(found.rendition, found.is_over, go_on)
        else:
            self._give(held, found)

    def _is_plain(self) -> bool:
        """Whether nothing else is asked for by it now, and the answer may be written at once."""
        parser, cycle = self.parser, self.cycle
        return (
            (cycle is None or cycle.response_complete)
            and not self.flow.write_paused
            and parser.get_method() == b"GET"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
        )

    def _give(self, held: Held, answer: Shared) -> None:
        dated = b"".join([b"%s: %s\r\n" % field for field in self.server_state.default_headers])
        self.transport.writelines([OK, dated, answer.head, answer.content])
        held.response_complete = True
        if not held.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _go_on_with(self, held: Held, url: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        """What it waited for is there, or it has waited in vain."""
        self._held = self._let_go = None
        if held.disconnected or self.transport.is_closing():
            return
        found = self.shared.find(self, url, headers)
        if isinstance(found, Shared):
            self._give(held, found)
            return
        parsed = httptools.parse_url(url)
        scope = held.scope
        scope |= {"method": "GET", "path": unquote(parsed.path.decode("ascii")), "raw_path": parsed.path}
        scope |= {"query_string": parsed.query or b"", HAS_WAITED: True}
        cycle = RequestResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=held.keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.more_body = False
        if self.cycle is held:
            self.cycle = cycle
        self._start_asgi_task(cycle, self.app)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head_bytes = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        wait_s = 0.0 if self._is_proxy else self._rate.wait_s(self.loop.time())
        if wait_s and not self.transport.is_closing():
            self.flow.over_rate(True)
            if self._resume is not None:
                self._resume.cancel()
            self._resume = self.loop.call_later(wait_s, self._go_on)

    def _go_on(self) -> None:
        self._resume = None
        if not self.transport.is_closing():
            self.flow.over_rate(False)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(self.settings.answer_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(self.settings.head_s, self._is_late)

    def _is_late(self) -> None:
        if self._head_bytes:
            self._refuse(TOO_LATE)
        else:  # Browsers open connections for what they may ask for, and don't.
            self.transport.close()

    def _refuse(self, answer: bytes) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(answer)
        self.transport.close()


async def answer_until_lost(application: Any, scope: Any, receive: Any, send: Any) -> None:
    """Nobody waits for what a client that is gone has asked for: it could ask for that without end."""
    connection = scope["connection"]
    connection.answering = task = asyncio.current_task()
    try:
        await application(scope, receive, send)
    except asyncio.CancelledError:
        if not connection.is_lost:
            raise
    finally:
        if connection.answering is task:
            connection.answering = None


class HttpServer(uvicorn.Server):
    """Signals are its process's to handle."""

    def __init__(
        self, application: Any, shared: SharedAnswers, settings: PackagerSettings, limits: ConnectionLimits
    ) -> None:
        protocol = type(
            "BoundHlsConnection", (HlsConnection,), {"settings": settings, "limits": limits, "shared": shared}
        )
        config = uvicorn.Config(
            partial(answer_until_lost, application),
            http=protocol,
            ws="none",
            loop="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=int(settings.idle_connection_s),
            timeout_graceful_shutdown=int(settings.grace_s),
        )
        super().__init__(config)
        logging.getLogger(LOGGER).setLevel(logging.ERROR)  # Its warnings are of requests, which anybody can make.
        self._serving: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def begin(self, listener: socket.socket) -> None:
        self._serving = asyncio.get_running_loop().create_task(self.serve([listener]))

    async def stop(self) -> None:
        """Answers under way are given, for `grace_s`."""
        self.should_exit = True
        if self._serving is not None:
            await self._serving
