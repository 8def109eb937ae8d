"""The WebSocket consumers of the pages, and their routes: authorise, subscribe, send a snapshot, then relay.

`rtmpweb.asgi` puts the routes behind the origin check and the session. Nodes serialise each second's text once and send
it to a channel layer group; here it goes out unchanged. Order:

- A consumer joins the group before it reads the snapshot, so that no update falls between the two. The layer keeps what
  comes meanwhile; what is no newer than the snapshot is then left out, so that no figure goes backwards.
- The layer keeps a bounded number of messages for a consumer and drops the rest. A consumer whose send took long
  (STALL_S) sends nothing of what came meanwhile; then it sends a fresh snapshot. So it does where it finds that a
  message is missing, and each RECHECK_S: whatever was dropped is healed by then.
- Daphne takes a text at once and closes a connection whose browser no longer reads, as its ping stays unanswered for
  30 s; that bounds what waits there.

The database is read by few threads, each of which keeps a connection, however many pages are open.

A refused connection is accepted first and closed at once, as a browser sees the code of a close (4401: log in again;
4403: the role does not allow it; 4404: no such stream; 4429: the session has too many; 4503: later) only on an accepted
one."""

import json
import logging
import random
import time
from asyncio import gather
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast

from channels.consumer import get_handler_name
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.db import DatabaseError
from django.urls import path

from dashboard.streams.drops import known_drops
from dashboard.streams.queries import Now, known_streams
from dashboard.streams.snapshots import (
    Marks,
    marks,
    marks_text,
    no_marks,
    stream_database_part,
    stream_picture,
    wall_text,
)
from dashboard.system.unavailable import TRY_LATER
from ingest.live_store import get_livestore, redis_errors
from ingest.models import Stream
from ingest.pages import ATTEMPTS, WALL, Drop, stream_group, to_json
from ingest.services.roles import Ability, user_abilities

__all__ = ["AttemptsConsumer", "LiveConsumer", "StreamConsumer"]

P = ParamSpec("P")
T = TypeVar("T")

READ_THREADS = 3
READ = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="rtmpweb-pages-read")


