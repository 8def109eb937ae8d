"""What follows from a rollup's sums, by docs/analytics.md."""

import math
from datetime import UTC, datetime

import pytest

from analytics.figures import DERIVED, SUM_FIELDS, Figures
from analytics.models import Rollup
from tests.analytics.packed import packed

AT = datetime(2026, 11, 13, 20, 41, tzinfo=UTC)


def row(**fields: object) -> Rollup:
    return Rollup(**{**dict.fromkeys(SUM_FIELDS, 0), "peak_players": 0, "peak_streams": 0, **fields})


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("live_h", {"live_ms": 5_400_000}, 1.5),
        ("uptime_percent", {"live_ms": 900, "elapsed_ms": 950, "recovery_ms": 50}, 90.0),
        ("health_percent", {"good_ms": 60, "warning_ms": 20, "bad_ms": 20}, 70.0),
        ("below_percent", {"below_ms": 1, "targeted_ms": 4, "live_ms": 100}, 25.0),
        ("starvation_percent", {"starved_ms": 1, "elapsed_ms": 10}, 10.0),
        ("reconnects_per_hour", {"reconnects": 3, "live_ms": 7_200_000}, 1.5),
        ("mtbf_h", {"unplanned_ends": 4, "live_ms": 7_200_000}, 0.5),
        ("mttr_s", {"reconnects": 2, "recovery_ms": 82_000}, 41.0),
        ("video_kbps_mean", {"video_bytes": 1000, "video_frames": 1, "elapsed_ms": 16}, 500.0),
        ("cv", {"samples": 2, "kbps_sum": 30, "kbps_squares": 500}, 1 / 3),
        ("missing_percent", {"missing_frames_est": 1, "video_frames": 99}, 1.0),
        ("gaps_per_hour", {"ts_gaps": 1, "live_ms": 1_800_000}, 2.0),
        ("keyframe_late_percent", {"gop_1": 1, "gop_4": 1, "gop_6": 1, "gop_longer": 1}, 50.0),
        ("success_percent", {"accepted": 3, "refused": 1}, 75.0),
        ("average_players", {"player_ms": 30, "live_ms": 20}, 1.5),
        ("player_hours", {"player_ms": 3_600_000}, 1.0),
        ("delivered_gb", {"out_bytes": 2_500_000_000}, 2.5),
    ],
)
def test_each_metric_has_its_formula(name: str, fields: dict[str, int], expected: float) -> None:
    assert getattr(Figures.of_sums(fields), name) == pytest.approx(expected)


def test_what_is_not_defined_is_none() -> None:
    empty = Figures.of([])
    assert {name for name in DERIVED if getattr(empty, name) is not None} == {
        *("live_h", "player_minutes", "player_hours", "delivered_gb")
    }
    assert (empty.health, empty.quantiles) == ("none", (None, None, None))


def test_rows_are_summed_and_their_peaks_and_counts_taken() -> None:
    figures = Figures.of(
        [
            row(live_ms=1, peak_players=5, peak_at=AT, refusals={"busy": 1}, keyframe_interval_max=2.0),
            row(live_ms=2, peak_players=5, peak_at=AT.replace(hour=19), refusals={"busy": 2, "banned": 1}),
            row(live_ms=4, peak_players=3, peak_at=AT.replace(hour=18), peak_streams=2),
        ]
    )
    assert (figures.live_ms, figures.peak_players, figures.peak_at) == (7, 5, AT.replace(hour=19))
    assert (figures.refusals, figures.keyframe_interval_max, figures.peak_streams) == ({"busy": 3, "banned": 1}, 2.0, 2)


def test_percentiles_are_of_all_samples() -> None:
    one = row(samples=3, video_histogram=packed([1.0, 2.0, 3.0]), video_kbps_p5=7.0, video_kbps_p50=8.0)
    assert Figures.of([one, row()]).quantiles == (7.0, 8.0, None)
    other = row(samples=1, video_histogram=packed([10.0]))
    assert Figures.of([one, other]).quantiles == pytest.approx((1.0, 2.0, 10.0), rel=0.01)


def test_the_worst_health_is_that_of_a_minute_or_of_half_the_time() -> None:
    assert Figures(good_ms=3_000_000, bad_ms=60_000).health == "bad"
    assert Figures(good_ms=3_000_000, bad_ms=59_000, warning_ms=60_000).health == "warning"
    assert Figures(good_ms=10_000, bad_ms=10_000).health == "bad"
    assert Figures(good_ms=10_001, bad_ms=9_999).health == "good"


def test_the_variation_of_steady_samples_is_zero() -> None:
    assert Figures(samples=3, kbps_sum=9, kbps_squares=27).cv == 0
    assert not math.isnan(Figures(samples=3, kbps_sum=9, kbps_squares=26).cv or 0)


def test_sound_alone_has_no_video_bitrate() -> None:
    heard = Figures.of_sums({"audio_frames": 43, "elapsed_ms": 1000}, (0.0, 0.0, 0.0))
    found = (heard.video_kbps_mean, heard.video_kbps_p5, heard.video_kbps_p50, heard.video_kbps_p95)
    assert found == (None, None, None, None)
