"""`manage.py node`: the media nodes; drains one before its machine is stopped or updated."""

import time
from typing import Any

from django.core.management.base import CommandError

from ingest.management import base
from ingest.management.base import Answer, Argument, Verb, VerbCommand
from ingest.models import Node
from ingest.services import actions as services_actions
from ingest.services import nodes

GRACE_S = 60
MOST_GRACE_S = 24 * 3600

WAIT_POLL_S = 0.5

END_S = 15.0
"""How long --wait waits beyond the grace: for sessions to end and be written."""

NAME = Argument("name", help="the node's name, as `list` shows it")


class Command(VerbCommand):
    help = (
        "Lists the media nodes; drains one, so that it can be stopped without anyone noticing, or has it go on; "
        "forgets one that is gone."
    )
    errors = (nodes.NodeError,)

    @Verb("list the nodes and what is live on them")
    def _list(self) -> Answer:
        return self.listing(_nodes())

    @Verb(
        "take no new connections; ask clients to connect elsewhere; end what is left after a time",
        NAME,
        Argument("--grace", type=int, default=GRACE_S, metavar="SECONDS", help=f"that time; {GRACE_S}"),
        Argument("--wait", action="store_true", help="wait until nothing is live there"),
    )
    def _drain(self, name: str, grace: int, wait: bool) -> Answer:
        if not 0 <= grace <= MOST_GRACE_S:
            raise CommandError(f"--grace is {grace}: expected 0 to {MOST_GRACE_S} seconds.")
        services_actions.drain_node(self.actor, name, grace_s=grace)
        if wait:
            self._wait(name, grace)
        return self.of_one(_node(name))

    @Verb("take connections again", NAME)
    def _resume(self, name: str) -> Answer:
        services_actions.resume_node(self.actor, name)
        return self.of_one(_node(name))

    @Verb("expect it no more: it is down, and gone for good", NAME)
    def _forget(self, name: str) -> Answer:
        services_actions.forget_node(self.actor, name)
        return self.of_one(_node(name))

    def row(self, node: Any) -> dict[str, Any]:
        names = ("name", "role", "state", "address", "url", "publishers", "players", "seen_at", "drain_requested_at")
        row = base.values(node, *names)
        return row | {"drain_grace_s": node.drain_grace_s if node.drain_requested_at else None}

    def line(self, row: dict[str, Any]) -> str:
        parts = [row["name"], row["state"], row["address"]]
        if row["role"] != Node.Role.ORIGIN:
            parts.append(f"role={row['role']}")
        if row["url"]:
            parts.append(f"url={row['url']}")
        parts += [f"publishers={row['publishers']}", f"players={row['players']}", f"seen={row['seen_at']}"]
        if row["drain_requested_at"]:
            parts.append(f"drain={row['drain_requested_at']}+{row['drain_grace_s']}s")
        return "  ".join(parts)

    def _wait(self, name: str, grace: int) -> None:
        deadline = time.monotonic() + grace + END_S
        while True:
            node = _node(name)
            if node.state != Node.State.UP and not node.publishers and not node.players:
                return
            if time.monotonic() > deadline:
                raise CommandError(
                    f"The node {name} is not drained after {grace + END_S:.0f} s: {self.line(self.row(node))}. Is it "
                    "running? Its log says more."
                )
            time.sleep(WAIT_POLL_S)


def _nodes() -> Any:
    return nodes.with_live_counts().order_by("name")


def _node(name: str) -> Any:
    return _nodes().get(name=name)
