"""One publisher's session on a live stream: what is measured of it, how it is judged, and what it says of itself."""

from collections.abc import Mapping
from typing import Any

from ingest.contracts import Health, HealthRule, Issue, MediaInfo, Sample
from ingest.live.counted import Audience
from ingest.live.judging import Judging
from ingest.live.metadata import claimed, encoder_name, sanitise
from ingest.live.meter import Meter, Second
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
        self.meter = Meter(publisher, now, audience)
        self.encoder = publisher.encoder
        """What the publisher's encoder is called."""
        self.metadata: dict[str, Any] = {}
        """onMetaData as the publisher claims it, safe as JSON. Replaced as a whole, never changed in place."""
        self._judging = Judging(publisher, self.meter, settings, now)
        self._node, self._app, self._name = node, app, name

    # --- What it says of itself ---

    def claim(self, metadata: Any) -> None:
        """It has sent these."""
        self.metadata = sanitise(metadata)
        self.encoder = encoder_name(self.encoder, self.metadata)
        self.meter.call(self.encoder)

    def withdraw(self) -> None:
        """It has cleared its metadata."""
        self.metadata = {}

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
        return self._judging.health.worst if self.meter.has_media or self.issues else "none"

    @property
    def target_kbps(self) -> int | None:
        """Of the video: what the stream's settings say, else what the metadata claims."""
        target = self.publisher.limits["target_kbps"] or self._claimed_kbps
        return round(target) if target else None

    @property
    def _claimed_kbps(self) -> float | None:
        return claimed(self.metadata, "videodatarate", most=MOST_KBPS)

    def judge_by(self, rules: Mapping[str, HealthRule]) -> None:
        """The stream's own rules of health have changed."""
        self._judging.follow(rules)

    def breach(self, now: float) -> str:
        """Why the session must end now, as a sentence; "" while it need not."""
        return self._judging.limit.breach(now)

    # --- Once a second ---

    def tick(self, now: float, wall: float, audience: Audience) -> Sample:
        """Of the time since the last tick."""
        self.meter.set_wall(now, wall)
        second = self._measure(now, audience)
        self._judging.judge(now, wall, second, self._claimed_kbps)
        return self._sample(now, second)

    def last(self, now: float, audience: Audience) -> Sample:
        """Of the time since the last tick, as the session ends. It is not judged any more."""
        return self._sample(now, self._measure(now, audience))

    def _measure(self, now: float, audience: Audience) -> Second:
        return self.meter.measure(now, audience, claimed(self.metadata, "framerate", most=MOST_FPS))

    def _sample(self, now: float, second: Second) -> Sample:
        return self.meter.sample(
            now,
            second,
            node=self._node,
            app=self._app,
            name=self._name,
            health=self.health,
            target_kbps=self.target_kbps,
        )
