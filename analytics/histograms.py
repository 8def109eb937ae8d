"""Histograms of bitrates: how many samples had one in each bucket. They add up exactly, in any order.

The buckets' bounds are of a fixed ratio, as DDSketch's are: bucket i holds the values of (RATIO^(i-1), RATIO^i] kbit/s,
and stands for the one that none of them is further from than 1 % of itself (ERROR). What is below LEAST counts as 0
and is in a bucket of its own. A percentile is the smallest value that at least so many per cent of all samples don't
exceed (nearest rank), as its bucket has it.

The jobs make and merge them (analytics.jobs); this has the buckets, and merges them for whoever reads rollups. Spark's
workers get this module by value: it imports nothing of ours.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

RATIO = 1.02
ERROR = (RATIO - 1) / (RATIO + 1)
"""The most that a value is away from its bucket's, as a part of it: 0.99 %."""

LEAST = 0.001
"""kbit/s: less is none."""

ZERO = -32768
"""The bucket of none: before all others."""

MOST = 32767

DECIMALS = 6
"""Of a bucket's value, so that every processor comes to the same."""

DECIMALS_IN_FILES = 1
"""Of percentiles: more says nothing of what is within 1 %."""

PACKED = [("bucket", "<i2"), ("count", "<u4")]
"""A bucket as Rollup.video_histogram has it: 6 bytes, in the order of the buckets."""


def buckets(values: "NDArray[np.floating]") -> "NDArray[np.int32]":
    """The bucket of each value (kbit/s)."""
    import numpy as np

    is_none = ~(values >= LEAST)
    logs = np.log(np.where(is_none, 1.0, values))
    logs /= math.log(RATIO)
    np.ceil(logs, out=logs)
    np.clip(logs, ZERO + 1, MOST, out=logs)
    logs[is_none] = ZERO
    return logs.astype(np.int32)


def value(bucket: int) -> float:
    """What the bucket stands for, kbit/s."""
    return 0.0 if bucket == ZERO else round(2 * RATIO**bucket / (RATIO + 1), DECIMALS)


def in_file(kbps: float | None) -> float | None:
    """A percentile as files for people have it."""
    return None if kbps is None else round(kbps, DECIMALS_IN_FILES)


def packed(histograms: "pa.ListArray[Any]") -> list[bytes]:
    """Each of a column of them, {"bucket", "count"} in the order of the buckets, as the database keeps it."""
    import numpy as np

    flat = histograms.flatten()
    every = np.empty(len(flat), PACKED)
    for name in every.dtype.names or ():
        every[name] = flat.field(name).to_numpy(zero_copy_only=False)
    ends = np.cumsum(histograms.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    return [part.tobytes() for part in np.split(every, ends[:-1])] if len(histograms) else []


def added(parts: Iterable[bytes]) -> bytes:
    """One of several, as packed as they are."""
    import numpy as np

    found, counts = _united(parts)
    sums = np.empty(len(found), PACKED)
    sums["bucket"], sums["count"] = found, counts
    return sums.tobytes()


def _united(parts: Iterable[bytes]) -> "tuple[NDArray[Any], NDArray[Any]]":
    """The buckets of packed histograms, in order, and how many are in each."""
    import numpy as np

    together = np.frombuffer(b"".join(parts), PACKED)
    found, places = np.unique(together["bucket"], return_inverse=True)
    return found, np.bincount(places, weights=together["count"], minlength=len(found))


def quantiles(
    parts: Iterable[bytes], ranks: Sequence[float], *, least: float | None = None, most: float | None = None
) -> list[float | None]:
    """The quantiles (ranks 0 to 1) of several packed histograms' samples together; None of none.

    `least` and `most` of all values, where they are known: no bucket's value is beyond them.
    """
    import numpy as np

    found, counts = _united(parts)
    if not len(found):
        return [None] * len(ranks)
    reached = np.cumsum(counts)
    # Rounded first: 0.05 x 140 is a little more than 7.
    wanted = [max(1, math.ceil(round(rank * reached[-1], 6))) for rank in ranks]
    values = (value(int(bucket)) for bucket in found[np.searchsorted(reached, wanted)])
    return [min(math.inf if most is None else most, max(least or 0.0, each)) for each in values]
