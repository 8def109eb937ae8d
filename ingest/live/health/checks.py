"""The table of checks of a stream: what is measured, from where on it is wrong, and what is said of it.

Causes come before what they may cause; which check opens nothing while which is open is in `STANDS_STILL`.
"""

from collections.abc import Callable, Mapping
from math import inf
from operator import attrgetter, ge, lt
from typing import Final

from ingest.live.health import measures
from ingest.live.health.engine import NBSP, Check, Passed, kbps, lasting, over, percent, span, times, under, whole
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
    return f"Keyframe interval {_gop(figures, passed)}{over(figures.keyframe_intervals[-1], passed.limit, 's', 1)}."


def _silence_title(subject: str, silent_s: float, passed: Passed) -> str:
    return f"{subject} received for {span(silent_s)}{over(int(silent_s), passed.limit, 's')}."


def _of_target(figures: Figures, sent: float | None, passed: Passed) -> str:
    target = figures.target
    of = f" of the {whole(target.kbps)} {target.source}" if target is not None else ""
    return f"Bitrate {kbps(sent)}, {percent(passed.value)}{of}{lasting(passed.lasted_s)}."


def _low_title(figures: Figures, passed: Passed) -> str:
    """Of now: while media catch up, the bitrate is as it should be, or higher."""
    sent, target = measures.low_kbps(figures), figures.target
    if target is None:
        return f"Bitrate {kbps(sent)}."
    share = 100 * sent / target.kbps
    held = lasting(passed.lasted_s) if share < passed.limit else ""
    return f"Bitrate {kbps(sent)}, {percent(share)} of the {whole(target.kbps)} {target.source}{held}."


def _of(sent: float, figures: Figures) -> str:
    target = _target_kbps(figures)
    return f"{kbps(sent)} ({percent(100 * sent / target)})" if target else kbps(sent)


def _target_kbps(figures: Figures) -> float:
    return figures.target.kbps if figures.target is not None else 0.0


def _low_advice(figures: Figures, passed: Passed) -> str:
    """Late media are the network's; of what comes in time the encoder made less."""
    if figures.is_late:
        return "The uplink can't carry this bitrate: lower the bitrate, or use wired Ethernet."
    share = figures.fps_share
    if share is not None and share < measures.FULL_PERCENT:
        return (
            "The encoder drops frames, as the uplink can't carry this bitrate or its machine is overloaded: lower the "
            "bitrate, or use wired Ethernet; see its dropped and skipped frames."
        )
    return (
        "Frames arrive in time: the encoder has lowered its bitrate, or the picture is still. If the uplink can't "
        "carry more, lower the bitrate, or use wired Ethernet."
    )


def _high_actual(figures: Figures, passed: Passed) -> str:
    sent = figures.sent_kbps if passed.level == "bad" else measures.high_kbps(figures)
    return f"{kbps(sent)} ({percent(passed.value)})"


def _high_title(figures: Figures, passed: Passed) -> str:
    if passed.level == "bad":
        limit = f"(its key's limit {kbps(figures.max_kbps)})"
        return f"The encoder sends {kbps(figures.sent_kbps)} {limit} for {span(passed.lasted_s)}."
    return _of_target(figures, measures.high_kbps(figures), passed)


def _fps_advice(figures: Figures, passed: Passed) -> str:
    if figures.frames_are_late:
        return "Frames arrive late, none is dropped: use a faster preset, or lower the bitrate."
    return "The encoder is overloaded and drops frames: use a faster preset, or lower the resolution."


def _behind(figures: Figures) -> str:
    """62 s behind live"""
    behind_s = figures.behind_s or 0.0
    shown = f"{behind_s:.1f}{NBSP}s" if behind_s < 10 else span(behind_s)
    return f"{shown} behind live"


def _behind_sentence(figures: Figures) -> str:
    later_s = figures.later_s
    how = " and growing" if later_s > MOVES_S else ", catching up" if later_s < -MOVES_S else ""
    return f"{_behind(figures)}{how}."


def _behind_too(figures: Figures) -> str:
    """Where a bitrate that is too low has made media late."""
    return _behind_sentence(figures) if (figures.behind_s or 0.0) >= 1 else ""


MOVES_S: Final = 0.06
"""In 3 s: a delay that grows or shrinks does so by more."""


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
        actual=lambda figures, passed: f"none for {span(without_s(figures))}",
        title=lambda figures, passed: _silence_title(f"No {kind}", without_s(figures), passed),
        advice=f"Check the encoder's {kind} source. If it has none, turn Expect {kind} off in the stream's settings.",
    )


