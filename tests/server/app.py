"""A scripted ASGI application: it admits everybody unless a test says otherwise, and keeps all that it is told."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from ingest.contracts import Sample

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

LIMITS = {
    "max_kbps": None,
    "over_limit": "warn",
    "idle_timeout_s": 10.0,
    "first_media_timeout_s": 20.0,
    "target_kbps": None,
    "expect_audio": True,
    "expect_video": True,
}
LABELS = {"stream": 1, "key": None}


class Instance:
    """One call of the application: a connection, or the node."""

    def __init__(self, scope: Message, send: Send) -> None:
        self.scope = scope
        self.send = send
        self.events: list[Message] = []

    def of(self, kind: str) -> list[Message]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]


Decide = Callable[[Instance, Message], Awaitable[Message | None]]


def published_name(event: Message) -> str:
    """Of an rtmp.publish: what came without a credential may be one, and is masked in `name`."""
    name: str = event["credential"] if event["credential_is_name"] else event["name"]
    return name


class ScriptedApp:
    """Answers from `on`: event type -> coroutine function that returns the message to send, or None for no answer."""

    def __init__(self, **limits: Any) -> None:
        self.instances: list[Instance] = []
        self.limits = LIMITS | limits
        self.on: dict[str, Decide] = {
            "rtmp.connect": self.accept,
            "rtmp.publish": self.accept_publish,
            "rtmp.play": self.accept_play,
        }
        self._changed = asyncio.Event()
        self._sessions = itertools.count(1)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        instance = Instance(scope, send)
        self.instances.append(instance)
        self._changed.set()
        while True:
            event = await receive()
            instance.events.append(event)
            self._changed.set()
            decide = self.on.get(event["type"])
            answer = await decide(instance, event) if decide else None
            if answer:
                await send(answer)
            if event["type"] in ("rtmp.disconnect", "node.stopped"):
                return

    # --- Answers ---

    async def accept(self, _instance: Instance, _event: Message) -> Message:
        return {"type": "rtmp.accept"}

    async def accept_publish(self, instance: Instance, event: Message) -> Message:
        return {
            "type": "rtmp.publish.accept",
            "request_id": event["request_id"],
            "path": f"{instance.scope['app']}/{published_name(event)}",
            "session_id": f"publish-{next(self._sessions)}",
            "labels": LABELS,
            "limits": self.limits,
            "record": None,
        }

    async def accept_play(self, instance: Instance, event: Message) -> Message:
        return {
            "type": "rtmp.play.accept",
            "request_id": event["request_id"],
            "path": f"{instance.scope['app']}/{event['name']}",
            "session_id": f"play-{next(self._sessions)}",
            "labels": LABELS,
            "recording": None,
            "start_unit": "ms",
        }

    async def fail(self, _instance: Instance, _event: Message) -> None:
        raise RuntimeError("broken on purpose")

    async def ignore(self, _instance: Instance, _event: Message) -> None:
        """No answer."""

    def refuse(self, kind: str, code: str, description: str, *names: str, **fields: Any) -> None:
        """From now on requests of the kind ('publish', 'play', or '' for connect) are refused; with names: of those."""
        usual = self.on[f"rtmp.{kind or 'connect'}"]

        async def decide(instance: Instance, event: Message) -> Message | None:
            if names and event["name"] not in names:
                return await usual(instance, event)
            answer = {"code": code, "description": description, **fields}
            if not kind:
                return {"type": "rtmp.reject", **answer}
            return {"type": f"rtmp.{kind}.reject", "request_id": event["request_id"], **answer}

        self.on[f"rtmp.{kind or 'connect'}"] = decide

    def change(self, kind: str, **fields: Any) -> None:
        """From now on the answers to such events have these fields."""
        usual = self.on[kind]

        async def decide(instance: Instance, event: Message) -> Message | None:
            answer = await usual(instance, event)
            return answer and answer | fields

        self.on[kind] = decide

    def hold(self, kind: str) -> asyncio.Event:
        """From now on such events are answered when it is set."""
        usual, answers = self.on[kind], asyncio.Event()

        async def decide(instance: Instance, event: Message) -> Message | None:
            await answers.wait()
            return await usual(instance, event)

        self.on[kind] = decide
        return answers

    # --- What was told ---

    @property
    def connections(self) -> list[Instance]:
        return [instance for instance in self.instances if instance.scope["type"] == "rtmp"]

    @property
    def nodes(self) -> list[Instance]:
        """More than one, if one has failed."""
        return [instance for instance in self.instances if instance.scope["type"] == "rtmp.node"]

    @property
    def node(self) -> Instance:
        return self.nodes[0]

    @property
    def ticks(self) -> list[Message]:
        return [tick for node in self.nodes for tick in node.of("node.tick")]

    @property
    def figures(self) -> list[Message]:
        """The node's, of each second."""
        return [tick["figures"] for tick in self.ticks]

    @property
    def samples(self) -> list[Sample]:
        return [sample for tick in self.ticks for sample in tick["samples"]]

    async def next_tick(self, number: int = 1) -> Message:
        """The next one, or the one after so many more."""
        before = len(self.ticks)
        await self.wait_until(lambda: len(self.ticks) >= before + number)
        return self.ticks[-1]

    @property
    def stops(self) -> list[Message]:
        """The ends of plays on all connections."""
        return [stop for connection in self.connections for stop in connection.of("rtmp.stop")]

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
        """Return as soon as the condition holds; it is looked at whenever an event arrives."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def event(self, kind: str, connection: int = -1, timeout_s: float = 5.0) -> Message:
        """The first event of a kind that a connection (by default the latest) was sent."""
        await self.wait_until(lambda: bool(self.connections) and bool(self.connections[connection].of(kind)), timeout_s)
        return self.connections[connection].of(kind)[0]
