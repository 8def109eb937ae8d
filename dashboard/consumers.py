"""The WebSocket consumers of the wall and of a stream's page: authorise, subscribe, send a snapshot, then relay.

Nodes serialise each second's text once and send it to a channel layer group; here it goes out unchanged. Order:

- A consumer joins the group before it reads the snapshot, so that no update falls between the two. The layer keeps what
  comes meanwhile; what is no newer than the snapshot is then left out, so that no figure goes backwards.
- The layer keeps a bounded number of messages for a consumer and drops the rest. A consumer whose send took long
  (STALL_S) sends nothing of what came meanwhile; then it sends a fresh snapshot. So it does each RECHECK_S: whatever
  was dropped is healed by then.
- Daphne takes a text at once and closes a connection whose browser no longer reads, as its ping stays unanswered for
  30 s; that bounds what waits there.

A refused connection is accepted first and closed at once, as a browser sees the code of a close (4401: log in again;
4403: the role does not allow it; 4404: no such stream; 1013: later) only on an accepted one.
"""

import json
import logging
import time
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from channels.consumer import get_handler_name
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.db import DatabaseError
from redis.exceptions import RedisError

from dashboard.history import latest_events
from dashboard.permissions import Ability, user_abilities
from dashboard.snapshots import stream_picture, wall_text
from dashboard.streams import Now, known_streams
from ingest.consumers.pages import WALL, stream_group, to_json
from ingest.livestore import get_livestore
from ingest.models import Stream

logger = logging.getLogger(__name__)

LOG_IN_AGAIN = 4401
NOT_ALLOWED = 4403
NO_STREAM = 4404
TRY_LATER = 1013

AWAY = (DatabaseError, RedisError)
"""What is raised while the database, the LiveStore or the channel layer does not answer."""

RECHECK_S = 60.0
"""How often an open connection's user is looked up again, and its whole picture sent."""

STALL_S = 2.0
"""After a send that took longer, what came meanwhile is a backlog."""

GAP_S = 0.1
"""A text that comes this long after the one before was in no backlog. (No two machines' clocks are compared.)"""

SETTLE_S = 5.0
"""For so long after a snapshot, an update that was made before it may still arrive from a node."""


def _standing(session_key: str | None) -> int | None:
    """The close code for a session whose user may not view (any more); None when it is in order. Reads it anew."""
    fresh = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(SimpleNamespace(session=fresh))  # type: ignore[arg-type]  # All that it reads of a request.
    if not user.is_authenticated or not user.is_active:
        return LOG_IN_AGAIN
    return None if Ability.VIEW in user_abilities(user) else NOT_ALLOWED


# Not in the one thread that thread-sensitive code shares: a slow query there would hold up every other consumer.
standing = database_sync_to_async(_standing, thread_sensitive=False)
read_events = database_sync_to_async(latest_events, thread_sensitive=False)
read_known = database_sync_to_async(known_streams, thread_sensitive=False)
stream_exists = database_sync_to_async(lambda pk: Stream.objects.filter(pk=pk).exists(), thread_sensitive=False)


class Relay(AsyncWebsocketConsumer):  # type: ignore[misc]  # Channels has no types.
    """What both consumers share. A subclass names its group, makes its snapshot, and knows what the snapshot told."""

    closed = False
    behind = False
    checked = 0.0
    idle_since = 0.0
    snapshot_sent = 0.0

    def group(self) -> str:
        raise NotImplementedError

    async def snapshot(self) -> str:
        """A whole picture, as text; remembers how new it is."""
        raise NotImplementedError

    def is_told(self, text: str) -> bool:
        """Whether the last snapshot has all that a text says."""
        raise NotImplementedError

    async def refusal(self) -> int | None:
        """The close code for who may not have this connection."""
        code: int | None = await standing(self.scope["session"].session_key)
        return code

    async def dispatch(self, message: dict[str, Any]) -> None:
        # Channels' own awaits a call in the one thread-sensitive thread for each message. Nothing here needs it.
        handler = getattr(self, get_handler_name(message), None)
        if handler is None:
            raise ValueError(f"No handler for message type {message['type']}")
        await handler(message)

    async def connect(self) -> None:
        await self.accept()
        try:
            code = await self.refusal()
            if code is None:
                self.checked = time.monotonic()
                await self.channel_layer.group_add(self.group(), self.channel_name)
                await self.send_snapshot()
                return
        except AWAY as error:
            logger.warning("No snapshot for %s: %s", self.scope["path"], type(error).__name__)
            code = TRY_LATER
        await self.refuse(code)

    async def refuse(self, code: int) -> None:
        await self.leave()
        await self.close(code)

    async def disconnect(self, code: int) -> None:
        await self.leave()

    async def leave(self) -> None:
        self.closed = True
        with suppress(RedisError):  # A membership that stays in Redis expires there.
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
            elif self.behind and now - self.idle_since > GAP_S:
                await self.send_snapshot()
        except AWAY as error:  # Who was let in keeps hearing what is live; the next check is RECHECK_S later.
            logger.warning("No check of %s: %s", self.scope["path"], type(error).__name__)
        settling = time.monotonic() - self.snapshot_sent < SETTLE_S
        if not (self.closed or self.behind or (settling and self.is_told(message["text"]))):
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
        self.snapshot_sent = time.monotonic()
        await self.send_timed(text)

    async def send_timed(self, text: str) -> None:
        begun = time.monotonic()
        await self.send(text_data=text)
        self.behind = time.monotonic() - begun > STALL_S


class LiveConsumer(Relay):
    """/ws/live/: all streams that nodes know of, then each second what changed."""

    nodes_at: dict[str, float]

    def group(self) -> str:
        return WALL

    async def snapshot(self) -> str:
        known = await read_known()
        now = Now.of(await get_livestore().aread())
        self.nodes_at = {node["node"]: node["at"] for node in now.nodes}
        return await wall_text(now, known)

    def is_told(self, text: str) -> bool:
        update = json.loads(text)
        told = all(node["at"] <= self.nodes_at.get(node["node"], 0.0) for node in update["nodes"])
        return told and not update["gone"]  # To hear twice that a stream has gone is no harm, to miss it is.

    async def live_tick(self, message: dict[str, Any]) -> None:
        await self.relay(message)


class StreamConsumer(Relay):
    """/ws/streams/<pk>/: one stream's figures, samples and latest events, then each sample and event as it comes."""

    last_at = 0.0
    told: frozenset[tuple[str, int]] = frozenset()

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
        events = await read_events(self.pk)
        samples = await store.arecent(self.pk)
        now = Now.of(await store.aread())
        self.last_at = samples[-1]["at"] if samples else 0.0
        self.told = frozenset((event["session_id"], event["sequence"]) for event in events)
        return to_json(stream_picture(now.at, now.by_id.get(self.pk), samples, events))

    def is_told(self, text: str) -> bool:
        message = json.loads(text)
        if message["kind"] == "event":
            event = message["event"]
            return (event["session_id"], event["sequence"]) in self.told
        sample = message["sample"]
        return sample is not None and bool(sample["at"] <= self.last_at)

    async def stream_sample(self, message: dict[str, Any]) -> None:
        await self.relay(message)

    async def stream_event(self, message: dict[str, Any]) -> None:
        await self.relay(message)
