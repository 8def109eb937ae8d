"""Sketches of a distribution: few of its values, from which its quantiles follow, and that merge.

A sketch of n values is m = min(n, POINTS) of them, sorted, float32. Its i-th point stands for the ranks from
floor(i n / m) up to floor((i + 1) n / m), the smallest value's being 0, and is the value at rank
floor((2 i + 1) n / (2 m)). So a rank is off by 1/256 at most, by nothing up to POINTS values, and the same values give
the same sketch: docs/adr/0012. Sketches merge as points that weigh as much as the values that they stand for.

The jobs make and merge them within Spark (analytics.jobs.sketches); this is for whoever reads rollups.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Points = NDArray[np.float32]

POINTS = 128


def points(values: "Iterable[float] | NDArray[np.floating]") -> "Points":
    """The sketch of the values."""
    import numpy as np

    found = np.sort(np.asarray(values if isinstance(values, np.ndarray) else list(values), np.float32))
    size = min(len(found), POINTS)
    return found[(2 * np.arange(size) + 1) * len(found) // (2 * size)] if size else found


def pack(sketch: "Sequence[float] | Points") -> bytes:
    """As Rollup.video_sketch keeps it: little-endian float32."""
    import numpy as np

    return np.asarray(sketch, "<f4").tobytes()


def unpack(packed: bytes) -> "Points":
    import numpy as np

    return np.frombuffer(packed, "<f4")


def quantiles(parts: Iterable[tuple[int, bytes]], ranks: Sequence[float]) -> list[float | None]:
    """The quantiles (ranks 0 to 1) of several sketches' values together, each (how many values, packed sketch).

    A rank's quantile is the smallest value that at least this share of all values doesn't exceed; None of none.
    """
    import numpy as np

    sketches = [(count, unpack(packed)) for count, packed in parts if count and packed]
    if not sketches:
        return [None] * len(ranks)
    values = np.concatenate([sketch for _, sketch in sketches])
    weights = np.concatenate([_weights(count, len(sketch)) for count, sketch in sketches])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    total = int(reached[-1])
    # Rounded first: 0.05 x 140 is a little more than 7.
    wanted = [max(1, math.ceil(round(rank * total, 6))) for rank in ranks]
    return [float(value) for value in values[order][np.searchsorted(reached, wanted)]]


def _weights(count: int, size: int) -> "NDArray[np.int64]":
    """How many values each point stands for."""
    import numpy as np

    return np.diff(np.arange(size + 1, dtype=np.int64) * count // size)
