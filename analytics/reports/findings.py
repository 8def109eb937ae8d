"""What went wrong, and what to do: a table of rules, each asked of each stream's figures; and what was refused."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analytics.figures import MINUTE_MS, Figures
from analytics.reports.document import Finding, Level, Refusal
from analytics.wording import listed, number, percent, plural, short, span, times, with_unit

REFUSAL_WORDS = {
    "unknown_app": "for an application that there is not",
    "instance_unknown": "for an instance that there is not",
    "too_many_instances": "for an instance too many of the application",
    "app_disabled": "because the application is disabled",
    "key_missing": "without a key",
    "key_unknown": "with an unknown key",
    "key_disabled": "with a disabled key",
    "key_revoked": "with a revoked key",
    "key_expired": "with an expired key",
    "key_other_app": "with another application's key",
    "key_other_stream": "with another stream's key",
    "login_wrong": "with a wrong user or password",
    "login_challenge": "with an answer to another log-in's challenge",
    "login_method": "with an unknown way to log in",
    "login_disabled": "with a disabled log-in",
    "login_revoked": "with a revoked log-in",
    "login_expired": "with an expired log-in",
    "login_other_stream": "with another stream's log-in",
    "network_not_allowed": "from a network that the key does not allow",
    "name_invalid": "with a name that can't be a stream's",
    "stream_disabled": "because the stream is disabled",
    "stream_unknown": "for a stream that there is not",
    "busy": "because the stream was busy",
    "over_limit": "soon after a bitrate over the key's limit",
    "test_over": "soon after a test's end",
    "banned": "from a banned address",
    "database_slow": "because the database was slow",
    "database_error": "because the database was away",
    "callback_refused": "by the authorisation service",
    "callback_failed": "because the authorisation service failed",
    "draining": "because the server was draining",
    "too_many_connections": "because of too many connections",
    "internal_error": "by an error of the server",
}
"""By reason, those of publishes and of connects: as in "6 with an expired key"."""


def refusals_by_reason(together: Figures) -> list[Refusal]:
    """Most first."""
    found = sorted(together.refusals.items(), key=lambda item: (-item[1], item[0]))
    return [
        {"reason": reason, "words": reason.replace("_", " ").capitalize(), "count": count} for reason, count in found
    ]


def refusals_finding(together: Figures, streams: Mapping[str, Figures]) -> Finding | None:
    """None where nothing was refused."""
    if not together.refused:
        return None
    by_reason: dict[str, Counter[str]] = {}
    for path, figures in streams.items():
        for reason, count in figures.refusals.items():
            by_reason.setdefault(reason, Counter())[path] += count
    parts = [
        f"{number(each['count'])} {REFUSAL_WORDS.get(each['reason']) or 'by ' + each['reason'].replace('_', ' ')}"
        f"{_for_stream(each, by_reason.get(each['reason'], Counter()))}"
        for each in refusals_by_reason(together)
    ]
    count = together.refused
    return {
        "level": "warning",
        "what": f"{number(count)} {plural(count, 'publish was', 'publishes were')} refused.",
        "advice": f"{listed(parts, most=4)}." if parts else "",
        "stream": "",
    }


def _for_stream(refusal: Refusal, streams: Counter[str]) -> str:
    """The stream's name, where all of them were for one."""
    only = next(iter(streams), "")
    return f" for {only}" if len(streams) == 1 and streams[only] == refusal["count"] else ""


MINUTES, HALF_HOUR = 5 * MINUTE_MS, 30 * MINUTE_MS
STEADY_PERCENT = 99
"""Of uptime: what was up less is not called steady."""
MOST = 12
"""Findings in a report; the table of all streams has the rest."""

RANK: dict[str, int] = {"bad": 0, "warning": 1, "good": 2, "none": 3}


@dataclass(frozen=True, slots=True)
class Limits:
    """Reached by either: so many milliseconds, or so many per cent and a minute."""

    milliseconds: float
    percent: float

    def reached(self, milliseconds: float, share: float | None) -> bool:
        return milliseconds >= self.milliseconds or (milliseconds >= MINUTE_MS and (share or 0) >= self.percent)


