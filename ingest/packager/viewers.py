"""A viewer: whoever has asked for a stream's playlists of late under one id. It is a session, as a player is, though it
has no connection of its own: its requests come by any.

Its id is in the query of the media playlists that the multivariant one leads to; it is signed, so that any packager of
the installation knows it for one that was given out. Nothing of it is stored at the viewer, nor here once it has left.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, cast

from ingest import credentials
from ingest.contracts import ConnectEvent, EndReason, PlayAccept, PlayerSample, Totals
from ingest.contracts.figures import NO_TOTALS
from ingest.live.message import STREAM_ID
from ingest.packager.arrivals import Arrivals
from ingest.packager.settings import PackagerSettings
from ingest.rtmp.events import PlayRequested
from ingest.rtmp.flow import SendingWindow
from ingest.server.asgi import (
    DESCRIPTIONS,
    FLASH_VER_LENGTH,
    Caller,
    DisconnectReason,
    Ending,
    Kind,
    Message,
    Request,
    play_event,
)
from ingest.server.config import Deadlines
from ingest.server.connection_base import Answer, BaseConnection, Server
from ingest.server.context import AnySession, Session
from ingest.server.output import Outlet
from ingest.server.viewing_side import ViewingSide

REQUEST_ID: Final = 1
UNDECIDED: Final = ("NetConnection.Connect.Failed", "NetStream.Failed")
"""Codes of what could not be decided just now."""
RANDOM_BYTES: Final = 9
MAC_BYTES: Final = 9
"""Of an id, in hex each."""


class ViewerIds:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, path: str) -> str:
        own = secrets.token_hex(RANDOM_BYTES)
        return own + self._mac(own, path)

    def is_given(self, viewer: str, path: str) -> bool:
        """Whether it was made for a viewer of this stream, here or by another packager of the installation."""
        own, mac = viewer[: 2 * RANDOM_BYTES], viewer[2 * RANDOM_BYTES :]
        return viewer.isascii() and hmac.compare_digest(mac, self._mac(own, path))

    def _mac(self, own: str, path: str) -> str:
        return hmac.digest(self._secret, f"viewer {own} {path}".encode(), hashlib.sha256)[:MAC_BYTES].hex()


@dataclass(frozen=True, slots=True)
class Asking:
    """Who wants to watch what."""

    app: str
    name: str
    token: str = field(repr=False)
    address: str
    agent: str
    page: str
    host: str

    @property
    def path(self) -> str:
        return f"{self.app}/{self.name}"


class TurnedAway(Exception):  # noqa: N818 - an answer, not an error.
    """It may not watch, or not now. The text is for the viewer."""

    def __init__(self, code: str, description: str, *, passes: bool = False) -> None:
        super().__init__(description)
        self.code = code
        self.passes = passes


class NoTransport(asyncio.Transport):
    """In the place of a connection's: closing it is all that it does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, closed: Callable[[], None]) -> None:
        super().__init__()
        self._loop, self._closed = loop, closed
        self._is_closing = False

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._closed)

    abort = close

    def is_closing(self) -> bool:
        return self._is_closing

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nobody is there to be told anything."""


class ViewerConnection(BaseConnection):
    __slots__ = ("viewer_id",)

    control: "ViewerControl"

    def __init__(self, server: Server, viewer_id: str, asking: Asking, local: tuple[str, int]) -> None:
        super().__init__(server, "hls", lambda connection: connection.control)
        self.viewer_id = viewer_id
        self.peer, self.local = (asking.address, 0), local
        self.transport = NoTransport(self.loop, lambda: self.connection_lost(None))
        self.outlet = Outlet(self.transport, SendingWindow(), self.loop.time, joins=False)
        self.control = ViewerControl(self, asking)

    def stop_session(
        self, session: AnySession, reason: EndReason, description: str = "", *, keep_open: bool = False
    ) -> None:
        self.end(reason, description or DESCRIPTIONS[reason])

    def end(
        self, reason: DisconnectReason, description: str, *, notify: bool = True, linger_s: float | None = None
    ) -> None:
        super().end(reason, description, notify=False, linger_s=0)

    def _write_last(self, ending: Ending, *, notify: bool) -> None:
        """It finds out by its next request."""


class ViewerControl(ViewingSide):
    """Asks `connect`, then `play`; `entered` has the session, or why there is none."""

    __slots__ = ("_asking", "entered")

    protocol = "hls"
    scope_name = "scope type 'rtmp' and a viewer by HLS"
    connection: ViewerConnection

    def __init__(self, connection: ViewerConnection, asking: Asking) -> None:
        super().__init__(connection)
        self._asking = asking
        self.entered: asyncio.Future[PlayAccept] = connection.loop.create_future()

    def connect_requested(self, request: None, now: float) -> None:
        asking = self._asking
        said = {
            "app": asking.app,
            "tcUrl": f"http://{asking.host}/hls/{asking.app}",
            "flashVer": asking.agent,
            "pageUrl": asking.page,
        }
        command = credentials.scrub({name: value for name, value in said.items() if value}, asking.token)
        self.caller = Caller(
            app=credentials.scrub_text(asking.app),
            tc_url=command["tcUrl"],
            flash_ver=command.get("flashVer", "")[:FLASH_VER_LENGTH],
            connect={"object": command, "arguments": []},
        )
        self.open()
        message: ConnectEvent = {"type": "rtmp.connect", "credential": "", "login": None}
        self.ask("connect", message, now, request_id=REQUEST_ID)

    def sweep(self, deadlines: Deadlines, now: float) -> None:
        self.refuse_overdue(now)

    def refuse(self, request: Request, code: str, description: str, *, passes: bool = False) -> None:
        if not self.entered.done():
            self.entered.set_exception(TurnedAway(code, description, passes=passes or code in UNDECIDED))
        self.connection.end("rejected", f"{code}: {description}")

    def lost(self) -> None:
        if not self.entered.done():
            self.entered.set_exception(TurnedAway("NetStream.Failed", "The server can't answer this now.", passes=True))
        self.entered.exception()  # Whoever asked may be gone.
        super().lost()

    def _accept(self, _request: Request, _message: Message) -> None:
        name = f"{self._asking.name}?token={self._asking.token}" if self._asking.token else self._asking.name
        wanted = PlayRequested(REQUEST_ID, STREAM_ID, name, start=-1.0, duration=-1.0, reset=True)
        self.ask("play", play_event(wanted, ""), self.connection.loop.time())

    def _challenge(self, request: Request, _message: Message) -> None:
        self.refuse(request, "NetConnection.Connect.Rejected", "Who watches can't log in here.")

    def _play_accept(self, _request: Request, message: Message) -> None:
        if not self.entered.done():
            self.entered.set_result(message)  # type: ignore[arg-type]

    answers: ClassVar[Mapping[str, tuple[Kind, Answer]]] = {
        **ViewingSide.answers,
        "rtmp.accept": ("connect", _accept),
        "rtmp.challenge": ("connect", _challenge),
        "rtmp.play.accept": ("play", _play_accept),
    }


@dataclass(frozen=True, slots=True)
class Report:
    """What the watch page has measured since it began, in its own words: a browser may say anything
    (`ingest.viewing`)."""

    join_ms: int | None = None
    """From the opening of the page to the first picture."""
    stalls: int | None = None
    stalled_ms: int | None = None
    watched_ms: int | None = None

    def since(self, former: "Report") -> dict[str, int | None]:
        """What has come since that, as `Totals` has it: a page goes on counting though its viewer was away."""
        names = ("stalls", "stalled_ms", "watched_ms")
        found = {name: _more(getattr(self, name), getattr(former, name)) for name in names}
        return {"join_ms": self.join_ms if former.join_ms is None else None, **found}


def _more(now: int | None, before: int | None) -> int | None:
    return None if now is None else now - (before or 0)


class Viewer(Session[ViewerConnection]):
    """One session."""

    __slots__ = ("_began", "_former", "_left", "asked_at", "report", "sent_bytes")

    def __init__(
        self,
        connection: ViewerConnection,
        session_id: str,
        path: str,
        left: Callable[["Viewer", EndReason], None],
        former: Report,
    ) -> None:
        """`former`: what its page had said by the end of the session before."""
        super().__init__(connection, STREAM_ID, session_id, path)
        self._left = left
        self._began = self.asked_at = connection.loop.time()
        self.sent_bytes = 0
        """Of media and playlists, as far as they came by connections that asked for its playlists."""
        self.report = self._former = former

    @property
    def id(self) -> str:
        return self.connection.viewer_id

    def start(self, now: float) -> None:
        self._began = self.asked_at = now

    def before_stop(self, reason: EndReason, description: str, now: float) -> None:
        self._left(self, reason)

    def stop(self, now: float) -> Totals:
        totals = {"bytes_out": self.sent_bytes, "duration_ms": round((now - self._began) * 1000)}
        return cast(Totals, {**NO_TOTALS, **totals, **self.report.since(self._former)})

    def sample(self) -> PlayerSample:
        return self._sample(self.sent_bytes)

    def reported(self, said: Any) -> None:
        """By its page's beacon."""
        self.report = read_report(said, self.report)

    def leave(self) -> None:
        """It has asked for nothing for long, or its page said so."""
        self.connection.end("client_unpublish", "The viewer left.")


