"""Whether a publisher's media come in time, second by second: for how long they have fallen behind, or are thrown away
as they would.

By what is due at the end of each second, not by what has come: a pause of a second makes media late for that second,
and they are there again in the next."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ingest.live.health.measures import COLLAPSE_S, STEADY_S, Figures

SLOW: Final = 0.3
"""Media that fall behind by more than this part of a second in each second don't come as they should."""
CHOKED: Final = 0.5
"""Where media are late, an encoder that sends less than this part of its target throws frames away."""


@dataclass(eq=False, repr=False, slots=True)
class Collapse:
    _age_ms: float = 0.0
    _sound_age_ms: float | None = None
    """As of the latest second; None: it was not looked at."""
    _late: deque[float] = field(default_factory=lambda: deque(maxlen=COLLAPSE_S + 1))
    """How far media were behind live in the latest seconds, while they are (s)."""

    def add(
        self,
        figures: Figures,
        age_ms: float,
        elapsed_ms: int,
        sound_age_ms: Callable[[], float | None],
        recent_kbps: Callable[[], float | None],
    ) -> None:
        """A second is over. `age_ms`: how much more time has passed than pictures have come, or sound where there are
        none. What is asked for is needed seldom: the same of sound beside pictures, and the video's bitrate of the
        last COLLAPSE_S."""
        slowest = SLOW * elapsed_ms
        is_slow = age_ms - self._age_ms >= slowest
        self._age_ms = age_ms
        behind_s = figures.behind_s or 0.0
        if not is_slow and behind_s <= STEADY_S:
            figures.slowing = figures.choking = 0
            figures.later_s, self._sound_age_ms = 0.0, None
            self._late.clear()
            return
        former, self._sound_age_ms = self._sound_age_ms, sound_age_ms()
        if self._sound_age_ms is not None and former is not None:
            is_slow = is_slow and self._sound_age_ms - former >= slowest
        figures.slowing = figures.slowing + 1 if is_slow else 0
        self._late.append(behind_s)
        figures.later_s = behind_s - self._late[0]
        sent, target = recent_kbps(), figures.target
        figures.recent_kbps = sent
        is_choked = figures.is_late and sent is not None and target is not None and sent < CHOKED * target.kbps
        figures.choking = figures.choking + 1 if is_choked else 0
