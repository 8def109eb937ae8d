"""What a report counts, against figures worked out by hand."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analytics import periods
from analytics.models import Dimension, ReportPlan
from analytics.reports import figures
from analytics.reports.figures import Gathered
from analytics.scopes import Scope
from analytics.tables import PARTIALS, partition_folder
from tests.analytics.reports.rows import H_MS, HOUR, MONDAY, rollup

pytestmark = [pytest.mark.django_db, pytest.mark.both_forms]

Kind = ReportPlan.Kind
DAY = periods.containing(Kind.DAILY, date(2026, 11, 2), periods.zone_of("UTC"))


def gather(lake: Path, scope: str = "", zone: str = "UTC") -> Gathered:
    period = periods.containing(Kind.DAILY, date(2026, 11, 2), periods.zone_of(zone))
    return figures.gather(period, Scope.of(scope), lake)


def test_sums_and_what_follows_from_them(lake: Path) -> None:
    common: dict[str, Any] = {"dimension": Dimension.APP, "value": "live", "starts": 1, "accepted": 1}
    rollup(
        "live",
        MONDAY,
        **common,
        broadcasts=1,
        kbps=[1000.0, 2000.0, 3000.0],
        elapsed_ms=H_MS,
        live_ms=H_MS,
        good_ms=H_MS,
        player_ms=30 * H_MS,
        peak_players=40,
        peak_at=MONDAY + timedelta(minutes=3),
        out_bytes=2_000_000_000,
        gop_2=60,
        refused=1,
        refusals={"busy": 1},
    )
    rollup(
        "live",
        MONDAY + HOUR,
        **common,
        reconnects=1,
        recovery_ms=60_000,
        ends=2,
        unplanned_ends=2,
        end_reasons={"tcp_reset": 2},
        kbps=[4000.0, 4000.0, 4000.0],
        elapsed_ms=H_MS // 2,
        live_ms=H_MS // 2 - 60_000,
        warning_ms=H_MS // 4,
        bad_ms=H_MS // 4,
        starved_ms=60_000,
        targeted_ms=H_MS // 2,
        below_ms=H_MS // 8,
        video_frames=990,
        missing_frames_est=10,
        ts_gaps=3,
        player_ms=6 * H_MS,
        peak_players=90,
        peak_at=MONDAY + timedelta(minutes=70),
        out_bytes=500_000_000,
        gop_10=20,
        keyframe_interval_max=8.0,
        refused=2,
        refusals={"busy": 1, "key_expired": 1},
    )
    found = figures.figures_of_document(gather(lake, "live"))
    live_h = 1.5 - 1 / 60
    assert found == {
        "live_h": pytest.approx(live_h),
        "streams": 0,  # No stream's rows are there.
        "uptime_percent": pytest.approx(100 * live_h / (1.5 + 1 / 60)),
        "starts": 2,
        "broadcasts": 1,
        "reconnects": 1,
        "reconnects_per_h": pytest.approx(1 / live_h),
        "unplanned_ends": 2,
        "mtbf_h": pytest.approx(live_h / 2),
        "mttr_s": 60.0,
        "health_percent": pytest.approx(100 * (1 + 0.25 / 2) / 1.5),
        "bad_h": 0.25,
        "warning_h": 0.25,
        "below_h": 0.125,
        "below_percent": pytest.approx(25),
        "starved_percent": pytest.approx(100 * 60 / 5400),
        "gaps_per_h": pytest.approx(3 / live_h),
        "missing_percent": pytest.approx(1),
        "mean_kbps": 0.0,
        "p5": 1000.0,
        "p50": pytest.approx(3000, rel=0.01),
        "p95": pytest.approx(4000, rel=0.01),
        "cv": pytest.approx((4 / 3) ** 0.5 / 3),  # The values 1, 2, 3, 4, 4, 4: their variance is 4/3.
        "gop": pytest.approx(
            {"gop_1": 0, "gop_2": 75, "gop_2_5": 0, "gop_4": 0, "gop_6": 0, "gop_10": 25, "gop_longer": 0}
        ),
        "keyframe_interval_max": 8.0,
        "accepted": 2,
        "refused": 3,
        "success_percent": pytest.approx(40),
        "plays": 0,
        "unique_players": None,
        "player_hours": pytest.approx(36),
        "average_players": pytest.approx(36 / live_h),
        "peak_players": 90,
        "peak_at": "2026-11-02T01:10:00+00:00",
        "peak_streams": 0,
        "delivered_gb": pytest.approx(2.5),
    }
    assert gather(lake, "live").together.refusals == {"busy": 2, "key_expired": 1}


def test_hours_of_other_days_streams_and_dimensions_stay_out(lake: Path) -> None:
    for start in (MONDAY - HOUR, MONDAY, MONDAY + 23 * HOUR, MONDAY + 24 * HOUR):
        for path in ("live/a", "live/b", "cams/a"):
            rollup(path, start, kbps=[1.0], elapsed_ms=1000, live_ms=1000)
            rollup(path, start, kbps=[1.0], dimension=Dimension.BROADCAST, value="2026-11-02T00:00:00Z", live_ms=1000)
    assert {path: of.live_ms for path, of in gather(lake).streams.items()} == dict.fromkeys(
        ("cams/a", "live/a", "live/b"), 2000
    )
    assert set(gather(lake, "live").streams) == {"live/a", "live/b"}
    assert gather(lake, "live/a").together.live_ms == 2000
    assert gather(lake, "live/none").streams == {}


def test_days_are_those_of_the_time_zone(lake: Path) -> None:
    for number in range(-24, 48):
        rollup("live/a", MONDAY + number * HOUR, live_ms=1, elapsed_ms=1)
    assert gather(lake, "live/a", "Europe/Berlin").together.live_ms == 24
    assert gather(lake, "live/a", "Asia/Kolkata").together.live_ms == 25  # Widened to whole hours.


def test_percentiles_are_of_all_samples_of_a_stream(lake: Path) -> None:
    rollup("live/a", MONDAY, kbps=[float(each) for each in range(1, 1001)])
    rollup("live/a", MONDAY + HOUR, kbps=[5000.0] * 1000)
    low, median, high = gather(lake).streams["live/a"].quantiles
    assert low == pytest.approx(100, abs=10)
    assert median == pytest.approx(1000, abs=10)
    assert high == 5000


def test_a_peak_across_applications_is_of_one_minute(lake: Path) -> None:
    for app, players in (("live", 50), ("cams", 70)):
        rollup(app, MONDAY, dimension=Dimension.APP, peak_players=players, peak_streams=2, peak_at=MONDAY)
    rollup("live", MONDAY + HOUR, dimension=Dimension.APP, peak_players=80, peak_streams=1, peak_at=MONDAY + HOUR)
    assert gather(lake).together.peak_players == 120  # No minutes are left: the most that it can have been.
    rows = [(0, "live", "a", 50, 1), (0, "cams", "b", 20, 1), (60, "live", "a", 25, 1), (60, "cams", "b", 70, 1)]
    rows += [(60, "cams", "b", 9, 1), (60, "cams", "c", 0, 0), (120, "live", "d", 0, 1)]
    start_us = int(MONDAY.timestamp()) * 1_000_000
    table = pa.Table.from_pylist(
        [
            {
                "minute_us": start_us + second * 1_000_000,
                "app": app,
                "name": name,
                "peak_players": players,
                "live_ms": live,
            }
            for second, app, name, players, live in rows
        ]
    )
    folder = partition_folder(lake, PARTIALS, MONDAY) / "one"
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "minutes.parquet")
    found = gather(lake).together
    assert (found.peak_players, found.peak_at) == (95, MONDAY + timedelta(minutes=1))
    assert found.peak_streams == 2
    assert found.peak_at is not None
    assert found.peak_at.tzinfo == UTC
    assert isinstance(found.peak_at, datetime)
