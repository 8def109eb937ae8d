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


def _attempts(now: Figures, _: Figures, __: str) -> str:
    tried = now.accepted + now.refused
    return f"{number(now.accepted)} of {number(tried)} {plural(tried, 'attempt')}" if tried else "no attempts"


def _row(label: str, show: Show, compare: Compare | None = None) -> TileRow:
    """Without words of its own it says what it was."""
    return TileRow(label, show, compare or _was(show), compares_always=compare is _attempts)


HEAD_TILES = (
    _row("Live time", plain("live_h", "h"), _more("live_h", lambda hours: with_unit(short(hours), "h"))),
    _row("Uptime", plain("uptime_percent", "%", percent)),
    _row("Reconnects", plain("reconnects", "", number), _more("reconnects", number, "fewer")),
    _row("Publish success", plain("success_percent", "%", percent), _attempts),
    _row("Player hours", plain("player_hours"), _player_hours),
    _row(
        "Delivered",
        lambda figures: data_size(figures.delivered_gb),
        _more("delivered_gb", lambda gigabytes: with_unit(*data_size(gigabytes))),
    ),
)


def _spread(figures: Figures) -> tuple[str, str]:
    return number(None if figures.cv is None else 100 * figures.cv), "%"


def _between(figures: Figures) -> tuple[str, str]:
    """More than all of the live time, where nothing broke."""
    if figures.mtbf_h is None:
        return (f"> {short(figures.live_h)}" if figures.live_h else NOTHING), "h"
    return short(figures.mtbf_h), "h"


FURTHER_TILES = (
    _row("Health", plain("health_percent", "%", percent)),
    _row("Time between breaks", _between),
    _row("Back after a break", plain("mttr_s", "s")),
    _row("Reconnects an hour", plain("reconnects_per_hour")),
    _row("Below 70 % of target", plain("below_percent", "%", percent)),
    _row("Connected, nothing sent", plain("starvation_percent", "%", percent)),
    _row("Missing frames, estimated", plain("missing_percent", "%", percent)),
    _row("Timestamp jumps an hour", plain("gaps_per_hour")),
    _row("Bitrate's spread", _spread),
    _row("Keyframes over 4 s apart", plain("keyframe_late_percent", "%", percent)),
    _row("Average players", plain("average_players")),
    _row("Peak players", plain("peak_players", "", number)),
    _row("Streams at once", plain("peak_streams", "", number)),
    _row("Plays", plain("plays", "", number)),
    _row("Distinct players", plain("unique_players", "", number)),
)


Kind = ReportPlan.Kind

PARTS = ((5, "night"), (12, "morning"), (18, "afternoon"), (23, "evening"), (24, "night"))
"""Of a day: the hour that each ends before."""
UNKNOWN = {
    "damaged_files": "files of it could not be read",
    "late_rows": "records of it came too late to count",
    "strays": "records of it lay among those of another hour",
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
    return " ".join(
        filter(None, (_overall(period, now, found, worst), _uptime(period, now, then), _episode(period, worst)))
    )


def _overall(period: Period, now: Gathered, found: Sequence[Found], worst: Episode | None) -> str:
    bad = {each.stream for each in found if each.level == "bad"}
    noun = period.noun
    uptime = now.together.uptime_percent
    steady = uptime is None or uptime >= STEADY_PERCENT
    calm = f"A steady {noun}" if steady else f"A {noun}"
    if not found:
        return f"A steady {noun}: no stream had trouble."
    if period.kind == Kind.BROADCAST:
        return "A broadcast with trouble." if bad else "A broadcast with small trouble."
    if not bad:
        streams = len({each.stream for each in found})
        return (
            f"{calm}{',' if steady else ''} with small trouble on {count_words(streams)} {plural(streams, 'stream')}."
        )
    if len(bad) == 1 and worst and worst.share >= 0.6 and worst.until - worst.since <= SHORT and noun != "day":
        return f"{calm} with one bad {_part(period, worst)}."
    return f"A {noun} with trouble on {count_words(len(bad))} {plural(len(bad), 'stream')}."


def _part(period: Period, worst: Episode) -> str:
    """Morning, afternoon, evening or night: of the middle of it."""
    hour = (worst.since + (worst.until - worst.since) / 2).astimezone(period.zone).hour
    return next(part for end, part in PARTS if hour < end)


def _uptime(period: Period, now: Gathered, then: Figures | None) -> str:
    """ "Streams were up 99.4 % of their time, 0.3 points less than the week before." """
    uptime = now.together.uptime_percent
    if uptime is None:
        return ""
    subject = ("Streams were", "their") if len(now.on_air) > 1 else ("The stream was", "its")
    text = f"{subject[0]} up {with_unit(percent(uptime), '%')} of {subject[1]} time"
    former = then.uptime_percent if then else None
    if former is None:
        return f"{text}."
    change = float(percent(uptime)) - float(percent(former))  # Of what is shown.
    if abs(change) < 0.05:
        return f"{text}, as in the {period.before_words}."
    more = "more" if change > 0 else "less"
    return f"{text}, {with_unit(f'{abs(change):.1f}', 'points')} {more} than the {period.before_words}."


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
    troubles = []
    if below:
        troubles.append(f"fell to {with_unit(number(min(row.video_kbps_p5 or 0 for row in below)), 'kbit/s')}")
    if ends:
        troubles.append(f"broke off {times(ends)}")
    if starved >= MINUTE_MS:
        troubles.append(f"sent nothing for {span(starved)}")
    return troubles or ([f"was bad for {span(bad)}"] if bad >= MINUTE_MS else [])


def _cause(hours: Sequence[Rollup]) -> str:
    below = sum(row.below_ms for row in hours)
    live = sum(row.live_ms for row in hours)
    return "; its uplink did not carry its bitrate" if below > live / 4 else ""
