"""Histograms of a few values, as the jobs make them."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from analytics.histograms import buckets, pack


def packed(values: Sequence[float]) -> bytes:
    counts = Counter(buckets(np.array(values, float)).tolist())
    return pack({"bucket": bucket, "count": count} for bucket, count in sorted(counts.items()))