@dataclass(frozen=True, slots=True)
class Seen:
    """A stream's figures, and the target bitrate of its settings, kbit/s."""

    path: str
    figures: Figures
    target_kbps: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    """`text` goes on after the stream's name, without a full stop. `weight`: of two of a level the greater is first."""

    level: Callable[[Figures], Level | None]
    text: Callable[[Figures], str]
    advice: Callable[[Seen], str]
    weight: Callable[[Figures], float]
    alone: bool = False
    """Only where no rule before it had anything to say."""


@dataclass(frozen=True, slots=True)
class Found:
    stream: str
    level: Level
    reason: str
    advice: str
    weight: float

    def finding(self) -> Finding:
        return {
            "level": self.level,
            "what": f"{self.stream} {self.reason}.",
            "advice": self.advice,
            "stream": self.stream,
        }


def _lasting(
    part: Callable[[Figures], tuple[float, float | None]], bad: Limits, warning: Limits
) -> Callable[[Figures], Level | None]:
    def level(figures: Figures) -> Level | None:
        lasted, share = part(figures)
        if bad.reached(lasted, share):
            return "bad"
        return "warning" if warning.reached(lasted, share) else None

    return level


def _share(
    value: Callable[[Figures], float | None], *, bad: float, warning: float
) -> Callable[[Figures], Level | None]:
    def level(figures: Figures) -> Level | None:
        share = value(figures) or 0
        return "bad" if share >= bad else "warning" if share >= warning else None

    return level


def _down_ms(figures: Figures) -> int:
    """The time without media of its sessions and the gaps that they came back from."""
    return figures.elapsed_ms + figures.recovery_ms - figures.live_ms


def _down(figures: Figures) -> Level | None:
    """Whoever was up less than STEADY_PERCENT of the time is told of, however short it was."""
    if figures.uptime_percent is None or figures.uptime_percent >= STEADY_PERCENT:
        return None
    return "bad" if Limits(HALF_HOUR, 10).reached(_down_ms(figures), 100 - figures.uptime_percent) else "warning"


def _breaks(figures: Figures) -> Level | None:
    if figures.unplanned_ends < 2:
        return None
    often = figures.unplanned_ends >= 3 and (figures.unplanned_ends >= 10 or (figures.mtbf_h or 0) < 1)
    return "bad" if often or _down(figures) == "bad" else "warning"


def _breaks_text(figures: Figures) -> str:
    back = f" and came back {times(figures.reconnects)}" if figures.reconnects else ""
    after = f", after {span(1000 * figures.mttr_s)} on average" if figures.mttr_s and figures.reconnects else ""
    return f"broke off {times(figures.unplanned_ends)}{back}{after}"


BREAKS = {
    "tcp_reset": "The connection was reset: check that the encoder is running, then its uplink.",
    "idle_timeout": "No media arrived any more: check that the encoder is running, then its uplink.",
    "protocol_error": "Look at the encoder's version and settings.",
    "over_limit": "Lower the encoder's bitrate, or raise the limit of its key.",
    "node_lost": "The server was lost: look at its log.",
    "lease_lost": "Look at the database, and at the server's log.",
}
"""By why most of the sessions ended."""


def _breaks_advice(seen: Seen) -> str:
    known = {reason: count for reason, count in seen.figures.end_reasons.items() if reason in BREAKS}
    reason = max(known, key=lambda each: (known[each], each), default="")
    return BREAKS.get(reason, "See in the sessions how they ended.")


def _below_advice(seen: Seen) -> str:
    """A bitrate that it did carry nearly always, in round figures."""
    carried = seen.figures.video_kbps_p5 or 0
    step = 500 if carried >= 2000 else 100
    kbps = math.floor(carried / step) * step
    if not 300 <= kbps < (seen.target_kbps or math.inf):
        return "Give it a wired uplink, or lower its bitrate."
    return f"Give it a wired uplink, or set {with_unit(number(kbps), 'kbit/s')}."


