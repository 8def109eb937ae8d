"""The report's first sentences: how it went, and the worst of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from analytics.models import ReportPlan, Rollup
from analytics.reports.document import Figures, Lacking
from analytics.reports.findings import STEADY_PERCENT, Found
from analytics.reports.periods import DAY, HOUR, Period, former_words
from analytics.reports.saying import count_words, listed, number, percent, plural, span, times, with_unit

Kind = ReportPlan.Kind

NOUNS: dict[str, str] = {Kind.DAILY: "day", Kind.WEEKLY: "week", Kind.MONTHLY: "month", Kind.BROADCAST: "broadcast"}
PARTS = ((5, "night"), (12, "morning"), (18, "afternoon"), (23, "evening"), (24, "night"))
"""Of a day: the hour that each ends before."""
UNKNOWN = {
    "damaged_files": "files of it could not be read",
    "late_rows": "records of it came too late to count",
    "strays": "records of it lay among those of another hour",
}
"""Why nobody knows what was published, by what hours lack (Lacking)."""
MINUTE_MS = 60_000
SHORT = 6 * HOUR
"""An episode that is longer is no evening."""


@dataclass(frozen=True, slots=True)
class Episode:
    """Hours of trouble that follow each other; `share` of all the stream's trouble."""

    stream: str
    hours: Sequence[Rollup]
    share: float

    @property
    def since(self) -> datetime:
        return self.hours[0].start

    @property
    def until(self) -> datetime:
        return self.hours[-1].start + HOUR


def _trouble_ms(row: Rollup) -> int:
    """The time in which something was wrong, a break as a minute of it."""
    return max(row.bad_ms, row.below_ms, row.starved_ms) + row.unplanned_ends * MINUTE_MS


def worst_episode(stream: str, rows: Sequence[Rollup]) -> Episode | None:
    """The worst hours without a good one between them; None where none had a minute of trouble. `rows`: in order."""
    troubled = [row for row in rows if _trouble_ms(row) >= MINUTE_MS]
    if not troubled:
        return None
    runs: list[list[Rollup]] = []
    for row in troubled:
        if runs and runs[-1][-1].start + HOUR == row.start:
            runs[-1].append(row)
        else:
            runs.append([row])
    weights = [sum(map(_trouble_ms, run)) for run in runs]
    most = max(weights)
    return Episode(stream, runs[weights.index(most)], most / sum(weights))


def lede(
    period: Period,
    now: Figures,
    then: Figures | None,
    found: Sequence[Found],
    worst: Episode | None,
    *,
    is_whole: bool = True,
    lacking: Sequence[Lacking] = (),
) -> str:
    """`is_whole`: whether all of the period's hours had been computed, `lacking`: what these lack, the worst first;
    else nobody knows that nothing was published.
    """
    if not now["streams"]:
        if is_whole and lacking:
            return f"Whether anything was published in this {noun(period)} is not known: {UNKNOWN[lacking[0]['what']]}."
        known = "was published in" if is_whole else "has been computed yet of what was published in"
        return f"Nothing {known} this {noun(period)}."
    return " ".join(
        filter(None, (_overall(period, now, found, worst), _uptime(period, now, then), _episode(period, worst)))
    )


def noun(period: Period) -> str:
    return NOUNS[period.kind] if period.is_regular or period.kind == Kind.BROADCAST else "period"


def _overall(period: Period, now: Figures, found: Sequence[Found], worst: Episode | None) -> str:
    bad = {each.stream for each in found if each.level == "bad"}
    what = noun(period)
    uptime = now["uptime_percent"]
    steady = uptime is None or uptime >= STEADY_PERCENT
    calm = f"A steady {what}" if steady else f"A {what}"
    if not found:
        return f"A steady {what}: no stream had trouble."
    if period.kind == Kind.BROADCAST:
        return "A broadcast with trouble." if bad else "A broadcast with small trouble."
    if not bad:
        streams = len({each.stream for each in found})
        return (
            f"{calm}{',' if steady else ''} with small trouble on {count_words(streams)} {plural(streams, 'stream')}."
        )
    if len(bad) == 1 and worst and worst.share >= 0.6 and worst.until - worst.since <= SHORT and what != "day":
        return f"{calm} with one bad {_part(period, worst)}."
    return f"A {what} with trouble on {count_words(len(bad))} {plural(len(bad), 'stream')}."


def _part(period: Period, worst: Episode) -> str:
    """Morning, afternoon, evening or night: of the middle of it."""
    hour = (worst.since + (worst.until - worst.since) / 2).astimezone(period.zone).hour
    return next(part for end, part in PARTS if hour < end)


def _uptime(period: Period, now: Figures, then: Figures | None) -> str:
    """ "Streams were up 99.4 % of their time, 0.3 points less than the week before." """
    uptime = now["uptime_percent"]
    if uptime is None:
        return ""
    who = ("Streams were", "their") if now["streams"] > 1 else ("The stream was", "its")
    said = f"{who[0]} up {with_unit(percent(uptime), '%')} of {who[1]} time"
    former = then["uptime_percent"] if then else None
    if former is None:
        return f"{said}."
    change = float(percent(uptime)) - float(percent(former))  # Of what is shown.
    if abs(change) < 0.05:
        return f"{said}, as in the {former_words(period)}."
    more = "more" if change > 0 else "less"
    return f"{said}, {with_unit(f'{abs(change):.1f}', 'points')} {more} than the {former_words(period)}."


def _episode(period: Period, worst: Episode | None) -> str:
    """ "On Sunday from 20:00 to 23:00 **live/arena-main** fell to 1,920 kbit/s and broke off four times." """
    if worst is None:
        return ""
    did = _did(worst.hours)
    if not did:
        return ""
    when = _when(period, worst)
    return f"{when} **{worst.stream}** {listed(did)}{_cause(worst.hours)}."


def _when(period: Period, worst: Episode) -> str:
    since, until = (moment.astimezone(period.zone) for moment in (worst.since, worst.until))
    hours = f"from {since:%H:%M} to {until:%H:%M}"
    days = len(period.days)
    if days == 1:
        return hours.capitalize()
    day = f"{since:%A}" if days <= 7 else f"{since.day} {since:%B}"
    if until - since > DAY:
        last = f"{until:%A}" if days <= 7 else f"{until.day} {until:%B}"
        return f"From {day}, {since:%H:%M}, to {last}, {until:%H:%M},"
    return f"On {day} {hours}"


def _did(hours: Sequence[Rollup]) -> list[str]:
    below = [row for row in hours if row.below_ms >= MINUTE_MS and row.video_kbps_p5 is not None]
    starved, ends = sum(row.starved_ms for row in hours), sum(row.unplanned_ends for row in hours)
    bad = sum(row.bad_ms for row in hours)
    said = []
    if below:
        said.append(f"fell to {with_unit(number(min(row.video_kbps_p5 or 0 for row in below)), 'kbit/s')}")
    if ends:
        said.append(f"broke off {times(ends)}")
    if starved >= MINUTE_MS:
        said.append(f"sent nothing for {span(starved)}")
    return said or ([f"was bad for {span(bad)}"] if bad >= MINUTE_MS else [])


def _cause(hours: Sequence[Rollup]) -> str:
    below = sum(row.below_ms for row in hours)
    live = sum(row.live_ms for row in hours)
    return "; its uplink did not carry its bitrate" if below > live / 4 else ""
