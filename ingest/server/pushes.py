"""All streams of a node that are pushed to other servers, as its application orders."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ingest.contracts import PushFigures, PushOrder
from ingest.live import LiveStream
from ingest.server.connection_base import Server
from ingest.server.dial_rules import DialRules
from ingest.server.publishing import Publishing
from ingest.server.push import Push
from ingest.server.remote import Slots


class Pushes:
    def __init__(self, server: Server, rules: DialRules, put: Callable[[Any], object]) -> None:
        """`put`: tells the node's application."""
        self._server = server
        self._rules = rules
        self._put = put
        self._by_session: dict[str, dict[int, Push]] = {}
        self._ending: set[Push] = set()
        """Those that still send what waits."""
        self._slots = Slots(server.config.push.most)
        self._ticked_at = server.loop.time()

    def follow(self, session_id: str, targets: Sequence[PushOrder]) -> None:
        """The stream of this publisher goes to these targets, and to no others."""
        session = self._server.sessions.get(session_id)
        if not isinstance(session, Publishing):
            return  # It has left meanwhile.
        pushes = self._by_session.setdefault(session_id, {})
        wanted = {order["target"]: order for order in targets}
        for target, push in list(pushes.items()):
            if wanted.get(target) != push.order:
                self._end(pushes.pop(target))
        for target, order in wanted.items():
            if target not in pushes:
                self._finish_former(target)
                pushes[target] = Push(
                    self._server, self._rules, session.live, session_id, order, self._put, self._slots
                )
        if not pushes:
            del self._by_session[session_id]

    def _end(self, push: Push) -> None:
        push.end()
        if not push.is_over:
            self._ending.add(push)

    def _finish_former(self, target: int) -> None:
        """Of another publisher to the same target, which would be refused while that lasts."""
        for push in self._ending:
            if push.order["target"] == target:
                push.finish()

    # --- What becomes of the stream ---

    def ended(self, live: LiveStream) -> None:
        """Its publisher has left."""
        for session_id, pushes in list(self._by_session.items()):
            if all(push.live is live for push in pushes.values()):
                del self._by_session[session_id]
                for push in pushes.values():
                    self._end(push)

    def described(self, live: LiveStream) -> None:
        """Its codecs are others."""
        for push in self._of(live):
            push.described()

    def cleared(self, live: LiveStream, payload: bytes) -> None:
        for push in self._of(live):
            push.cleared(payload)

    def _of(self, live: LiveStream) -> Iterator[Push]:
        return (push for push in list(self) if push.live is live)

    def __iter__(self) -> Iterator[Push]:
        return (push for pushes in self._by_session.values() for push in pushes.values())

    def close(self) -> None:
        for push in (*self, *self._ending):
            push.finish()
        self._by_session.clear()
        self._ending.clear()

    # --- Once a second ---

    def tick(self, now: float) -> None:
        elapsed_s, self._ticked_at = max(now - self._ticked_at, 0.001), now
        self._ending = {push for push in self._ending if not push.is_over}
        for push in list(self):
            push.tick(now, elapsed_s)

    @property
    def figures(self) -> list[PushFigures]:
        return [push.figures for push in self]