def reading(work: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """`work` as a coroutine.

    Not in the one thread that thread-sensitive code shares: a slow query there would hold up every other consumer. Nor
    in the event loop's own, of which there are many: each would keep its connection for as long as nobody uses it.
    """
    return cast("Callable[P, Awaitable[T]]", database_sync_to_async(work, thread_sensitive=False, executor=READ))


logger = logging.getLogger(__name__)

LOG_IN_AGAIN = 4401
NOT_ALLOWED = 4403
TOO_MANY = 4429

AWAY: tuple[type[Exception], ...] = (DatabaseError, *redis_errors())
"""What is raised while the database, the LiveStore or the channel layer does not answer. Wider than that of `probes`:
whatever error of the database it is, the browser is to try again."""

RECHECK_S = 60.0
"""How often an open connection's user is looked up again, and its whole picture sent."""

STALL_S = 2.0
"""After a send that took longer, what came meanwhile is a backlog."""

GAP_S = 0.1
"""A text that comes this long after the one before was in no backlog. (No two machines' clocks are compared.)"""

HEAL_S = 3.0
"""Between a snapshot and the next one that is sent since something was missed: a live store in trouble misses much."""

SETTLE_S = 5.0
"""For so long after a snapshot, an update that was made before it may still arrive from a node."""


@reading
def access_code(session_key: str | None) -> int | None:
    """The close code for a session whose user may not view (any more); None when it is in order. Reads it anew."""
    fresh = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(SimpleNamespace(session=fresh))  # type: ignore[arg-type]  # All that it reads of a request.
    if not user.is_authenticated or not user.is_active:
        return LOG_IN_AGAIN
    return None if Ability.VIEW in user_abilities(user) else NOT_ALLOWED


_sockets: Counter[str] = Counter()
"""How many each session has open, in this process: each costs a snapshot, and a text a second."""


class Relay(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types.
    """What the consumers share. A subclass names its group, makes its snapshot, and knows what the snapshot told."""

    session = ""
    """In which this connection is counted; empty: in none."""
    closed = False
    is_backlogged = False
    has_gap = False
    checked = 0.0
    idle_since = 0.0
    snapshot_sent = 0.0

    def group(self) -> str:
        raise NotImplementedError

    async def snapshot(self) -> str:
        """A whole picture, as text; remembers how new it is."""
        raise NotImplementedError

    def is_in_snapshot(self, message: dict[str, Any]) -> bool:
        """Whether the last snapshot has all that the group's message says."""
        raise NotImplementedError

    def is_next(self, message: dict[str, Any]) -> bool:
        """Whether nothing is missing between what was sent and this message, which is sent now."""
        return True

    async def refusal(self) -> int | None:
        """The close code for who may not have this connection."""
        return await access_code(self.scope["session"].session_key)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.uncount()  # However it ended: one that hangs is cancelled.

    async def dispatch(self, message: dict[str, Any]) -> None:
        # Channels' own awaits a call in the one thread-sensitive thread for each message. Nothing here needs it.
        handler = getattr(self, get_handler_name(message), None)
        if handler is None:
            raise ValueError(f"No handler for message type {message['type']}")
        await handler(message)

    async def connect(self) -> None:
        await self.accept()
        if not self.count():
            await self.refuse(TOO_MANY)
            return
        try:
            code = await self.refusal()
            if code is None:
                # Pages that came together, as after a restart, don't come together again.
                self.checked = time.monotonic() - random.uniform(0, RECHECK_S / 4)  # noqa: S311 - no secret.
                await self.channel_layer.group_add(self.group(), self.channel_name)
                await self.send_snapshot()
                return
        except AWAY as error:
            logger.warning("No snapshot for %s: %s", self.scope["path"], type(error).__name__)
            code = TRY_LATER
        await self.refuse(code)

    def count(self) -> bool:
        """One more of its session. False: that has as many as it may. Who has none is refused as such."""
        key = self.scope["session"].session_key
        if key is None:
            return True
        if _sockets[key] >= settings.HTTP_SOCKETS:
            return False
        _sockets[key] += 1
        self.session = key
        return True

    def uncount(self) -> None:
        if self.session:
            _sockets[self.session] -= 1
            if not _sockets[self.session]:
                del _sockets[self.session]
            self.session = ""

    async def refuse(self, code: int) -> None:
        await self.leave()
        await self.close(code)

    async def disconnect(self, code: int) -> None:
        await self.leave()

    async def leave(self) -> None:
        self.closed = True
        with suppress(*redis_errors()):  # A membership that stays in Redis expires there.
            await self.channel_layer.group_discard(self.group(), self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Browsers have nothing to say here."""

    async def relay(self, message: dict[str, Any]) -> None:
        """Send a group's text on, unless its user may no longer view, it is of a backlog, or the snapshot had it."""
        if self.closed:
            return
        now = time.monotonic()
        try:
            if now - self.checked >= RECHECK_S:
                await self.recheck()
            elif (self.is_backlogged and now - self.idle_since > GAP_S) or (
                self.has_gap and now - self.snapshot_sent > HEAL_S
            ):
                await self.send_snapshot()
        except AWAY as error:  # Who was let in keeps hearing what is live; the next check is RECHECK_S later.
            logger.warning("No check of %s: %s", self.scope["path"], type(error).__name__)
        settling = time.monotonic() - self.snapshot_sent < SETTLE_S
        if not (self.closed or self.is_backlogged or (settling and self.is_in_snapshot(message))):
            self.has_gap |= not self.is_next(message)
            await self.send_timed(message["text"])
        self.idle_since = time.monotonic()

    async def recheck(self) -> None:
        """Close for who may no longer view. For the others send a snapshot, which heals what the layer dropped."""
        self.checked = time.monotonic()
        code = await self.refusal()
        if code is not None:
            await self.refuse(code)
        else:
            await self.send_snapshot()

    async def send_snapshot(self) -> None:
        text = await self.snapshot()
        self.has_gap = False
        self.snapshot_sent = time.monotonic()
        await self.send_timed(text)

    async def send_timed(self, text: str) -> None:
        begun = time.monotonic()
        await self.send(text_data=text)
        self.is_backlogged = time.monotonic() - begun > STALL_S


class AttemptsConsumer(Relay):
    """Each refusal in short, a few a second at most: for the rows, and how many each stands for, a page asks."""

    def group(self) -> str:
        return ATTEMPTS

    async def snapshot(self) -> str:
        return json.dumps({"kind": "snapshot", "at": round(time.time(), 3)})

    def is_in_snapshot(self, message: dict[str, Any]) -> bool:
        """A snapshot tells of none."""
        return False

    attempt_refused = Relay.relay


NO_STREAM = 4404

read_database_part = reading(stream_database_part)


@reading
def stream_exists(pk: int) -> bool:
    return Stream.objects.filter(pk=pk).exists()


class StreamConsumer(Relay):
    """One stream's figures, samples and latest events, then each sample and event as it comes."""

    last_at = 0.0
    snapshot_events: frozenset[tuple[str, int]] = frozenset()

    @property
    def pk(self) -> int:
        return int(self.scope["url_route"]["kwargs"]["pk"])

    def group(self) -> str:
        return stream_group(self.pk)

    async def refusal(self) -> int | None:
        code = await super().refusal()
        if code is None and not await stream_exists(self.pk):
            return NO_STREAM
        return code

    async def snapshot(self) -> str:
        store = get_livestore()
        now = Now.of(await store.aread())
        stream = now.by_id.get(self.pk)
        database_part = await read_database_part(self.pk, stream and stream["session_id"])
        samples = await store.arecent(self.pk)
        self.last_at = samples[-1]["at"] if samples else 0.0
        self.snapshot_events = frozenset((event["session_id"], event["sequence"]) for event in database_part["events"])
        return to_json(stream_picture(now.at, stream, samples, database_part))

    def is_in_snapshot(self, message: dict[str, Any]) -> bool:
        message = json.loads(message["text"])
        if message["kind"] == "event":
            event = message["event"]
            return (event["session_id"], event["sequence"]) in self.snapshot_events
        sample = message.get("sample")
        return sample is not None and bool(sample["at"] <= self.last_at)

    stream_sample = stream_event = stream_mutes = stream_relays = Relay.relay


read_known = reading(known_streams)
read_marks = reading(marks)
read_drops = reading(known_drops)


@reading
def marks_of(now: Now, stream: int | None) -> tuple[dict[int, Marks], list[Drop]]:
    """What operators said of a stream, and its drop; or (None) of all that are live, and no drops."""
    if stream is None:
        found = marks(now.by_id.values())
        return {pk: found.get(pk) or no_marks() for pk in now.by_id}, []
    snapshot = now.by_id.get(stream)
    found = marks([snapshot] if snapshot else [])
    return {stream: found.get(stream) or no_marks()}, known_drops(streams=Stream.objects.filter(pk=stream))


def is_whole(message: dict[str, Any]) -> bool:
    """Whether a node of the version before sent it, as during an upgrade: `text` alone, its streams with all fields."""
    return "node" not in message


class LiveConsumer(Relay):
    """All streams that nodes know of, then each second what changed: of a stream the fields that did.

    So no update of a node may be missing: each names the tick `prior` to it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.snapshot_ticks: dict[str, float] = {}
        """The tick of each node that the snapshot was of,"""
        self.last_ticks: dict[str, float] = {}
        """and the latest one that was sent."""

    def group(self) -> str:
        return WALL

    async def snapshot(self) -> str:
        known = await read_known()
        now = Now.of(await get_livestore().aread())
        self.snapshot_ticks = {node["node"]: node["at"] for node in now.nodes}
        self.last_ticks = dict(self.snapshot_ticks)
        return await wall_text(now, known, *await gather(read_marks(now.by_id.values()), read_drops()))

    def is_in_snapshot(self, message: dict[str, Any]) -> bool:
        if is_whole(message):
            return False
        # To hear twice that a stream has gone is no harm, to miss it is.
        return bool(message["at"] <= self.snapshot_ticks.get(message["node"], 0.0)) and not message["gone"]

    def is_next(self, message: dict[str, Any]) -> bool:
        if is_whole(message):
            return '"gone":[]' in message["text"]  # Of which node a stream has gone, a snapshot says.
        node, former = message["node"], self.last_ticks.get(message["node"], 0.0)
        if message["at"] <= former:
            return True
        self.last_ticks[node] = message["at"]
        return message["prior"] in (None, former)

    live_tick = Relay.relay

    async def live_marks(self, message: dict[str, Any]) -> None:
        if self.closed:
            return
        try:
            now = Now.of(await get_livestore().aread())
            found, drops = await marks_of(now, message["stream"])
        except AWAY as error:
            logger.warning("No marks for %s: %s", self.scope["path"], type(error).__name__)
        else:
            await self.send_timed(marks_text(now.at, found, drops))


websocket_urlpatterns = [
    path("ws/live/", LiveConsumer.as_asgi()),
    path("ws/attempts/", AttemptsConsumer.as_asgi()),
    path("ws/streams/<int:pk>/", StreamConsumer.as_asgi()),
]
