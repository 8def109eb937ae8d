"""Numbers that look drawn by lot and follow from their place alone: the same whichever hour, file or order asks.

Arrays of unsigned 64-bit words; SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]
Reals: TypeAlias = NDArray[np.float64]

STEP = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
MANTISSA = np.float64(1 / (1 << 53))


def words(*places: NDArray[np.integer] | int) -> Words:
    """A word of each place: whole numbers, not negative, that broadcast."""
    mixed = np.zeros(1, np.uint64)
    for place in places:
        mixed = _mix(mixed ^ _mix(np.atleast_1d(np.asarray(place)).astype(np.uint64)))
    return mixed


def uniform(*places: NDArray[np.integer] | int) -> Reals:
    """From 0 up to 1, without it."""
    return (words(*places) >> np.uint64(11)) * MANTISSA


def _mix(word: Words) -> Words:
    word = word + STEP  # Wraps, as it has to.
    word = (word ^ (word >> np.uint64(30))) * FIRST
    word = (word ^ (word >> np.uint64(27))) * SECOND
    return word ^ (word >> np.uint64(31))
