"""`manage.py ban`: addresses that are refused unheard, since they tried too many wrong keys, tokens or passwords."""

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from ingest.management import base
from ingest.models import Ban
from ingest.services import actions as services_actions
from ingest.services import audit, bans

LONGEST_S = 366 * 86_400
WITHOUT_BANS_S = 600


class Command(BaseCommand):
    help = (
        "Lists, lifts and adds bans. A banned address can't publish, nor play with a token; who plays public streams "
        "from it, and what is live already, goes on. Each node follows within 2 s."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="act", required=True, metavar="list|lift|add")
        listing = verbs.add_parser("list", help="list the bans that hold")
        lift = verbs.add_parser("lift", help="hear an address again")
        lift.add_argument("address", help="as listed, or any address of a listed network")
        add = verbs.add_parser("add", help="ban an address; of IPv6 its /64")
        add.add_argument("address")
        add.add_argument("--seconds", type=int, metavar="N", help="for how long (default: RTMPWEB_BAN_S)")
        for act in (listing, lift, add):
            act.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        does: dict[str, Callable[..., None]] = {"list": self._list, "lift": self._lift, "add": self._add}
        try:
            does[options["act"]](**options)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None

    def _list(self, *, json: bool, **options: Any) -> None:
        items = [_row(ban) for ban in bans.active(now=timezone.now())]
        if json:
            base.put_json(self.stdout, {"items": items, "count": len(items)})
            return
        for item in items:
            why = f"{item['guesses']} wrong secrets on {item['node']}" if item["guesses"] else "by an operator"
            self.stdout.write(f"{item['address']}  until {item['until']}  {why}")
        if not items:
            self.stdout.write("No address is banned.")

    def _lift(self, *, address: str, json: bool, **options: Any) -> None:
        lifted = services_actions.lift_bans(audit.command("ban"), [address])
        if not lifted:
            raise CommandError(f"{address} is not banned.")
        if json:
            base.put_json(self.stdout, {"lifted": lifted})
        else:
            self.stdout.write(f"{address} is heard again within 2 s.")

    def _add(self, *, address: str, seconds: int | None, json: bool, **options: Any) -> None:
        if seconds is None:
            seconds = settings.BAN_S or WITHOUT_BANS_S
        if not 0 < seconds <= LONGEST_S:
            raise CommandError(f"--seconds takes a number from 1 to {LONGEST_S}.")
        ban = services_actions.ban(audit.command("ban"), address=address, seconds=seconds)
        if json:
            base.put_json(self.stdout, _row(ban))
        else:
            self.stdout.write(f"{ban.address} is banned until {base.iso(ban.until)}, in each node within 2 s.")


def _row(ban: Ban) -> dict[str, Any]:
    return {
        "address": ban.address,
        "at": base.iso(ban.at),
        "until": base.iso(ban.until),
        "guesses": ban.guesses,
        "node": ban.node,
    }
