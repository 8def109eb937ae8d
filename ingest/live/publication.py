"""One publisher's session on a live stream: what is measured of it, how it is evaluated, what it says of itself.

Once a second `Evaluation` gathers the figures that the checks look at, some of them over minutes. What is measured over
time begins anew where a silence or a pause has ended: that was told by `starving`, and what it did to bitrate, frames
and timestamps is no trouble of its own. So it is with what another check tells. `LiveSettings`: how streams are kept
and evaluated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from ingest import clean
from ingest.contracts import Health, HealthRule, MediaInfo, Sample
from ingest.live.counters import Audience, Evenness, Median, Rate, Total
from ingest.live.description import claimed, sanitise
from ingest.live.health import CHECKS, STANDS_STILL, WARM_UP_S, Check, Figures, HealthEngine, with_rules
from ingest.live.health.measures import FULL_PERCENT, MISSING_S, BitrateLimit, LimitSettings, choose_target
from ingest.live.meter import Meter
from ingest.live.player_queue import QueueLimits
from ingest.live.stream_log import LogLimits


@dataclass(frozen=True, slots=True)
class LiveSettings:
    log: LogLimits = field(default_factory=LogLimits)
    """What is kept of each stream for its late players,"""
    caches_bytes: int = 512 * 1024 * 1024
    """and of all streams of a node together."""
    queue: QueueLimits = field(default_factory=QueueLimits)
    absence_s: float = 60.0
    """How long a stream without publisher and players is kept, and the longest gap put into the players' timeline."""
    checks: tuple[Check[Figures], ...] = CHECKS
    warm_up_s: float = WARM_UP_S
    """For so long a new session's health is not evaluated."""
    limit: LimitSettings = field(default_factory=LimitSettings)


STARVING: Final = "starving"
BITRATE_LOW: Final = "bitrate_low"
LATE: Final = (BITRATE_LOW, "drift")
"""They tell that media fall behind."""
STILLNESS: Final = ("frozen_picture", "silent_audio")
UNSTABLE: Final = "bitrate_unstable"
SILENT_S: Final = 2.0

SETTLED_S: Final = 6
"""After a silence: means of 5 s hold nothing of it, and not what came in a heap at its end."""
SPREAD_SECONDS: Final = 60
FEWEST_SPREAD: Final = 30
LONG_SECONDS: Final = 300
"""A claim may be a mean itself, which an encoder keeps over minutes only."""
USUAL_S: Final = 300
FEWEST_USUAL_S: Final = 60
USUAL_EACH_S: Final = 5
PUBLISHES_S: Final = 600


