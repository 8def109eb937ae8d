"""The table of checks of a stream: what is measured, from where on it is wrong, and what is said of it.

Causes come before what they may cause. What has its cause told by another row is not measured here: see
`ingest.live.publication`, which gives the figures.
"""

from collections.abc import Callable
from math import inf
from operator import attrgetter, ge, lt
from typing import Final

from ingest.live.health import measures
from ingest.live.health.engine import NBSP, Check, Passed, at_least, at_most, kbps, percent, span, times, whole
from ingest.live.health.measures import LACKING_S, TOLERANCE, Figures

# --- Words ---


def _gop_is_open(figures: Figures) -> bool:
    """Whether the group of pictures under way is already longer than the last whole one."""
    age = figures.open_gop_s or 0.0
    return not figures.keyframe_intervals or age > figures.keyframe_intervals[-1]


def _gop(figures: Figures, passed: Passed) -> str:
    if _gop_is_open(figures):
        return span(figures.open_gop_s or 0.0)
    return f"{figures.keyframe_intervals[-1]:.1f}{NBSP}s"


def _gop_title(figures: Figures, passed: Passed) -> str:
    if _gop_is_open(figures):
        return _silence_title("No keyframe", figures.open_gop_s or 0.0, passed)
    return f"A keyframe every {_gop(figures, passed)}{at_most(figures.keyframe_intervals[-1], passed.limit, 's', 1)}."


def _silence_title(subject: str, silent_s: float, passed: Passed) -> str:
    return f"{subject} has arrived for {span(silent_s)}{at_most(int(silent_s), passed.limit, 's')}."


def _of_target(figures: Figures, sent: float | None, passed: Passed) -> str:
    target = figures.target
    of = f" of the {whole(target.kbps)} {target.source}" if target is not None else ""
    return f"Bitrate {kbps(sent)}, {percent(passed.value)}{of}, for {span(passed.lasted_s)}."


def _target_kbps(figures: Figures) -> float:
    return figures.target.kbps if figures.target is not None else 0.0


def _high_actual(figures: Figures, passed: Passed) -> str:
    sent = figures.sent_kbps if passed.level == "bad" else measures.high_kbps(figures)
    return f"{kbps(sent)} ({percent(passed.value)})"


def _high_title(figures: Figures, passed: Passed) -> str:
    if passed.level == "bad":
        sent = f"The encoder sends {kbps(figures.sent_kbps)}, {whole(figures.max_kbps or 0)} at most by its key"
        return f"{sent}, for {span(passed.lasted_s)}."
    return _of_target(figures, measures.high_kbps(figures), passed)


def _fps_advice(figures: Figures, passed: Passed) -> str:
    if figures.frames_are_late:
        return "Frames come late, though none is left out: use a faster preset, or lower the bitrate."
    return "The encoder is overloaded: use a faster preset or a smaller picture."


def _slow(figures: Figures) -> str:
    return f"{figures.losing_players} of {figures.players} player{'' if figures.players == 1 else 's'}"


def _slow_title(figures: Figures, passed: Passed) -> str:
    lost = figures.dropped_frames
    dropped = f" {whole(lost)} frames dropped for slow players in the last minute." if lost else ""
    return f"{_slow(figures)} can't keep up and lose{'s' if figures.losing_players == 1 else ''} picture.{dropped}"


def _missing(kind: str, without_s: Callable[[Figures], float], expects: Callable[[Figures], bool]) -> Check[Figures]:
    return Check(
        code=f"no_{kind}",
        warning=5,
        bad=30,
        unit="s",
        measure=lambda figures: without_s(figures) if expects(figures) else None,
        actual=lambda figures, passed: span(without_s(figures)),
        title=lambda figures, passed: _silence_title(f"No {kind}", without_s(figures), passed),
        advice=f"Check the encoder's {kind} source, or say in the stream's settings that it has none.",
    )


