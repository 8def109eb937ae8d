"""Judges one publishing session, once a second: gathers the figures that the checks look at, some over minutes.

What is measured over time begins anew where a silence or a pause has ended: that was told by `starving`, and what it
did to bitrate, frames and timestamps is no trouble of its own. So it is with a bitrate that was too low.
"""

from collections.abc import Mapping
from typing import Final

from ingest.contracts import HealthRule
from ingest.live.health import Figures, HealthEngine, ruled
from ingest.live.health.figures import FULL_PERCENT
from ingest.live.health.measures import MISSING_S
from ingest.live.health.target import choose
from ingest.live.limit import BitrateLimit
from ingest.live.meter import Meter
from ingest.live.publisher import Publisher
from ingest.live.settings import LiveSettings
from ingest.live.windows import Evenness, Median, Rate, Total

STARVING: Final = "starving"
BITRATE_LOW: Final = "bitrate_low"
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


class Judging:
    """Of one publishing session."""

    def __init__(self, publisher: Publisher, meter: Meter, settings: LiveSettings, now: float) -> None:
        self._publisher = publisher
        self._meter = meter
        self.figures = meter.figures
        self._table = settings.checks
        self._begins = now + settings.warm_up_s
        self._began = (publisher.started, *publisher.limits.get("publishes", ()))
        self.limit = BitrateLimit(publisher.limits, settings.limit)
        self.health = HealthEngine[Figures](now, (), warm_up_s=settings.warm_up_s)
        self._long = Rate(LONG_SECONDS)
        self._chosen_by: tuple[float | None, float | None] = (None, None)
        """What the target was chosen by: what is claimed, and what is usual."""
        self.figures.target = choose(publisher.limits["target_kbps"], *self._chosen_by)
        self._usual = Median(USUAL_S // USUAL_EACH_S, USUAL_EACH_S, FEWEST_USUAL_S // USUAL_EACH_S)
        self._evenness = Evenness(SPREAD_SECONDS, FEWEST_SPREAD)
        """Of bitrate and frames. A variable bitrate changes with its pictures, while frames come evenly: that is no
        trouble. On a congested network both vary.
        """
        self._discontinuities = Total(SPREAD_SECONDS)
        self._settled_s = 0
        """Ticks since media flow as they should."""
        self._unrecorded_since: float | None = None
        self._was_broken = False
        """A track was missing a second ago."""
        self.follow(publisher.limits.get("health", {}))

    def follow(self, rules: Mapping[str, HealthRule]) -> None:
        """The stream's own rules, from now on."""
        self.health.judge_by(ruled(self._table, rules))
        rule = rules.get(STARVING)
        own = rule["warning"] if rule is not None else None
        self._silent_s = SILENT_S if own is None else own

    def judge(self, now: float, wall: float, claimed_kbps: float | None) -> None:
        """Once a second, when the meter has measured. `claimed_kbps`: of the video, by the metadata."""
        publisher, figures = self._publisher, self.figures
        figures.bitrate_is_low = self.health.is_over(BITRATE_LOW)
        figures.publishes = self._publishes(wall)
        if publisher.recording is not None:
            figures.recording_failure = publisher.recording()
            figures.recording_failed_s = self._unrecorded_s(bool(figures.recording_failure), now)
        flows = not self._meter.is_paused and figures.idle_s <= self._silent_s
        self._watch(figures, now, flows)
        by = (claimed_kbps, self._usual.value)
        if by != self._chosen_by:
            self._chosen_by = by
            figures.target = choose(publisher.limits["target_kbps"], *by)
        self.health.update(figures, now, wall, flows=flows)

    def _watch(self, figures: Figures, now: float, flows: bool) -> None:
        """What is measured over time."""
        meter = self._meter
        reading, before, elapsed_ms = meter.reading, meter.before, meter.elapsed_ms
        self.limit.add(reading.wire_bytes - before.wire_bytes, elapsed_ms, now)
        figures.sent_kbps = self.limit.kbps
        self._long.add(reading.video_bytes - before.video_bytes, elapsed_ms)
        if self._long.is_full:
            figures.long_kbps = self._long.kbps
        is_broken = self._is_broken(figures)
        counts = flows and self._settled_s > 0 and (is_broken or not self._was_broken) and now >= self._begins
        found = reading.ts_gap - before.ts_gap + reading.ts_regress - before.ts_regress
        self._discontinuities.add(found if counts else 0)
        figures.discontinuities = self._discontinuities.sum
        figures.unevenness = None
        self._was_broken = is_broken
        if not flows:
            meter.begin_anew()
        if not flows or is_broken or self.health.is_open(BITRATE_LOW):
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

    def _is_broken(self, figures: Figures) -> bool:
        """Whether nothing comes any more of one of the tracks."""
        meter = self._meter
        return (figures.without_audio_s > MISSING_S and meter.audio_line.frames > 0) or (
            figures.without_video_s > MISSING_S and meter.video_line.frames > 0
        )

    def _unrecorded_s(self, fails: bool, now: float) -> float | None:
        if not fails:
            self._unrecorded_since = None
            return None
        if self._unrecorded_since is None:
            self._unrecorded_since = now
        return now - self._unrecorded_since

    def _publishes(self, wall: float) -> int:
        since = wall - PUBLISHES_S
        return len([at for at in self._began if at > since])