MOST_REPORTED: Final = 10**9
"""Of a figure: eleven days, in ms."""

TURNED_AWAY: Final = TurnedAway("NetStream.Play.Failed", "Watching was stopped by an operator.")
DRAINED: Final = TurnedAway(
    "NetConnection.Connect.Rejected", "This server is about to stop. Try again in a while.", passes=True
)
TOO_MANY: Final = TurnedAway(
    "NetConnection.Connect.Rejected", "There are as many viewers as there may be. Try again in a while.", passes=True
)


class Viewers:
    """Of a packager, by id."""

    def __init__(
        self,
        server: Server,
        settings: PackagerSettings,
        ids: ViewerIds,
        *,
        joined: Callable[[Viewer, PlayAccept], None],
        left: Callable[[Viewer], None],
    ) -> None:
        """`joined`: with what the application said of its stream; `left`: it is no viewer any more."""
        self._server, self._settings, self.ids = server, settings, ids
        self._joined, self._left = joined, left
        self._by_id: dict[str, Viewer] = {}
        self._entering: dict[str, asyncio.Task[Viewer]] = {}
        self._arrivals = Arrivals(settings)
        self._away: dict[str, float] = {}
        """Ids of viewers that were kicked, and until when they are told so (the loop's time)."""
        self._told: dict[str, Report] = {}
        """What pages had said of viewers that have left, the latest last."""
        self.local: tuple[str, int] = ("", 0)

    def _former(self, viewer_id: str) -> Report:
        return self._told.pop(viewer_id, Report())

    def get(self, viewer_id: str) -> Viewer | None:
        return self._by_id.get(viewer_id)

    @property
    def beacon_bytes(self) -> int:
        """Of what a page may say at once."""
        return self._settings.beacon_bytes

    async def enter(self, asking: Asking, viewer_id: str = "") -> Viewer:
        """The viewer, once the application has let it in. Raises TurnedAway. `viewer_id`: of one who comes back, such
        as from a pause."""
        viewer_id = viewer_id or self.ids.make(asking.path)
        if viewer_id in self._away:
            raise TURNED_AWAY
        found = self._by_id.get(viewer_id)
        if found is not None:
            return found
        task = self._entering.get(viewer_id)
        if task is None:
            if not self._arrivals.take(asking.address, self._server.loop.time()):
                raise TOO_MANY
            task = self._server.loop.create_task(self._enter(asking, viewer_id))
            self._entering[viewer_id] = task
            task.add_done_callback(lambda done: self._entering.pop(viewer_id, None))
        return await asyncio.shield(task)

    def come_back(self, asking: Asking, viewer_id: str) -> None:
        """Of one who was away, and goes on: nothing waits for it. Raises TurnedAway for who was kicked, and for all
        once the packager drains."""
        if viewer_id in self._away:
            raise TURNED_AWAY
        if self._server.draining:
            raise DRAINED
        if viewer_id not in self._entering and self.ids.is_given(viewer_id, asking.path):
            task = self._server.loop.create_task(self.enter(asking, viewer_id))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _enter(self, asking: Asking, viewer_id: str) -> Viewer:
        server = self._server
        connection = ViewerConnection(server, viewer_id, asking, self.local)
        if not server.admit(connection, asking.address):
            connection.lost = True
            raise DRAINED if server.draining else TOO_MANY
        control = connection.control
        control.connect_requested(None, server.loop.time())
        accept = await control.entered
        viewer = Viewer(connection, accept["session_id"], accept["path"], self._has_left, self._former(viewer_id))
        if connection.ending is not None:
            control.void("rtmp.stop", STREAM_ID, accept["session_id"])
            raise TOO_MANY
        control.begin(viewer, server.loop.time())
        self._by_id[viewer_id] = viewer
        self._joined(viewer, accept)
        return viewer

    def _has_left(self, viewer: Viewer, reason: EndReason) -> None:
        if self._by_id.get(viewer.id) is viewer:
            del self._by_id[viewer.id]
            self._told[viewer.id] = viewer.report
            if len(self._told) > self._settings.viewers:
                del self._told[next(iter(self._told))]
            if reason in ("kicked", "key_revoked"):
                self._away[viewer.id] = self._server.loop.time() + self._settings.turned_away_s
            self._left(viewer)

    def sweep(self, now: float, gone_s: Callable[[str], float]) -> None:
        """`gone_s`: by path, after which time without a request a viewer of the stream has left."""
        for viewer in list(self._by_id.values()):
            if now - viewer.asked_at >= gone_s(viewer.path):
                viewer.leave()
        for viewer_id in [each for each, until in self._away.items() if now >= until]:
            del self._away[viewer_id]


def read_report(said: Any, former: Report) -> Report:
    """What a page's beacon says. What makes no sense, or has grown less, counts as before."""
    if not isinstance(said, Mapping):
        return former

    def figure(name: str) -> int | None:
        value, before = said.get(name), getattr(former, name)
        if type(value) is not int or not (before or 0) <= value <= MOST_REPORTED:
            return cast("int | None", before)
        return value

    return Report(
        join_ms=former.join_ms if former.join_ms is not None else figure("join_ms"),
        stalls=figure("stalls"),
        stalled_ms=figure("stalled_ms"),
        watched_ms=figure("watched_ms"),
    )