class Evaluation:
    def __init__(self, meter: Meter, settings: LiveSettings) -> None:
        publisher, now = meter.publisher, meter.started
        self._publisher = publisher
        self._meter = meter
        self.figures = meter.figures
        self._table = settings.checks
        self._begins = now + settings.warm_up_s
        self._began = (publisher.started, *publisher.limits.get("publishes", ()))
        self.limit = BitrateLimit(publisher.limits, settings.limit)
        self.health = HealthEngine[Figures](now, (), warm_up_s=settings.warm_up_s, causes=STANDS_STILL)
        self._long = Rate(LONG_SECONDS)
        self._chosen_by: tuple[float | None, float | None] = (None, None)
        """What the target was chosen by: what is claimed, and what is usual."""
        self.figures.target = choose_target(publisher.limits["target_kbps"], *self._chosen_by)
        self._usual = Median(USUAL_S // USUAL_EACH_S, USUAL_EACH_S, FEWEST_USUAL_S // USUAL_EACH_S)
        self._evenness = Evenness(SPREAD_SECONDS, FEWEST_SPREAD)
        """Of bitrate and frames. A variable bitrate changes with its pictures, while frames come evenly: that is no
        trouble. On a congested network both vary.
        """
        self._discontinuities = Total(SPREAD_SECONDS)
        self._jumps: tuple[int, ...] = (0, 0)
        """Of video and audio, since the session began."""
        self._settled_s = 0
        """Ticks since media flow as they should."""
        self._unrecorded_since: float | None = None
        self._was_broken = False
        self.checking_s = ceil(settings.warm_up_s) or None
        """Seconds until all is judged; None: it is."""
        self.set_rules(publisher.limits.get("health", {}))

    def set_rules(self, rules: Mapping[str, HealthRule]) -> None:
        checks = with_rules(self._table, rules)
        self.health.set_rules(checks)
        self._meter.watch_stillness(any(check.code in STILLNESS for check in checks))
        rule = rules.get(STARVING)
        own = rule["warning"] if rule is not None else None
        self._silent_s = SILENT_S if own is None else own

    def evaluate(self, now: float, wall: float, claimed_kbps: float | None) -> None:
        """Once a second, when the meter has measured. `claimed_kbps`: of the video, by the metadata."""
        publisher, figures = self._publisher, self.figures
        figures.publishes = sum(at > wall - PUBLISHES_S for at in self._began)
        if publisher.recording is not None:
            figures.recording_failure = publisher.recording()
            if not figures.recording_failure:
                self._unrecorded_since = None
            elif self._unrecorded_since is None:
                self._unrecorded_since = now
            since = self._unrecorded_since
            figures.recording_failed_s = None if since is None else now - since
        flows = not self._meter.is_paused and figures.idle_s <= self._silent_s
        self._watch(figures, now, flows)
        by = (claimed_kbps, self._usual.value)
        if by != self._chosen_by:
            self._chosen_by = by
            figures.target = choose_target(publisher.limits["target_kbps"], *by)
        self.health.update(figures, now, wall, flows=flows)
        if self.checking_s is not None:
            self.checking_s = ceil(self.health.checking_s(now)) or None
        elif self.health.is_at_rest or not any(self.health.is_over(code) for code in LATE):
            figures.steady_s = figures.behind_s or 0.0

    def _watch(self, figures: Figures, now: float, flows: bool) -> None:
        meter = self._meter
        growth = meter.growth
        self.limit.add(growth.wire_bytes, growth.elapsed_ms, now)
        figures.sent_kbps = self.limit.kbps
        self._long.add(growth.video_bytes, growth.elapsed_ms)
        if self._long.is_full:
            figures.long_kbps = self._long.kbps
        is_broken = (figures.without_audio_s > MISSING_S and meter.audio_line.frames > 0) or (
            figures.without_video_s > MISSING_S and meter.video_line.frames > 0
        )
        counts = flows and self._settled_s > 0 and (is_broken or not self._was_broken) and now >= self._begins
        jumps = self._count_jumps() if growth.ts_gap or growth.ts_regress else 0
        self._discontinuities.add(jumps if counts else 0)
        figures.discontinuities = self._discontinuities.sum
        figures.unevenness = None
        self._was_broken = is_broken
        if not flows:
            meter.begin_anew()
        if self.health.issues and self.health.stands_still(UNSTABLE):
            self._evenness.clear()
        if not flows or is_broken or self.health.explains(BITRATE_LOW):
            self._settled_s = 0
            self._evenness.clear()
            return
        self._settled_s += 1
        if self._settled_s <= SETTLED_S or not figures.video_kbps or figures.fps is None:
            return
        variation = self._evenness.add(figures.video_kbps, figures.fps)
        figures.unevenness = None if variation is None else 100 * variation
        share = figures.fps_share
        if share is not None and share >= FULL_PERCENT:
            self._usual.add(figures.video_kbps)

    def _count_jumps(self) -> int:
        """Of the second's: a clock that is set shows in both tracks, and counts once."""
        lines = self._meter.video_line, self._meter.audio_line
        former, self._jumps = self._jumps, tuple(line.gaps + line.regressions for line in lines)
        return max(now - before for now, before in zip(self._jumps, former, strict=True))


MOST_FPS, MOST_KBPS = 1000, 1_000_000
"""What metadata may claim and be believed."""


class Publication:
    """From the publisher's start to its stop; `meter` is the media path's."""

    def __init__(self, meter: Meter, settings: LiveSettings) -> None:
        publisher = self.publisher = meter.publisher
        self.meter = meter
        self.encoder = publisher.encoder
        self.metadata: dict[str, Any] = {}
        """onMetaData as the publisher claims it, safe as JSON. Replaced as a whole, never changed in place."""
        self.evaluation = Evaluation(meter, settings)
        self._target_kbps = publisher.limits["target_kbps"]
        self.target_kbps: int | None = None
        """Of the video: what the stream's settings say, else what the metadata claims."""
        self._believe()

    # --- What it says of itself ---

    def claim(self, metadata: Any) -> None:
        self.metadata = sanitise(metadata)
        self.encoder = clean.encoder_name(self.encoder, self.metadata)
        self.meter.call(self.encoder)
        self._believe()

    def withdraw(self) -> None:
        self.metadata = {}
        self._believe()

    def _believe(self) -> None:
        self._claimed_fps = claimed(self.metadata, "framerate", most=MOST_FPS)
        self._claimed_kbps = claimed(self.metadata, "videodatarate", most=MOST_KBPS)
        target = self._target_kbps or self._claimed_kbps
        self.target_kbps = round(target) if target else None

    def notify(self, media: MediaInfo) -> None:
        """The metadata are others, or what is known of its media."""
        if self.publisher.on_description is not None:
            self.publisher.on_description(self.metadata, media)

    # --- How it is ---

    @property
    def is_live(self) -> bool:
        return self.meter.has_media and not self.meter.is_paused

    @property
    def shown_health(self) -> Health:
        """None while it is not judged yet, unless an issue is open that needs no warm-up."""
        evaluation = self.evaluation
        return "none" if evaluation.checking_s and not evaluation.health.issues else self.health

    @property
    def health(self) -> Health:
        """The worst open issue; none while there is nothing to evaluate."""
        health = self.evaluation.health
        return health.worst if self.meter.last_media is not None or health.issues else "none"

    # --- Once a second ---

    def tick(self, now: float, wall: float, audience: Audience) -> Sample:
        meter = self.meter
        meter.set_wall(now, wall)
        meter.measure(now, audience, self._claimed_fps)
        self.evaluation.evaluate(now, wall, self._claimed_kbps)
        return meter.sample(now, health=self.health, target_kbps=self.target_kbps)

    def last(self, now: float, audience: Audience) -> Sample:
        """Of the time since the last tick, as the session ends. It is not evaluated any more."""
        self.meter.measure(now, audience, self._claimed_fps)
        return self.meter.sample(now, health=self.health, target_kbps=self.target_kbps)
