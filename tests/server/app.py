"""A scripted ASGI application. It accepts every request unless a test changes that, and keeps all events."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from ingest.contracts import Sample
from tests.rtmp_client import Changing

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

LIMITS = {"max_kbps": None, "over_limit": "warn", "idle_timeout_s": 10.0, "first_media_timeout_s": 20.0}
LIMITS |= {"target_kbps": None, "expect_audio": True, "expect_video": True}
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
    """Return the name that an rtmp.publish came with. `name` masks one that may be a credential."""
    name: str = event["credential"] if event["credential_is_name"] else event["name"]
    return name


class ScriptedApp(Changing):
    """The application. `on` maps event types to coroutine functions that return the answer, or None."""

    def __init__(self, **limits: Any) -> None:
        super().__init__()
        self.instances: list[Instance] = []
        self.limits = LIMITS | limits
        self.on: dict[str, Decide] = {
            "rtmp.connect": self.accept,
            "rtmp.publish": self.accept_publish,
            "rtmp.play": self.accept_play,
        }
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

    def _accepted(self, kind: str, instance: Instance, event: Message, name: str, **fields: Any) -> Message:
        path, session_id = f"{instance.scope['app']}/{name}", f"{kind}-{next(self._sessions)}"
        answer = {"type": f"rtmp.{kind}.accept", "request_id": event["request_id"], "labels": LABELS}
        return answer | {"path": path, "session_id": session_id} | fields

    async def accept_publish(self, instance: Instance, event: Message) -> Message:
        return self._accepted("publish", instance, event, published_name(event), limits=self.limits, record=None)

    async def accept_play(self, instance: Instance, event: Message) -> Message:
        return self._accepted("play", instance, event, event["name"], recording=None, start_unit="ms")

    async def fail(self, _instance: Instance, _event: Message) -> None:
        raise RuntimeError("broken on purpose")

    async def ignore(self, _instance: Instance, _event: Message) -> None:
        """Give no answer."""

    def refuse(self, kind: str, code: str, description: str, *names: str, **fields: Any) -> None:
        """Refuse requests of a kind from now on: "publish", "play", or "" for connect. With names: only of these."""
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
        """Add fields to the answers to such events from now on."""
        usual = self.on[kind]

        async def decide(instance: Instance, event: Message) -> Message | None:
            answer = await usual(instance, event)
            return answer and answer | fields

        self.on[kind] = decide

    def hold(self, kind: str) -> asyncio.Event:
        """Return an event. Answer such requests only once it is set."""
        usual, answers = self.on[kind], asyncio.Event()

        async def decide(instance: Instance, event: Message) -> Message | None:
            await answers.wait()
            return await usual(instance, event)

        self.on[kind] = decide
        return answers

    # --- Received events ---

    @property
    def connections(self) -> list[Instance]:
        return [instance for instance in self.instances if instance.scope["type"] == "rtmp"]

    @property
    def nodes(self) -> list[Instance]:
        """The calls for the node. There is another one after each failure."""
        return [instance for instance in self.instances if instance.scope["type"] == "rtmp.node"]

    @property
    def node(self) -> Instance:
        return self.nodes[0]

    @property
    def ticks(self) -> list[Message]:
        return [tick for node in self.nodes for tick in node.of("node.tick")]

    @property
    def figures(self) -> list[Message]:
        """The node's figures, one each second."""
        return [tick["figures"] for tick in self.ticks]

    @property
    def samples(self) -> list[Sample]:
        return [sample for tick in self.ticks for sample in tick["samples"]]

    async def next_tick(self, number: int = 1) -> Message:
        """Wait for this many more ticks and return the last one."""
        before = len(self.ticks)
        await self.wait_until(lambda: len(self.ticks) >= before + number)
        return self.ticks[-1]

    @property
    def stops(self) -> list[Message]:
        """The ends of plays on all connections."""
        return [stop for connection in self.connections for stop in connection.of("rtmp.stop")]

    async def event(self, kind: str, connection: int = -1, timeout_s: float = 5.0) -> Message:
        """Return the first event of a kind on a connection, by default on the latest one."""
        await self.wait_until(lambda: bool(self.connections) and bool(self.connections[connection].of(kind)), timeout_s)
        return self.connections[connection].of(kind)[0]
