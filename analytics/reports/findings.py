"""What went wrong, and what to do: a table of rules, each asked of each stream's figures; and what was refused."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analytics.figures import MINUTE_MS, Figures
from analytics.reports.document import OTHER, Finding, Level, Refusal
from analytics.wording import listed, number, percent, plural, short, span, times, with_unit

REFUSAL_WORDS = {
    "unknown_app": "for an unknown application",
    "instance_unknown": "for an unknown instance",
    "too_many_instances": "because the application had too many instances",
    "app_disabled": "because the application is disabled",
    "key_missing": "without a key",
    "key_unknown": "with an unknown key",
    "key_disabled": "with a disabled key",
    "key_revoked": "with a revoked key",
    "key_expired": "with an expired key",
    "key_other_app": "with another application's key",
    "key_other_stream": "with another stream's key",
    "login_wrong": "with a wrong user or password",
    "login_challenge": "with a wrong or late answer to the log-in's challenge",
    "login_method": "with an unsupported log-in method",
    "login_disabled": "with a disabled log-in",
    "login_revoked": "with a revoked log-in",
    "login_expired": "with an expired log-in",
    "login_other_stream": "with another stream's log-in",
    "network_not_allowed": "from a network that the key does not allow",
    "name_invalid": "with an invalid stream name",
    "stream_disabled": "because the stream is disabled",
    "stream_unknown": "for an unknown stream",
    "edge_only": "by a node that takes players only",
    "pull_refused": "as a pull without permission",
    "busy": "because the stream was busy",
    "over_limit": "right after exceeding the key's bitrate limit",
    "test_over": "right after a test finished",
    "banned": "from a banned address",
    "database_slow": "because the database was slow",
    "database_error": "because the database was unavailable",
    "callback_refused": "by the authorisation service",
    "callback_failed": "because the authorisation service failed",
    "draining": "because the node was draining",
    "too_many_connections": "because of too many connections",
    "internal_error": "because of a server error",
}
"""By reason, those of publishes and of connects: as in "6 with an expired key"."""


def refusals_by_reason(together: Figures) -> list[Refusal]:
    """Most first, and last those of which no reason was counted: together all that were refused."""
    found = sorted(together.refusals.items(), key=lambda item: (-item[1], item[0]))
    if (rest := together.refused - sum(count for _, count in found)) > 0:
        found.append((OTHER, rest))
    return [
        {"reason": reason, "words": reason.replace("_", " ").capitalize(), "count": count} for reason, count in found
    ]


MOST_REASONS = 3
"""In the finding, before the rest as one number."""


def refusals_finding(together: Figures, streams: Mapping[str, Figures]) -> Finding | None:
    """None where nothing was refused."""
    if not together.refused:
        return None
    by_reason: dict[str, Counter[str]] = {}
    for path, figures in streams.items():
        for reason, count in figures.refusals.items():
            by_reason.setdefault(reason, Counter())[path] += count
    known = [each for each in refusals_by_reason(together) if each["reason"] != OTHER]
    named = known if len(known) <= MOST_REASONS + 1 else known[:MOST_REASONS]
    parts = [
        f"{number(each['count'])} {REFUSAL_WORDS.get(each['reason']) or 'by ' + each['reason'].replace('_', ' ')}"
        f"{_for_stream(each, by_reason.get(each['reason'], Counter()))}"
        for each in named
    ]
    count = together.refused
    if (rest := count - sum(each["count"] for each in named)) > 0:
        parts.append(f"{number(rest)} for {'other reasons' if named else 'reasons that were not recorded'}")
    return {
        "level": "warning",
        "what": f"{number(count)} {plural(count, 'connection was', 'connections were')} refused.",
        "advice": f"{listed(parts, most=len(parts))}.",
        "stream": "",
    }


def _for_stream(refusal: Refusal, streams: Counter[str]) -> str:
    """The stream's name, where all of them were for one."""
    only = next(iter(streams), "")
    return f" for {only}" if len(streams) == 1 and streams[only] == refusal["count"] else ""


MINUTES, HALF_HOUR = 5 * MINUTE_MS, 30 * MINUTE_MS
STEADY_PERCENT = 99
"""Of uptime: what was up less is not called steady."""
MAX_FINDINGS = 12
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
    """`text` goes on after the stream's name, without a full stop. `weight`: how long it lasted, ms; of two of a level
    that with the greater weight times audience is first.
    """

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
    """Drops alone: reconnects come after clean stops as well, and would make another number of it."""
    back = f" (mean time to recover {span(1000 * figures.mttr_s)})" if figures.mttr_s else ""
    return f"dropped {times(figures.unplanned_ends)}{back}"


