"""A stream key's bitrate limit: the mean of what its publisher sends, and for how long that has been too much."""

from dataclasses import dataclass
from typing import Final

from ingest.contracts import PublishLimits
from ingest.live.windows import Rate

TOLERANCE: Final = 0.05
"""Over the limit is what is over it by more than this part: encoders hold their rate no better."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Twice the window to the end, so that no peak shorter than a window ends a session, however high it is."""

    window_s: int = 10
    close_s: float = 20.0
    """How long the mean must be over the limit without a pause to end the session: a warning comes before."""


class BitrateLimit:
    """Of one publishing session. Fed once a second with what arrived on the wire."""

    __slots__ = ("_closes", "_over_since", "_sent", "_settings", "kbps", "max_kbps")

    def __init__(self, limits: PublishLimits, settings: LimitSettings) -> None:
        self.max_kbps = limits["max_kbps"]
        self._closes = limits["over_limit"] == "close"
        self._settings = settings
        self._sent = Rate(settings.window_s)
        self.kbps: float | None = None
        """The mean over the window; None until that has passed, and without a limit."""
        self._over_since: float | None = None

    def add(self, size_bytes: int, elapsed_ms: int, now: float) -> None:
        """`size_bytes` arrived within `elapsed_ms` until `now` (monotonic, seconds)."""
        if self.max_kbps is None:
            return
        self._sent.add(size_bytes, elapsed_ms)
        mean = self.kbps = self._sent.kbps if self._sent.is_full else None
        if mean is None or mean <= self.max_kbps * (1 + TOLERANCE):
            self._over_since = None
        elif self._over_since is None:
            self._over_since = now

    def breach(self, now: float) -> str:
        """Why the session must end now, as a sentence; "" while it need not."""
        since = self._over_since
        if since is None or not self._closes or now - since < self._settings.close_s:
            return ""
        return (
            f"The mean of the last {self._settings.window_s} s was {self.kbps:.0f} kbit/s; "
            f"the stream key's limit is {self.max_kbps} kbit/s."
        )
