"""Most players, and most streams, at once across several applications: rollups have it of each, not of all together.

Where two applications were used in one hour, its minutes in the lake say it; where these are gone, the sum of what each
had is the most that it can have been.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from analytics.figures import Figures
from analytics.reports.minutes import minutes
from analytics.rollups import Rollups
from analytics.tables import moment


class Peak(NamedTuple):
    most: int
    at: datetime | None = None


def across_apps(figures: Figures, rows: Rollups, lake: Path) -> Figures:
    """The figures with the peaks of all the applications together. `rows`: their hours, one for each application."""
    players: dict[datetime, list[Peak]] = defaultdict(list)
    streams: dict[datetime, list[Peak]] = defaultdict(list)
    for row in rows.values("start", "peak_players", "peak_at", "peak_streams"):
        players[row["start"]].append(Peak(row["peak_players"], row["peak_at"]))
        streams[row["start"]].append(Peak(row["peak_streams"]))
    most = _greatest(players, lake, "players")
    return replace(
        figures,
        peak_players=most.most,
        peak_at=most.at,
        peak_streams=_greatest(streams, lake, "streams").most,
    )


def _greatest(hours: dict[datetime, list[Peak]], lake: Path, of: str) -> Peak:
    """Hours are looked at from the one that may have most, until none can have more."""
    greatest = Peak(0)
    for hour, peaks in sorted(hours.items(), key=lambda item: (-_together(item[1]), item[0])):
        most = _together(peaks)
        if most <= greatest.most:
            break
        found = peaks[0] if len(peaks) == 1 else _in_minutes(lake, hour, of) or Peak(most)
        if found.most > greatest.most:
            greatest = found
    return greatest


def _together(peaks: Iterable[Peak]) -> int:
    return sum(peak.most for peak in peaks)


def _in_minutes(lake: Path, hour: datetime, of: str) -> Peak | None:
    """The first minute of the hour with most; None where the lake has no minutes of it."""
    import pyarrow.compute as pc  # Loaded only where it is used.

    found = minutes(lake, hour, ["minute_us", "app", "name", "peak_players", "live_ms"])
    if found is None:
        return None
    if of == "streams":
        found = found.filter(pc.greater(found["live_ms"], 0))
    by_stream = found.group_by(["minute_us", "app", "name"]).aggregate([("peak_players", "max")])
    counted = ("peak_players_max", "sum") if of == "players" else ("name", "count")
    most = by_stream.group_by("minute_us").aggregate([counted])
    ordered = [(-each["_".join(counted)], each["minute_us"]) for each in most.to_pylist()]
    if not ordered:
        return Peak(0)
    amount, minute = min(ordered)
    return Peak(-amount, moment(minute))
