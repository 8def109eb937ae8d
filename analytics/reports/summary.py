"""The head of a report: its first sentences (how it went, and the worst of it), and its figures beside those before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from analytics.figures import MINUTE_MS, Figures
from analytics.models import ReportPlan, Rollup
from analytics.periods import DAY, HOUR, Period
from analytics.reports.document import Lacking
from analytics.reports.figures import Gathered
from analytics.reports.findings import STEADY_PERCENT, Found
from analytics.wording import (
    NBSP,
    NOTHING,
    Compare,
    Show,
    TileRow,
    count_words,
    data_size,
    listed,
    number,
    percent,
    plain,
    plural,
    short,
    span,
    times,
    with_unit,
)

LEAST_CHANGE = 0.001
"""Of what it was: a smaller one is none."""


def _was(show: Show) -> Compare:
    """ "week before: 99.7 %" """

    def compare(_: Figures, then: Figures, called: str) -> str:
        value, unit = show(then)
        return "" if value == NOTHING else f"{called}: {with_unit(value, unit)}"

    return compare


def _more(name: str, wording: Callable[[float], str], fewer: str = "less") -> Compare:
    """ "12 h more" """

    def compare(now: Figures, then: Figures, called: str) -> str:
        change = getattr(now, name) - getattr(then, name)
        if abs(change) <= LEAST_CHANGE * getattr(then, name):
            return f"as the {called}"
        return f"{wording(abs(change))} {'more' if change > 0 else fewer}"

    return compare


def _player_hours(now: Figures, then: Figures, called: str) -> str:
    """ "8 % more" """
    new, old = now.player_hours, then.player_hours
    if not old:
        return f"none the {called}" if new else f"as the {called}"
    change = 100 * (new - old) / old
    if abs(change) < 0.5:
        return f"as the {called}"
    return f"{with_unit(number(abs(change)), '%')} {'more' if change > 0 else 'less'}"


def _refused(now: Figures, _: Figures, __: str) -> str:
    tried = now.accepted + now.refused
    return f"of {number(tried)} {plural(tried, 'connection')}" if tried else "none tried"


def _row(label: str, show: Show, compare: Compare | None = None) -> TileRow:
    """Without words of its own it says what it was."""
    return TileRow(label, show, compare or _was(show), compares_always=compare is _refused)


HEAD_TILES = (
    _row("Live time", plain("live_h", "h"), _more("live_h", lambda hours: with_unit(short(hours), "h"))),
    _row("Uptime", plain("uptime_percent", "%", percent)),
    _row("Drops", plain("unplanned_ends", "", number), _more("unplanned_ends", number, "fewer")),
    _row("Refused connections", plain("refused", "", number), _refused),
    _row("Player hours", plain("player_hours"), _player_hours),
    _row(
        "Egress",
        lambda figures: data_size(figures.delivered_gb),
        _more("delivered_gb", lambda gigabytes: with_unit(*data_size(gigabytes))),
    ),
)


def _spread(figures: Figures) -> tuple[str, str]:
    return number(None if figures.cv is None else 100 * figures.cv), "%"


def _lost(figures: Figures) -> tuple[str, str]:
    value, _, unit = span(MINUTE_MS * figures.lost_min).rpartition(NBSP)
    return value, unit


def _between(figures: Figures) -> tuple[str, str]:
    """More than all of the live time, where nothing dropped."""
    if figures.mtbf_h is None:
        return (f"> {short(figures.live_h)}" if figures.live_h else NOTHING), "h"
    return short(figures.mtbf_h), "h"


FURTHER_TILES = (
    _row("Health score", plain("health_percent", "%", percent)),
    _row("Time in bad health", plain("bad_percent", "%", percent)),
    _row("Time in warning", plain("warning_percent", "%", percent)),
    _row("Lost time", _lost),
    _row("Mean time between drops", _between),
    _row("Mean time to recover", plain("mttr_s", "s")),
    _row("Below 70 % of target", plain("below_percent", "%", percent)),
    _row("Connected but silent", plain("starvation_percent", "%", percent)),
    _row("Dropped frames (estimate)", plain("missing_percent", "%", percent)),
    _row("Timestamp jumps per hour", plain("gaps_per_hour")),
    _row("Bitrate variation", _spread),
    _row("Keyframe intervals > 4 s", plain("keyframe_late_percent", "%", percent)),
    _row("Average players", plain("average_players")),
    _row("Peak players", plain("peak_players", "", number)),
    _row("Peak streams", plain("peak_streams", "", number)),
    _row("Play sessions", plain("plays", "", number)),
    _row("Unique players", plain("unique_players", "", number)),
)

HLS_TILES = (
    _row("Viewer hours by HLS", plain("viewer_hours", "h")),
    _row("Peak viewers by HLS", plain("peak_viewers", "", number)),
    _row("Viewers that reported", plain("viewer_reports", "", number)),
    _row("Time to first picture", plain("viewer_join_s", "s")),
    _row("Waited for media", plain("viewer_stalled_percent", "%", percent)),
)


Kind = ReportPlan.Kind

PARTS = ((5, "night"), (12, "morning"), (18, "afternoon"), (23, "evening"), (24, "night"))
"""Of a day: the hour that each ends before."""
UNKNOWN = {
    "damaged_files": "some of its files could not be read",
    "late_rows": "some of its records came too late to count",
    "strays": "some of its records lay among those of another hour",
}
"""Why nobody knows what was published, by what hours lack (Lacking)."""
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
    """The time in which something was wrong, a drop as a minute of it."""
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


def summary_sentences(
    period: Period,
    now: Gathered,
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
    if not now.on_air:
        if is_whole and lacking:
            return f"Whether anything was published in this {period.noun} is not known: {UNKNOWN[lacking[0]['what']]}."
        known = "was published in" if is_whole else "has been computed yet of what was published in"
        return f"Nothing {known} this {period.noun}."
    said = (_overall(period, now, found, worst), _uptime(period, now, then), _episode(period, now, worst))
    return " ".join(filter(None, said))


def _overall(period: Period, now: Gathered, found: Sequence[Found], worst: Episode | None) -> str:
    bad = {each.stream for each in found if each.level == "bad"}
    noun = period.noun
    uptime = now.together.uptime_percent
    steady = uptime is None or uptime >= STEADY_PERCENT
    calm = f"A steady {noun}" if steady else f"A {noun}"
    if not found:
        return f"A steady {noun}: no stream had trouble."
    if period.kind == Kind.BROADCAST:
        return "A broadcast with trouble." if bad else "A broadcast with minor trouble."
    if not bad:
        streams = len({each.stream for each in found})
        return (
            f"{calm}{',' if steady else ''} with minor trouble on {count_words(streams)} {plural(streams, 'stream')}."
        )
    if len(bad) == 1 and worst and worst.share >= 0.6 and worst.until - worst.since <= SHORT and noun != "day":
        return f"{calm} with one bad {_part(period, worst)}."
    return f"A {noun} with trouble on {count_words(len(bad))} {plural(len(bad), 'stream')}."


def _part(period: Period, worst: Episode) -> str:
    """Morning, afternoon, evening or night: of the middle of it."""
    hour = (worst.since + (worst.until - worst.since) / 2).astimezone(period.zone).hour
    return next(part for end, part in PARTS if hour < end)


def _uptime(period: Period, now: Gathered, then: Figures | None) -> str:
    """ "Uptime 99.4 %, 0.3 points less than the week before." """
    uptime = now.together.uptime_percent
    if uptime is None:
        return ""
    text = f"Uptime {with_unit(percent(uptime), '%')}"
    former = then.uptime_percent if then else None
    if former is None:
        return f"{text}."
    change = float(percent(uptime)) - float(percent(former))  # Of what is shown.
    if abs(change) < 0.05:
        return f"{text}, as in the {period.before_words}."
    more = "more" if change > 0 else "less"
    return f"{text}, {with_unit(f'{abs(change):.1f}', 'points')} {more} than the {period.before_words}."


def _episode(period: Period, now: Gathered, worst: Episode | None) -> str:
    """ "On Sunday from 20:00 to 23:00 **live/arena-main** fell to 1,920 kbit/s and dropped four times." """
    if worst is None:
        return ""
    did = _did(worst.hours, now.streams[worst.stream].unplanned_ends)
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


def _did(hours: Sequence[Rollup], drops: int) -> list[str]:
    """`drops`: the stream's in the whole period, so that another number is not taken for it."""
    below = [row for row in hours if row.below_ms >= MINUTE_MS and row.video_kbps_p5 is not None]
    starved, ends = sum(row.starved_ms for row in hours), sum(row.unplanned_ends for row in hours)
    bad = sum(row.bad_ms for row in hours)
    troubles = []
    if below:
        troubles.append(f"fell to {with_unit(number(min(row.video_kbps_p5 or 0 for row in below)), 'kbit/s')}")
    if ends:
        troubles.append(f"dropped {times(ends)}" if ends >= drops else f"had {ends} of its {number(drops)} drops")
    if starved >= MINUTE_MS:
        troubles.append(f"was silent for {span(starved)}")
    return troubles or ([f"was in bad health for {span(bad)}"] if bad >= MINUTE_MS else [])


def _cause(hours: Sequence[Rollup]) -> str:
    below = sum(row.below_ms for row in hours)
    live = sum(row.live_ms for row in hours)
    return "; its uplink could not carry its bitrate" if below > live / 4 else ""
