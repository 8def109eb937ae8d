"""`manage.py node`: the media nodes; drains one before its machine is stopped or updated."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ingest.management import base
from ingest.models import Node
from ingest.services import actions as services_actions
from ingest.services import audit, nodes

GRACE_S = 60
MOST_GRACE_S = 24 * 3600

LOOK_S = 0.5
"""Between two looks of --wait."""

END_S = 15.0
"""How long --wait waits beyond the grace: for sessions to end and be written."""


class Command(BaseCommand):
    help = (
        "Lists the media nodes; drains one, so that it can be stopped without anyone noticing, or has it go on; "
        "forgets one that is gone."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="act", required=True, metavar="list|drain|resume|forget")
        listing = verbs.add_parser("list", help="list the nodes and what is live on them")
        drain = verbs.add_parser(
            "drain", help="take no new connections; ask clients to connect elsewhere; end what is left after a time"
        )
        drain.add_argument("--grace", type=int, default=GRACE_S, metavar="SECONDS", help=f"that time; {GRACE_S}")
        drain.add_argument("--wait", action="store_true", help="return when nothing is live there any more")
        resume = verbs.add_parser("resume", help="take connections again")
        forget = verbs.add_parser("forget", help="miss it no more: it is down, and gone for good")
        for act in (drain, resume, forget):
            act.add_argument("name", help="the node's name, as `list` shows it")
        for act in (listing, drain, resume, forget):
            act.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        does = {"list": self._list, "drain": self._drain, "resume": self._resume, "forget": self._forget}
        try:
            does[options["act"]](**options)
        except nodes.NodeError as error:
            raise CommandError(str(error)) from None

    def _list(self, *, json: bool, **options: Any) -> None:
        rows = [_row(node) for node in _nodes()]
        if json:
            base.put_json(self.stdout, {"items": rows, "count": len(rows)})
            return
        for row in rows:
            self.stdout.write(_line(row))

    def _drain(self, *, name: str, grace: int, wait: bool, json: bool, **options: Any) -> None:
        if not 0 <= grace <= MOST_GRACE_S:
            raise CommandError(f"--grace is {grace}: expected 0 to {MOST_GRACE_S} seconds.")
        services_actions.drain_node(audit.command("node"), name, grace_s=grace)
        if wait:
            self._wait(name, grace)
        self._show(name, json)

    def _resume(self, *, name: str, json: bool, **options: Any) -> None:
        services_actions.resume_node(audit.command("node"), name)
        self._show(name, json)

    def _forget(self, *, name: str, json: bool, **options: Any) -> None:
        services_actions.forget_node(audit.command("node"), name)
        self._show(name, json)

    def _wait(self, name: str, grace: int) -> None:
        deadline = time.monotonic() + grace + END_S
        while True:
            node = _nodes().get(name=name)
            if node.state != Node.State.UP and not node.publishers and not node.players:
                return
            if time.monotonic() > deadline:
                raise CommandError(
                    f"The node {name} is not drained after {grace + END_S:.0f} s: {_line(_row(node))}. Is it running? "
                    "Its log says more."
                )
            time.sleep(LOOK_S)

    def _show(self, name: str, json: bool) -> None:
        row = _row(_nodes().get(name=name))
        if json:
            base.put_json(self.stdout, row)
        else:
            self.stdout.write(_line(row))


def _nodes() -> Any:
    return nodes.with_what_is_live().order_by("name")


def _row(node: Any) -> dict[str, Any]:
    return {
        "name": node.name,
        "state": node.state,
        "address": node.address,
        "publishers": node.publishers,
        "players": node.players,
        "seen_at": base.iso(node.seen_at),
        "drain_requested_at": base.iso(node.drain_requested_at),
        "drain_grace_s": node.drain_grace_s if node.drain_requested_at else None,
    }


def _line(row: dict[str, Any]) -> str:
    asked = row["drain_requested_at"]
    parts = [
        row["name"],
        row["state"],
        row["address"],
        f"publishers={row['publishers']}",
        f"players={row['players']}",
        f"seen={row['seen_at']}",
    ]
    if asked:
        parts.append(f"drain={asked}+{row['drain_grace_s']}s")
    return "  ".join(parts)