CHECKS: Final[tuple[Check[Figures], ...]] = (
    Check(
        code="starving",
        warning=2,
        bad=5,
        unit="s",
        in_silence=True,
        measure=attrgetter("idle_s"),
        actual=lambda figures, passed: span(figures.idle_s),
        title=lambda figures, passed: _silence_title("Nothing", figures.idle_s, passed),
        advice="Check that the encoder is running, then its uplink.",
    ),
    Check(
        code="bitrate_low",
        warning=70,
        bad=40,
        hold_s=10,
        unit="%",
        passes=lt,
        measure=measures.low_share,
        actual=lambda figures, passed: f"{kbps(figures.video_kbps)} ({percent(passed.value)})",
        expected=lambda figures, passed: f"{kbps(_target_kbps(figures))}, {passed.limit:g}{NBSP}% of it at least",
        title=lambda figures, passed: _of_target(figures, figures.video_kbps, passed),
        advice="The uplink can't carry this rate: lower it, or use a cable.",
    ),
    Check(
        code="bitrate_high",
        warning=130,
        bad=100 * (1 + TOLERANCE),
        hold_s=10,
        unit="%",
        in_silence=True,
        measure=measures.high_share,
        measure_bad=measures.limit_share,
        actual=_high_actual,
        expected=lambda figures, passed: (
            f"{kbps(figures.max_kbps)} at most"
            if passed.level == "bad"
            else f"{kbps(_target_kbps(figures))}, {passed.limit:g}{NBSP}% of it at most"
        ),
        title=_high_title,
        advice=lambda figures, passed: (
            "Lower the encoder's bitrate, or raise the limit of its stream key."
            if passed.level == "bad"
            else "Set the encoder to a constant bitrate (CBR)."
        ),
    ),
    Check(
        code="bitrate_unstable",
        warning=25,
        bad=50,
        hold_s=30,
        unit="%",
        measure=attrgetter("unevenness"),
        actual=lambda figures, passed: f"varies by {percent(passed.value)}",
        title=lambda figures, passed: (
            f"Bitrate and frames come unevenly: they vary by {percent(passed.value)} within a minute"
            f"{at_most(passed.value, passed.limit, '%')}, for {span(passed.lasted_s)}."
        ),
        advice="The network is congested, or the encoder overloaded: use a cable, a lower bitrate, a faster preset.",
    ),
    Check(
        code="no_keyframes",
        warning=LACKING_S,
        unit="s",
        passes=ge,
        measure=measures.without_keyframes_s,
        actual=lambda figures, passed: f"none for {span(figures.open_gop_s or 0.0)}",
        expected=lambda figures, passed: f"one in {passed.limit:g}{NBSP}s at least",
        title=lambda figures, passed: (
            f"No frame has been marked as a keyframe for {span(figures.open_gop_s or 0.0)}: "
            "players that come late begin with a broken picture."
        ),
        advice=(
            f"Turn the encoder's intra refresh off, and set its keyframe interval to 2{NBSP}s. "
            f"Who comes late waits {LACKING_S:g}{NBSP}s at most, and what is recorded can't be sought in."
        ),
    ),
    Check(
        code="gop_long",
        warning=4,
        bad=10,
        unit="s",
        measure=measures.long_gops,  # Which has it hold for two groups of pictures.
        relapse=measures.any_long_gop,
        actual=_gop,
        title=_gop_title,
        advice=f"Set the keyframe interval to 2{NBSP}s; players wait this long to start.",
    ),
    Check(
        code="gop_short",
        warning=0.5,
        bad=-inf,
        unit="s",
        passes=lt,
        measure=measures.short_gops,  # The same for five.
        relapse=measures.most_gops,
        actual=lambda figures, passed: f"{passed.value:.2f}{NBSP}s",
        title=lambda figures, passed: (
            f"A keyframe every {passed.value:.2f}{NBSP}s{at_least(passed.value, passed.limit, 's', 2)}."
        ),
        advice=f"Set the keyframe interval to 2{NBSP}s; so many keyframes waste bitrate.",
    ),
    Check(
        code="fps_low",
        warning=90,
        bad=60,
        hold_s=10,
        unit="%",
        passes=lt,
        measure=measures.fps_share,
        actual=lambda figures, passed: f"{figures.fps or 0:.1f} frames a second ({percent(passed.value)})",
        expected=lambda figures, passed: (
            f"{figures.nominal_fps or 0:g} frames a second, {passed.limit:g}{NBSP}% of them at least"
        ),
        title=lambda figures, passed: (
            f"{figures.fps or 0:.1f} frames a second, {percent(passed.value)} of the {figures.nominal_fps or 0:.4g} "
            f"expected, for {span(passed.lasted_s)}."
        ),
        advice=_fps_advice,
    ),
    Check(
        code="drift",
        warning=500,
        bad=1000,
        hold_s=10,
        unit="ms",
        measure=attrgetter("drift_dev_ms"),
        actual=lambda figures, passed: f"{whole(passed.value)}{NBSP}ms",
        title=lambda figures, passed: (
            f"Media is {whole(passed.value)}{NBSP}ms behind its mean of a minute"
            f"{at_most(passed.value, passed.limit, 'ms')}."
        ),
        advice="Media falls behind real time: the uplink or the encoder is too slow for this bitrate; lower it.",
    ),
    Check(
        code="faster_than_realtime",
        warning=1.05,
        hold_s=30,
        unit="×",
        measure=attrgetter("pace"),
        actual=lambda figures, passed: f"{passed.value:.2f}{NBSP}s of media a second",
        title=lambda figures, passed: (
            f"{passed.value:.2f}{NBSP}s of media come a second{at_most(passed.value, passed.limit, 's', 2)}, "
            f"for {span(passed.lasted_s)}."
        ),
        advice="A file is sent unpaced: have it sent in real time, as FFmpeg does by -re.",
    ),
    _missing("audio", lambda figures: figures.without_audio_s, lambda figures: figures.expects_audio),
    _missing("video", lambda figures: figures.without_video_s, lambda figures: figures.expects_video),
    Check(
        code="av_skew",
        warning=300,
        bad=1000,
        hold_s=10,
        unit="ms",
        measure=measures.skew_ms,
        actual=lambda figures, passed: f"{whole(passed.value)}{NBSP}ms",
        title=lambda figures, passed: (
            f"{'Video is ahead of audio' if (figures.av_skew_ms or 0) > 0 else 'Audio is ahead of video'} by "
            f"{whole(passed.value)}{NBSP}ms{at_most(passed.value, passed.limit, 'ms')}."
        ),
        advice="Check the encoder's audio delay, and that both sources are of one device.",
    ),
    Check(
        code="ts_discontinuity",
        warning=1,
        bad=10,
        unit="a minute",
        passes=ge,
        measure=attrgetter("discontinuities"),
        actual=lambda figures, passed: f"{times(figures.discontinuities)} in the last minute",
        expected=lambda figures, passed: "never" if passed.limit <= 1 else f"less than {passed.limit:g} times a minute",
        title=lambda figures, passed: f"Timestamps jumped {times(figures.discontinuities)} in the last minute.",
        advice="The encoder leaves frames out or sets its clock: check its load and its sources; players may stutter.",
    ),
    Check(
        code="rtt_high",
        warning=200,
        hold_s=30,
        unit="ms",
        in_silence=True,
        measure=attrgetter("rtt_ms"),
        actual=lambda figures, passed: f"{whole(passed.value)}{NBSP}ms",
        title=lambda figures, passed: (
            f"The round trip to the encoder takes {whole(passed.value)}{NBSP}ms"
            f"{at_most(passed.value, passed.limit, 'ms')}, for {span(passed.lasted_s)}."
        ),
        advice="The way to the encoder is long or congested: use a nearer server, or a cable.",
    ),
    Check(
        code="flapping",
        warning=3,
        bad=6,
        unit="in 10 min",
        passes=ge,
        in_silence=True,
        warms_up=False,
        measure=attrgetter("publishes"),
        actual=lambda figures, passed: f"{times(figures.publishes)} in 10{NBSP}min",
        expected=lambda figures, passed: f"less than {passed.limit:g} times",
        title=lambda figures, passed: (
            f"Publishing began {times(figures.publishes)} in 10{NBSP}min, less than {passed.limit:g} are usual."
        ),
        advice="The encoder loses its connection or is restarted: see in the sessions how they ended, then its uplink.",
    ),
    Check(
        code="recording_failed",
        warning=0,
        bad=30,
        unit="s",
        passes=ge,
        in_silence=True,
        warms_up=False,
        measure=attrgetter("recording_failed_s"),
        actual=lambda figures, passed: f"not recorded for {span(passed.value)}",
        expected=lambda figures, passed: "recorded",
        title=lambda figures, passed: f"The stream is not recorded. {figures.recording_failure}".rstrip(),
        advice="It is live all the same. Free space where RTMPWEB_RECORDINGS is, and check that it can be written.",
    ),
    Check(
        code="slow_players",
        warning=0,
        unit="%",
        in_silence=True,
        measure=measures.losing_share,
        actual=lambda figures, passed: f"{_slow(figures)} ({passed.value:.3g}{NBSP}%)",
        expected=lambda figures, passed: f"at most {passed.limit:g}{NBSP}%" if passed.limit else "none",
        title=_slow_title,
        advice=(
            "One alone: its own network or machine is too slow. Many: this server's uplink is full, or the bitrate too "
            "high for their networks; lower it."
        ),
    ),
)
