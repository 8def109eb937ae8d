"""`manage.py ban`: addresses that are refused unheard, since they tried too many wrong keys, tokens or passwords."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone

from ingest.management import base
from ingest.management.base import Answer, Argument, Verb, VerbCommand
from ingest.models import Ban
from ingest.services import actions as services_actions
from ingest.services import bans

LONGEST_S = 366 * 86_400
WITHOUT_BANS_S = 600


class Command(VerbCommand):
    help = (
        "Lists, lifts and adds bans. A banned address can't publish, nor play with a token; who plays public streams "
        "from it, and what is live already, goes on. Each node follows within 2 s."
    )

    @Verb("list the bans that hold")
    def _list(self) -> Answer:
        return self.listing(bans.active(now=timezone.now()), empty="No address is banned.")

    @Verb("lift the ban of an address", Argument("address", help="as listed, or any address of a listed network"))
    def _lift(self, address: str) -> Answer:
        lifted = services_actions.lift_bans(self.actor, [address])
        if not lifted:
            raise CommandError(f"{address} is not banned.")
        return Answer({"lifted": lifted}, [f"{address} can connect again within 2 s."])

    @Verb(
        "ban an address; of IPv6 its /64",
        Argument("address"),
        Argument("--seconds", type=int, metavar="N", help="for how long (default: RTMPWEB_BAN_S)"),
    )
    def _add(self, address: str, seconds: int | None) -> Answer:
        if seconds is None:
            seconds = settings.BAN_S or WITHOUT_BANS_S
        if not 0 < seconds <= LONGEST_S:
            raise CommandError(f"--seconds takes a number from 1 to {LONGEST_S}.")
        ban = services_actions.ban(self.actor, address=address, seconds=seconds)
        row = self.row(ban)
        return Answer(row, [f"{ban.address} is banned until {row['until']}, in each node within 2 s."])

    def row(self, ban: Ban) -> dict[str, Any]:
        return base.values(ban, "address", "at", "until", "guesses", "node")

    def line(self, row: dict[str, Any]) -> str:
        why = f"{row['guesses']} wrong secrets on {row['node']}" if row["guesses"] else "by an operator"
        return f"{row['address']}  until {row['until']}  {why}"
