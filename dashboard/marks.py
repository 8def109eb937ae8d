"""What operators said of streams, as the wall shows it: muted alerts, and issues that somebody takes care of."""

from collections.abc import Iterable
from typing import TypedDict

from dashboard.muting import active_mutes
from dashboard.notes import ACKNOWLEDGED
from dashboard.operating import FIRST_SEQUENCE
from ingest.contracts import StreamSnapshot
from ingest.models import StatusEvent


class Muted(TypedDict):
    check: str  # "": all of them.
    until: float | None  # Seconds since the epoch; None: until it is lifted.


class Known(TypedDict):
    """An issue as it was when it was acknowledged: one that opened anew since, or got worse, is another."""

    check: str
    since: float
    level: str


class Marks(TypedDict):
    muted: list[Muted]
    acknowledged: list[Known]


def no_marks() -> Marks:
    return {"muted": [], "acknowledged": []}


def marks(snapshots: Iterable[StreamSnapshot]) -> dict[int, Marks]:
    """By stream id, of those that have any. Two queries."""
    live = {each["session_id"]: each["id"] for each in snapshots if each["session_id"]}
    found: dict[int, Marks] = {}
    for mute in active_mutes():
        until = mute.until.timestamp() if mute.until else None
        found.setdefault(mute.stream_id, no_marks())["muted"].append({"check": mute.check_code, "until": until})
    events = StatusEvent.objects.filter(session__in=list(live), sequence__gte=FIRST_SEQUENCE, kind=ACKNOWLEDGED)
    for session, check, detail in events.values_list("session_id", "code", "detail"):
        of = found.setdefault(live[str(session)], no_marks())
        of["acknowledged"].append(
            {"check": check, "since": float(detail.get("since", 0)), "level": str(detail.get("level", ""))}
        )
    return found