BREAKS = {
    "tcp_reset": "The connection was reset: check that the encoder is running, then its uplink.",
    "idle_timeout": "It timed out with no data: check that the encoder is running, then its uplink.",
    "protocol_error": "Check the encoder's version and settings.",
    "over_limit": "Lower the encoder's bitrate, or raise the limit of its key.",
    "node_lost": "Its node died: check the node's log.",
    "lease_lost": "Its node lost the ownership of the stream: check the database and the node's log.",
}
"""By why most of the sessions ended."""


def _breaks_advice(seen: Seen) -> str:
    known = {reason: count for reason, count in seen.figures.end_reasons.items() if reason in BREAKS}
    reason = max(known, key=lambda each: (known[each], each), default="")
    return BREAKS.get(reason, "See its sessions for how they ended.")


def _below_advice(seen: Seen) -> str:
    """A bitrate that it did carry nearly always, in round figures."""
    carried = seen.figures.video_kbps_p5 or 0
    step = 500 if carried >= 2000 else 100
    kbps = math.floor(carried / step) * step
    if not 300 <= kbps < (seen.target_kbps or math.inf):
        return "Use wired Ethernet, or lower the bitrate."
    return f"Use wired Ethernet, or lower the bitrate to {with_unit(number(kbps), 'kbit/s')}."


def _keyframes_text(figures: Figures) -> str:
    longest = with_unit(short(figures.keyframe_interval_max), "s")
    share = with_unit(percent(figures.keyframe_late_percent), "%")
    return f"had keyframe intervals over 4{_S} ({share} of them, up to {longest})"


LEAST_REPORTS = 20
"""Fewer viewers that told how it played say more of their own networks than of the stream."""


def _waited(figures: Figures) -> Level | None:
    if figures.viewer_reports < LEAST_REPORTS:
        return None
    return _share(lambda of: of.viewer_stalled_percent, bad=5, warning=1)(figures)


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
        text=lambda of: f"was connected but silent for {span(of.starved_ms)}",
        advice=lambda _: "Check that the encoder is running, then its uplink.",
        weight=lambda of: of.starved_ms,
    ),
    Rule(
        level=_down,
        text=lambda of: f"had only {with_unit(percent(of.uptime_percent), '%')} uptime",
        advice=lambda _: "See its sessions for when it was off, then check the encoder and its uplink.",
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
        text=lambda of: f"dropped about {with_unit(percent(of.missing_percent), '%')} of its frames",
        advice=lambda _: "The encoder skips frames: check its CPU, use a faster preset or a lower resolution.",
        weight=lambda of: of.live_ms * (of.missing_percent or 0) / 100,
    ),
    Rule(
        level=_waited,
        text=lambda of: (
            f"had viewers by HLS wait for media for {with_unit(percent(of.viewer_stalled_percent), '%')} of their time"
        ),
        advice=lambda _: "If its health was bad meanwhile, see to its encoder; else check the server's uplink and CPU.",
        weight=lambda of: of.live_ms * (of.viewer_stalled_percent or 0) / 100,
    ),
    Rule(
        level=_lasting(
            lambda of: (of.bad_ms, _of(of.bad_ms, of.measured_ms)), Limits(HALF_HOUR, 20), Limits(MINUTES, 5)
        ),
        text=lambda of: f"was in bad health for {span(of.bad_ms)}",
        advice=lambda _: "See its history for when, and its sessions for what was wrong.",
        weight=lambda of: of.bad_ms,
        alone=True,
    ),
    Rule(
        level=_share(lambda of: _of(of.warning_ms, of.measured_ms), bad=math.inf, warning=20),
        text=lambda of: f"had a warning for {span(of.warning_ms)}",
        advice=lambda _: "See its sessions for which check warned.",
        weight=lambda of: of.warning_ms,
        alone=True,
    ),
)


def _of(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


def audience(figures: Figures) -> float:
    """Average players while it was live; at least one, as what is watched elsewhere counts, too."""
    return max(1.0, figures.average_players or 0)


def evaluate(seen: Seen) -> list[Found]:
    found: list[Found] = []
    for rule in RULES:
        level = rule.level(seen.figures)
        if level is not None and not (rule.alone and found):
            weight = rule.weight(seen.figures) * audience(seen.figures)
            found.append(Found(seen.path, level, rule.text(seen.figures), rule.advice(seen), weight))
    return found


def findings(found: list[Found], together: Figures, streams: dict[str, Figures]) -> list[Finding]:
    """Worst first, then what was refused."""
    ordered = sorted(found, key=lambda each: (RANK[each.level], -each.weight, each.stream))
    shown = [each.finding() for each in ordered[:MAX_FINDINGS]]
    refused = refusals_finding(together, streams)
    if refused is not None:
        shown.append(refused)
    if not shown and together.elapsed_ms:
        shown.append({"level": "good", "what": "Nothing went wrong.", "advice": "", "stream": ""})
    return shown