CHECKS: Final[tuple[Check[Figures], ...]] = (
    Check(
        code="starving",
        warning=2,
        bad=5,
        unit="s",
        in_silence=True,
        measure=attrgetter("idle_s"),
        actual=lambda figures, passed: f"nothing for {span(figures.idle_s)}",
        title=lambda figures, passed: _silence_title("Nothing", figures.idle_s, passed),
        advice="Check that the encoder is running, then its uplink.",
    ),
    Check(
        code="frozen_picture",
        warning=10,
        bad=60,
        unit="s",
        is_off=True,
        measure=measures.frozen_s,
        actual=lambda figures, passed: f"unchanged for {span(passed.value)}",
        title=lambda figures, passed: (
            f"Picture frozen for {span(passed.value)}{over(passed.value, passed.limit, 's')}."
        ),
        advice="Check the camera, its cable and the encoder's scene. If the picture may be still, turn this check off.",
    ),
    Check(
        code="bitrate_low",
        warning=70,
        bad=40,
        hold_s=10,
        unit="%",
        passes=lt,
        measure=measures.low_share,
        at_once=measures.collapses,
        actual=lambda figures, passed: _of(measures.low_kbps(figures), figures),
        expected=lambda figures, passed: f"at least {passed.limit:g}{NBSP}% of {kbps(_target_kbps(figures))}",
        relapse=measures.still_late,
        explains=measures.explains_more,
        is_current=True,
        title=_low_title,
        beside=_behind_too,
        advice=_low_advice,
    ),
    Check(
        code="drift",
        warning=500,
        bad=1000,
        hold_s=10,
        unit="ms",
        measure=attrgetter("drift_dev_ms"),
        relapse=measures.fallen_behind_ms,
        at_once=measures.collapses,
        is_current=True,
        actual=lambda figures, passed: _behind(figures),
        expected=lambda figures, passed: f"steady, within {passed.limit:,g}{NBSP}ms of its mean of a minute",
        title=lambda figures, passed: _behind_sentence(figures),
        advice=(
            "The uplink or the encoder is too slow for this bitrate: lower the bitrate. "
            "If it doesn't catch up, restart the encoder's stream."
        ),
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
            f"at most {kbps(figures.max_kbps)}"
            if passed.level == "bad"
            else f"at most {passed.limit:g}{NBSP}% of {kbps(_target_kbps(figures))}"
        ),
        title=_high_title,
        advice=lambda figures, passed: (
            "Lower the encoder's bitrate, or raise the limit of its stream key."
            if passed.level == "bad"
            else "Set the encoder to a constant bitrate (CBR)."
        ),
    ),
    Check(
        code="no_keyframes",
        warning=LACKING_S,
        unit="s",
        passes=ge,
        measure=measures.without_keyframes_s,
        actual=lambda figures, passed: f"none for {span(figures.open_gop_s or 0.0)}",
        expected=lambda figures, passed: f"one in {passed.limit:g}{NBSP}s",
        title=lambda figures, passed: (
            f"No keyframe received for {span(figures.open_gop_s or 0.0)}: who joins now sees a broken picture."
        ),
        advice=(
            f"Turn the encoder's intra refresh off, and set its keyframe interval to 2{NBSP}s. "
            f"Players that join wait up to {LACKING_S:g}{NBSP}s; recordings can't be sought in."
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
        advice=f"Set the encoder's keyframe interval to 2{NBSP}s; players wait this long to start.",
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
            f"Keyframe interval {passed.value:.2f}{NBSP}s{under(passed.value, passed.limit, 's', 2)}."
        ),
        advice=f"Set the encoder's keyframe interval to 2{NBSP}s; so many keyframes waste bitrate.",
    ),
    Check(
        code="fps_low",
        warning=90,
        bad=60,
        hold_s=10,
        unit="%",
        passes=lt,
        measure=measures.fps_share,
        actual=lambda figures, passed: f"{figures.fps or 0:.1f} fps ({percent(figures.fps_share)})",
        expected=lambda figures, passed: f"at least {passed.limit:g}{NBSP}% of {figures.nominal_fps or 0:.4g} fps",
        title=lambda figures, passed: (
            f"Frame rate {figures.fps or 0:.1f} fps, {percent(passed.value)} of {figures.nominal_fps or 0:.4g}"
            f"{lasting(passed.lasted_s)}."
        ),
        advice=_fps_advice,
    ),
    Check(
        code="ts_discontinuity",
        warning=1,
        bad=10,
        hold_s=5,
        unit="a minute",
        passes=ge,
        measure=attrgetter("discontinuities"),
        actual=lambda figures, passed: f"{times(figures.discontinuities)} in the last minute",
        expected=lambda figures, passed: (
            "never" if passed.limit <= 1 else f"fewer than {passed.limit:g} times a minute"
        ),
        title=lambda figures, passed: f"Timestamps jumped {times(figures.discontinuities)} in the last minute.",
        advice="The encoder skips frames or its clock jumps: check its load and its sources. Players may stutter.",
    ),
    Check(
        code="bitrate_unstable",
        warning=25,
        bad=50,
        hold_s=30,
        unit="%",
        measure=attrgetter("unevenness"),
        actual=lambda figures, passed: f"vary by {percent(passed.value)}",
        title=lambda figures, passed: (
            f"Unstable bitrate and frame rate: they vary by {percent(passed.value)} within a minute"
            f"{over(passed.value, passed.limit, '%')}, for {span(passed.lasted_s)}."
        ),
        advice=(
            "The network is congested, or the encoder overloaded: lower the bitrate, use wired Ethernet, or use a "
            "faster preset."
        ),
    ),
    Check(
        code="faster_than_realtime",
        warning=measures.FASTEST,
        hold_s=30,
        unit="x",
        measure=measures.unpaced,
        actual=lambda figures, passed: f"{passed.value:.2f}x real time",
        title=lambda figures, passed: (
            f"Sending {passed.value:.2f}x faster than real time for {span(passed.lasted_s)}"
            f"{over(passed.value, passed.limit, 'x', 2)}."
        ),
        advice="A file is sent unpaced: send it in real time (FFmpeg: -re before -i).",
    ),
    _missing("audio", lambda figures: figures.without_audio_s, lambda figures: figures.expects_audio),
    _missing("video", lambda figures: figures.without_video_s, lambda figures: figures.expects_video),
    Check(
        code="silent_audio",
        warning=10,
        bad=60,
        unit="s",
        is_off=True,
        measure=measures.silence_s,
        actual=lambda figures, passed: f"silent for {span(passed.value)}",
        title=lambda figures, passed: f"Audio silent for {span(passed.value)}{over(passed.value, passed.limit, 's')}.",
        advice="Check the microphone, the mixer and the encoder's mute. If there may be silence, turn this check off.",
    ),
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
            f"{whole(passed.value)}{NBSP}ms{over(passed.value, passed.limit, 'ms')}."
        ),
        advice="Check the encoder's audio delay (sync offset), and take sound and picture from one device.",
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
            f"RTT to the encoder {whole(passed.value)}{NBSP}ms{over(passed.value, passed.limit, 'ms')} "
            f"for {span(passed.lasted_s)}."
        ),
        advice="The network to the encoder is long or congested: use a nearer server, or wired Ethernet.",
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
        expected=lambda figures, passed: f"fewer than {passed.limit:g} times",
        title=lambda figures, passed: f"Reconnected {times(figures.publishes)} in 10{NBSP}min.",
        advice="The encoder loses its connection or is restarted: see how its sessions ended, then check its uplink.",
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

