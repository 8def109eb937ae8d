"""Whether a publisher's media come in time, second by second: for how long they have fallen behind, or are thrown away
as they would.

By what is due at the end of each second, not by what has come: a pause of a second makes media late for that second,
and they are there again in the next."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ingest.live.health.measures import COLLAPSE_S, STEADY_S, Figures

SLOW: Final = 0.3
"""Media that fall behind by more than this part of a second in each second don't come as they should."""
CHOKED: Final = 0.5
"""Where media are late, an encoder that sends less than this part of its target throws frames away."""


@dataclass(eq=False, repr=False, slots=True)
class Collapse:
    """Asked from the second on in which media don't come in time, until they do again: nearly never."""

    is_watching: bool = False
    _sound_age_ms: float | None = None
    """As of the latest second; None: it was not looked at."""
    _late: deque[float] = field(default_factory=lambda: deque(maxlen=COLLAPSE_S + 1))
    """How far media were behind live in the latest seconds (s)."""

    def add(
        self,
        figures: Figures,
        slowest_ms: float,
        sound_age_ms: float | None,
        recent_kbps: float | None,
        *,
        is_slow: bool,
        is_silent: bool,
    ) -> None:
        """A second is over. `is_slow`: pictures fell behind in it by `slowest_ms` or more, or sound where there are no
        pictures. `is_silent`: nothing came in it, which is for `starving` to tell. `sound_age_ms`: how much more time
        has passed than sound has come beside them. `recent_kbps`: of the video, in the last COLLAPSE_S."""
        behind_s = figures.behind_s or 0.0
        self.is_watching = is_slow or behind_s > STEADY_S
        former, self._sound_age_ms = self._sound_age_ms, sound_age_ms
        if not self.is_watching:
            figures.slowing = figures.choking = 0
            figures.later_s, self._sound_age_ms = 0.0, None
            self._late.clear()
            return
        if sound_age_ms is not None and former is not None:
            is_slow = is_slow and sound_age_ms - former >= slowest_ms
        if not is_silent:
            figures.slowing = figures.slowing + 1 if is_slow else 0
        self._late.append(behind_s)
        figures.later_s = behind_s - self._late[0]
        figures.recent_kbps, target = recent_kbps, figures.target
        is_choked = target is not None and recent_kbps is not None and recent_kbps < CHOKED * target.kbps
        figures.choking = figures.choking + 1 if figures.falls_behind and is_choked else 0