def _keyframes_text(figures: Figures) -> str:
    longest = with_unit(short(figures.keyframe_interval_max), "s")
    share = with_unit(percent(figures.keyframe_late_percent), "%")
    return f"sent {share} of its keyframes over 4{_S} apart, up to {longest}"


_S = with_unit("", "s")
RULES = (
    Rule(
        level=_breaks,
        text=_breaks_text,
        advice=_breaks_advice,
        weight=lambda of: of.recovery_ms + of.unplanned_ends * MINUTE_MS,
    ),
    Rule(
        level=_lasting(lambda of: (of.starved_ms, of.starvation_percent), Limits(HALF_HOUR, 10), Limits(MINUTES, 1)),
        text=lambda of: f"was connected and sent nothing for {span(of.starved_ms)} in all",
        advice=lambda _: "Check that the encoder is running, then its uplink.",
        weight=lambda of: of.starved_ms,
    ),
    Rule(
        level=_down,
        text=lambda of: f"was up only {with_unit(percent(of.uptime_percent), '%')} of its time",
        advice=lambda _: "See in its sessions when they ended and began, then check the encoder and its uplink.",
        weight=_down_ms,
        alone=True,
    ),
    Rule(
        level=_lasting(lambda of: (of.below_ms, of.below_percent), Limits(HALF_HOUR, 20), Limits(MINUTES, 5)),
        text=lambda of: f"was below 70{with_unit('', '%')} of its target for {span(of.below_ms)}",
        advice=_below_advice,
        weight=lambda of: of.below_ms,
    ),
    Rule(
        level=_share(lambda of: of.keyframe_late_percent, bad=math.inf, warning=20),
        text=_keyframes_text,
        advice=lambda seen: (
            f"Set the keyframe interval to 2{_S}; players now wait up to "
            f"{with_unit(short(seen.figures.keyframe_interval_max), 's')} to start."
        ),
        weight=lambda of: of.live_ms * (of.keyframe_late_percent or 0) / 100,
    ),
    Rule(
        level=_share(lambda of: of.missing_percent, bad=5, warning=0.5),
        text=lambda of: f"lost about {with_unit(percent(of.missing_percent), '%')} of its frames",
        advice=lambda _: "The encoder leaves frames out: check its load, use a faster preset or a smaller picture.",
        weight=lambda of: of.live_ms * (of.missing_percent or 0) / 100,
    ),
    Rule(
        level=_lasting(
            lambda of: (of.bad_ms, _of(of.bad_ms, of.measured_ms)), Limits(HALF_HOUR, 20), Limits(MINUTES, 5)
        ),
        text=lambda of: f"was bad for {span(of.bad_ms)}",
        advice=lambda _: "See in its history when, and in its sessions what was wrong.",
        weight=lambda of: of.bad_ms,
        alone=True,
    ),
    Rule(
        level=_share(lambda of: _of(of.warning_ms, of.measured_ms), bad=math.inf, warning=20),
        text=lambda of: f"had a warning for {span(of.warning_ms)}",
        advice=lambda _: "See in its sessions which check warned.",
        weight=lambda of: of.warning_ms,
        alone=True,
    ),
)


def _of(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


def evaluate(seen: Seen) -> list[Found]:
    found: list[Found] = []
    for rule in RULES:
        level = rule.level(seen.figures)
        if level is not None and not (rule.alone and found):
            found.append(Found(seen.path, level, rule.text(seen.figures), rule.advice(seen), rule.weight(seen.figures)))
    return found


def findings(found: list[Found], together: Figures, streams: dict[str, Figures]) -> list[Finding]:
    """Worst first, then what was refused."""
    ordered = sorted(found, key=lambda each: (RANK[each.level], -each.weight, each.stream))
    shown = [each.finding() for each in ordered[:MOST]]
    refused = refusals_finding(together, streams)
    if refused is not None:
        shown.append(refused)
    if not shown and together.elapsed_ms:
        shown.append({"level": "good", "what": "Nothing went wrong.", "advice": "", "stream": ""})
    return shown
