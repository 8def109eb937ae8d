"""Sketches say the quantiles of what they were made from, alone and merged, to 1/256 in rank; always the same."""

import numpy as np
import pytest

from analytics.sketches import POINTS, pack, points, quantiles, unpack

RANKS = (0.0, 0.05, 0.5, 0.95, 1.0)


def off(values: "np.ndarray[tuple[int], np.dtype[np.float32]]", found: float | None, rank: float) -> float:
    """How far the value is from having the rank, as a part of all values."""
    assert found is not None
    below, up_to = float(np.mean(values < found)), float(np.mean(values <= found))
    return max(0.0, below - rank, rank - up_to)


def normal(count: int, *, mean: float = 4000, seed: int = 7) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    return np.random.default_rng(seed).normal(mean, 300, count).astype(np.float32)


@pytest.mark.parametrize("count", [1, 2, 19, 20, 127, POINTS])
def test_few_values_are_kept_all(count: int) -> None:
    values = normal(count)
    sketch = pack(points(values))
    assert sorted(values) == list(unpack(sketch))
    exact = [float(np.quantile(values, rank, method="inverted_cdf")) for rank in RANKS]
    assert quantiles([(count, sketch)], RANKS) == exact


@pytest.mark.parametrize("count", [POINTS + 1, 200, 3600, 86_400])
def test_a_rank_of_many_is_off_by_half_a_point_at_most(count: int) -> None:
    values = normal(count)
    found = quantiles([(count, pack(points(values)))], RANKS)
    for value, rank in zip(found, RANKS, strict=True):
        assert off(values, value, rank) <= 1 / (2 * POINTS) + 1 / count


def test_sketches_merge_by_how_many_values_they_stand_for() -> None:
    parts = [normal(3600), normal(40, mean=800), normal(1, mean=9000), normal(500, mean=5000, seed=1)]
    values = np.concatenate(parts)
    found = quantiles([(len(part), pack(points(part))) for part in parts], RANKS)
    for value, rank in zip(found, RANKS, strict=True):
        assert off(values, value, rank) <= 0.005


def test_the_order_of_values_and_parts_makes_no_difference() -> None:
    values = normal(5000)
    assert pack(points(values)) == pack(points(values[::-1]))
    parts = [(len(part), pack(points(part))) for part in np.split(values, [100, 2000])]
    assert quantiles(parts, RANKS) == quantiles(parts[::-1], RANKS)


def test_nothing_has_no_quantiles() -> None:
    assert pack(points([])) == b""
    assert quantiles([(0, b"")], (0.5,)) == [None]
    assert quantiles([], (0.5, 0.95)) == [None, None]
