"""All streams of other servers that a node fetches, as its application orders."""

from collections.abc import Sequence

from ingest.contracts import PullFigures, PullOrder
from ingest.server.connection_base import Server
from ingest.server.dial_rules import DialRules
from ingest.server.pull import Pull
from ingest.server.remote import Slots


class Pulls:
    def __init__(self, server: Server, rules: DialRules) -> None:
        self._server = server
        self._rules = rules
        self._slots = Slots(server.config.pull.most)
        self._by_source: dict[int, Pull] = {}

    def follow(self, sources: Sequence[PullOrder]) -> None:
        """All that is to be pulled. An order that has changed begins anew."""
        wanted = {order["source"]: order for order in sources}
        for source, pull in list(self._by_source.items()):
            if wanted.get(source) != pull.order:
                del self._by_source[source]
                pull.end()
        for source, order in wanted.items():
            if source not in self._by_source:
                self._by_source[source] = Pull(self._server, self._rules, order, self._slots)

    def close(self) -> None:
        for pull in self._by_source.values():
            pull.end()
        self._by_source.clear()

    @property
    def figures(self) -> list[PullFigures]:
        return [pull.figures for pull in self._by_source.values()]
