"""One publisher's session on a live stream: what is measured of it, how it is judged, and what it says of itself."""

from collections.abc import Mapping
from typing import Any

from ingest.contracts import Health, HealthRule, Issue, MediaInfo, Sample
from ingest.live.counted import Audience
from ingest.live.health import Figures
from ingest.live.judging import Judging
from ingest.live.metadata import claimed, encoder_name, sanitise
from ingest.live.meter import Meter
from ingest.live.publisher import Publisher
from ingest.live.settings import LiveSettings

MOST_FPS, MOST_KBPS = 1000, 1_000_000
"""What metadata may claim and be believed."""


class Publication:
    """From the publisher's start to its stop; `meter` is the media path's."""

    def __init__(
        self,
        publisher: Publisher,
        settings: LiveSettings,
        now: float,
        audience: Audience,
        *,
        node: str,
        app: str,
        name: str,
    ) -> None:
        """`audience`: as of now. Node, application and name stand in its samples."""
        self.publisher = publisher
        limits = publisher.limits
        figures = Figures(
            expects_audio=limits["expect_audio"], expects_video=limits["expect_video"], max_kbps=limits["max_kbps"]
        )
        self.meter = Meter(publisher, now, audience, figures, node=node, app=app, name=name)
        self.encoder = publisher.encoder
        """What the publisher's encoder is called."""
        self.metadata: dict[str, Any] = {}
        """onMetaData as the publisher claims it, safe as JSON. Replaced as a whole, never changed in place."""
        self._judging = Judging(publisher, self.meter, settings, now)
        self._target_kbps = limits["target_kbps"]
        self.target_kbps: int | None = None
        """Of the video: what the stream's settings say, else what the metadata claims."""
        self._believe()

    # --- What it says of itself ---

    def claim(self, metadata: Any) -> None:
        """It has sent these."""
        self.metadata = sanitise(metadata)
        self.encoder = encoder_name(self.encoder, self.metadata)
        self.meter.call(self.encoder)
        self._believe()

    def withdraw(self) -> None:
        """It has cleared its metadata."""
        self.metadata = {}
        self._believe()

    def _believe(self) -> None:
        """What of the metadata is measured by."""
        self._claimed_fps = claimed(self.metadata, "framerate", most=MOST_FPS)
        self._claimed_kbps = claimed(self.metadata, "videodatarate", most=MOST_KBPS)
        target = self._target_kbps or self._claimed_kbps
        self.target_kbps = round(target) if target else None

    def tell(self, media: MediaInfo) -> None:
        """The metadata are others, or what is known of its media."""
        if self.publisher.described is not None:
            self.publisher.described(self.metadata, media)

    # --- How it is ---

    @property
    def is_live(self) -> bool:
        return self.meter.has_media and not self.meter.is_paused

    @property
    def issues(self) -> list[Issue]:
        """The open ones, worst first."""
        return self._judging.health.issues

    @property
    def health(self) -> Health:
        """The worst open issue; none while there is nothing to judge."""
        health = self._judging.health
        return health.worst if self.meter.last_media is not None or health.issues else "none"

    @property
    def is_unrecorded(self) -> bool:
        """It is to be recorded, and was not when it was judged last."""
        return bool(self._judging.figures.recording_failure)

    def judge_by(self, rules: Mapping[str, HealthRule]) -> None:
        """The stream's own rules of health have changed."""
        self._judging.follow(rules)

    def breach(self, now: float) -> str:
        """Why the session must end now, as a sentence; "" while it need not."""
        return self._judging.limit.breach(now)

    # --- Once a second ---

    def tick(self, now: float, wall: float, audience: Audience) -> Sample:
        """Of the time since the last tick."""
        meter = self.meter
        meter.set_wall(now, wall)
        meter.measure(now, audience, self._claimed_fps)
        self._judging.judge(now, wall, self._claimed_kbps)
        return meter.sample(now, health=self.health, target_kbps=self.target_kbps)

    def last(self, now: float, audience: Audience) -> Sample:
        """Of the time since the last tick, as the session ends. It is not judged any more."""
        self.meter.measure(now, audience, self._claimed_fps)
        return self.meter.sample(now, health=self.health, target_kbps=self.target_kbps)