STANDS_STILL: Final[Mapping[str, tuple[str, ...]]] = {
    "bitrate_low": ("frozen_picture", "drift"),
    "no_keyframes": ("bitrate_low", "drift"),
    "gop_long": ("bitrate_low", "drift", "ts_discontinuity"),
    "fps_low": ("bitrate_low", "drift"),
    "ts_discontinuity": ("bitrate_low", "fps_low", "drift"),
    "drift": ("bitrate_low",),
    "bitrate_unstable": ("frozen_picture", "bitrate_low", "fps_low", "ts_discontinuity", "drift"),
    "faster_than_realtime": ("ts_discontinuity",),
    "silent_audio": ("no_audio",),
    "av_skew": ("bitrate_low", "ts_discontinuity", "drift", "no_audio", "no_video"),
    "rtt_high": ("bitrate_low", "drift", "bitrate_unstable"),
}
"""One cause opens one issue: by check, those that tell the cause of it. While one of them is open, and from the moment
that its limit is passed if it comes before in the table, the check opens nothing. What is open already stays. One that
is open and has been within its limit for a minute is the cause of nothing new, nor is a low bitrate in time.

Two that may each come first, as a bitrate that is too low and media that fall behind, name each other. In silence all
stand still anyway (`in_silence`), and a track that is missing has no figures (`ingest.live.health.measures`)."""
