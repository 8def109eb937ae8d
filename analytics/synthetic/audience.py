"""Players: who plays which stream, from when until when. An hour's arrivals follow from (seed, hour) alone."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from analytics.synthetic import noise
from analytics.synthetic.channels import Channel

HOUR_US = 3_600_000_000
STAYS_S = 1200.0
"""In the mean; exponential."""
LONGEST_US = 3 * HOUR_US
HOURS_BACK = LONGEST_US // HOUR_US
"""Whoever plays has come within so many hours before."""

BY_HOUR = (0.5, 0.3, 0.2, 0.15, 0.15, 0.2, 0.4, 0.6, 0.7, 0.75, 0.8, 0.9, 1.1, 1.1, 1.0, 1.0, 1.1, 1.3, 1.7, 2.2, 2.5)
DAY = np.array([*BY_HOUR, 2.4, 1.9, 1.05])
DAY = DAY / DAY.mean()
"""How many come in each hour (UTC), 1 in the mean."""

WAITS = 0.03
"""The share of those who come while nothing is on air and wait for it; the others are not counted."""

PUBLIC = 60
"""Viewers that a stream's arrivals are drawn from, for each player in the mean; so some come again."""


@dataclass(frozen=True)
class Plays:
    """Playing sessions, each column one long; times are microseconds since the epoch."""

    number: NDArray[np.int64]
    """The channel's."""
    begin_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    viewer: noise.Words
    word: noise.Words
    """Tells the session apart."""

    def __len__(self) -> int:
        return len(self.number)

    def only(self, which: NDArray[np.bool_]) -> "Plays":
        return Plays(self.number[which], self.begin_us[which], self.end_us[which], self.viewer[which], self.word[which])


class Audience:
    """`on_air`: (hour since the epoch) -> (channels, 3600) whether each is published in each second."""

    def __init__(self, cast: list[Channel], seed: int, on_air: Callable[[int], NDArray[np.bool_]]) -> None:
        self._means = np.array([channel.audience for channel in cast])
        self._seed = seed
        self._on_air = on_air
        self._arrivals = lru_cache(maxsize=HOURS_BACK + 2)(self._draw)

    def arrivals(self, hour: int) -> Plays:
        """Those who come in the hour (whole hours since the epoch), by channel."""
        return self._arrivals(hour)

    def present(self, hour: int) -> Plays:
        """Those who are there at some time of the hour."""
        parts = [self._arrivals(earlier) for earlier in range(hour - HOURS_BACK, hour + 1)]
        joined = Plays(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in Plays.__dataclass_fields__)
        )
        return joined.only(joined.end_us > hour * HOUR_US)

    def _draw(self, hour: int) -> Plays:
        lot = np.random.default_rng([self._seed, 5, hour])
        # Each stream's audience has its better and worse days.
        moods = 0.6 + 0.8 * noise.uniform(self._seed, 6, np.arange(len(self._means)), hour // 24)
        counts = lot.poisson(self._means * moods * DAY[hour % 24] * 3600 / STAYS_S)
        number = np.repeat(np.arange(len(counts)), counts)
        total = len(number)
        into_us = lot.integers(0, HOUR_US, total)
        stays_us = np.minimum(lot.exponential(STAYS_S * 1e6, total).astype(np.int64) + 200_000, LONGEST_US - 1)
        pool = np.maximum(1, self._means[number] * PUBLIC).astype(np.int64)
        viewer = noise.words(self._seed, 7, number, (lot.random(total) * pool).astype(np.int64))
        word = noise.words(self._seed, 8, hour, np.arange(total))
        stays = self._on_air(hour)[number, into_us // 1_000_000] | (lot.random(total) < WAITS)
        begin_us = hour * HOUR_US + into_us
        return Plays(number, begin_us, begin_us + stays_us, viewer, word).only(stays)
