"""Histograms of a few values and sketches of a few players, as the jobs make them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from datasketches import hll_sketch

from analytics.histograms import PACKED, buckets
from analytics.metrics import SKETCH_BITS


def packed(values: Sequence[float]) -> bytes:
    counts = Counter(buckets(np.array(values, float)).tolist())
    return np.array(sorted(counts.items()), PACKED).tobytes()


def sketched(players: Iterable[str]) -> dict[str, Any]:
    """The fields of a rollup with these players."""
    sketch = hll_sketch(SKETCH_BITS)
    for player in players:
        sketch.update(player)
    return {"unique_players": round(sketch.get_estimate()), "players_sketch": sketch.serialize_compact()}
