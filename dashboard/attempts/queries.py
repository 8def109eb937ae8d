"""Refused attempts as the page shows them: which are meant, how many of each reason, and who is banned."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet, Sum
from django.db.models.functions import Coalesce
from django.http import QueryDict
from django.utils import timezone

from dashboard.lists import active_filters, narrow
from dashboard.zones import moment
from ingest.addresses import unit_or_itself
from ingest.models import Attempt
from ingest.services import bans

LOOKUPS = {
    "app": "app",
    "name": "name",
    "reason": "reason",
    "action": "action",
    "address": "address",
    "since": "latest__gte",
    "until": "at__lt",
}

PAGE_LOOKUPS = LOOKUPS | {"name": "name__contains", "key": "key_id"}

WITHIN = {"900": "Last 15 min", "3600": "Last hour", "86400": "Last 24 h"}
"""Seconds."""

COUNTED = timedelta(days=1)
"""What the counts of reasons look back."""

MAX_REASONS = 6


def attempts() -> QuerySet[Attempt]:
    """Newest first. `latest`: when the last of those came that a row stands for."""
    return Attempt.objects.annotate(latest=Coalesce("last_at", "at")).order_by("-at", "-pk")


def refused_publishers(since: datetime) -> QuerySet[Attempt]:
    """What came since then, the latest first; players' refusals are left out."""
    rows = narrow(attempts().exclude(action=Attempt.Action.PLAY), LOOKUPS, {"since": since})
    return rows.order_by(Coalesce("last_at", "at").desc())


@dataclass(frozen=True, slots=True)
class AttemptFilter:
    """Which attempts are meant. What can't be understood filters nothing."""

    shown: dict[str, str]
    """What was given, by name."""

    @classmethod
    def of(cls, query: QueryDict) -> "AttemptFilter":
        shown = active_filters(query, (*PAGE_LOOKUPS, "within"))
        return cls(shown | {"within": shown["within"] if shown["within"] in WITHIN else ""})

    def rows(self) -> QuerySet[Attempt]:
        return narrow(attempts().select_related("key"), PAGE_LOOKUPS, self._values())

    def reasons(self) -> list[tuple[str, int]]:
        """What the most were refused for since COUNTED, whatever reason was chosen, and how often."""
        values = self._values() | {"reason": ""}
        recent = narrow(attempts(), PAGE_LOOKUPS, values).filter(at__gte=timezone.now() - COUNTED)
        counted = recent.order_by().values_list("reason").annotate(times=Sum("count")).order_by("-times", "reason")
        return [(reason, times) for reason, times in counted[:MAX_REASONS]]

    def _values(self) -> dict[str, Any]:
        since, within = moment(self.shown["since"]), self.shown["within"]
        if within:
            since = max(filter(None, (since, timezone.now() - timedelta(seconds=int(within)))))
        key = self.shown["key"]
        return self.shown | {
            "since": since,
            "until": moment(self.shown["until"]),
            "key": int(key) if key.isdecimal() and len(key) < 19 else None,
        }


def banned_until(addresses: Iterable[str]) -> dict[str, datetime]:
    """Until when each of the addresses is refused unheard; those that are heard are left out."""
    units = {address: unit_or_itself(address) for address in addresses}
    rows = bans.active(now=timezone.now()).filter(address__in=set(units.values())).order_by("until")
    until = dict(rows.values_list("address", "until"))
    return {address: until[unit] for address, unit in units.items() if unit in until}
