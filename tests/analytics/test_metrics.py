"""One table says what each figure of history is: all that tells of them agrees, and formulas give what they should."""

import ast
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.db import models

from analytics import schemas
from analytics.figures import NO_QUANTILES, SUM_FIELDS, Figures, merged_quantiles
from analytics.metrics import ALL, BY_NAME, DERIVED, METRICS, Kind, Merge, Metric
from analytics.models import IDENTITY, PACKED, Rollup
from dashboard.history.api import RollupOut
from dashboard.history.comparison import COMPARED, FURTHER
from dashboard.history.views import MERGED, ROLLUP_COLUMNS
from docs.metric_tables import TABLES, documented
from tests.analytics.rollups import pack_histogram

DOCS = Path(__file__).parents[2] / "docs" / "analytics.md"

FIELDS: dict[Kind, tuple[type[models.Field[Any, Any]], ...]] = {
    Kind.WHOLE: (models.PositiveIntegerField, models.BigIntegerField),
    Kind.REAL: (models.FloatField,),
    Kind.TIME: (models.DateTimeField,),
    Kind.COUNTS: (models.JSONField,),
}
NAMES = [metric.name for metric in METRICS]
FOLLOWING = [one.name for one in DERIVED]


def test_metric_names_are_unique() -> None:
    assert len(ALL) == len(BY_NAME)


@pytest.mark.parametrize("metric", METRICS, ids=NAMES)
def test_each_metric_has_a_database_field_of_its_kind(metric: Metric) -> None:
    field = Rollup._meta.get_field(metric.name)
    assert isinstance(field, FIELDS[metric.kind])
    assert isinstance(field, models.BigIntegerField) or metric.merge != Merge.SUM, "sums grow"
    assert field.help_text == metric.words


def test_rollup_model_has_no_field_beyond_metrics_and_keys() -> None:
    keys = {"id", "stream", *IDENTITY, *PACKED, "metric_version"}
    assert {field.name for field in Rollup._meta.concrete_fields} == {*NAMES, *keys}


def names_in(formula: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Name)} - {"sqrt", "max"}


@pytest.mark.parametrize("number", range(len(DERIVED)), ids=FOLLOWING)
def test_derived_metric_uses_only_sums_and_earlier_derived_metrics(number: int) -> None:
    one = DERIVED[number]
    assert names_in(one.formula) <= {*SUM_FIELDS, *FOLLOWING[:number]}
    found = getattr(Figures(), one.name)
    assert found == 0 if one.always else found is None


def test_figures_class_has_all_sums_and_derived_metrics_and_known_extras() -> None:
    own = {field.name: field.type for field in fields(Figures)}
    assert own.keys() - set(NAMES) == {"quantiles"}
    assert all(own[name] is int for name in SUM_FIELDS)
    methods = {"of_row", "of_sums", "derived"}
    properties = {name for name in dir(Figures) if not name.startswith("_") and name not in own} - methods
    assert properties - set(BY_NAME) == {"health", "badness", "measured_ms", "keyframe_intervals"}
    assert properties >= set(FOLLOWING)


def test_files_api_pages_and_jobs_use_the_names_of_the_metric_table() -> None:
    version = "metric_version"
    assert {*ROLLUP_COLUMNS} == {*IDENTITY, *BY_NAME, version}
    assert len(ROLLUP_COLUMNS) == len(IDENTITY) + len(BY_NAME) + 1
    assert set(MERGED) <= set(BY_NAME)
    described = {name: field.description for name, field in RollupOut.model_fields.items()}
    assert described.keys() == {*IDENTITY, *BY_NAME, version, "label", "health"}
    assert {figure.name: figure.words for figure in ALL} == {name: described[name] for name in BY_NAME}
    assert {column.name for column in (*COMPARED, *FURTHER)} <= set(BY_NAME)
    assert all(column.shown.label and hasattr(Figures(), column.name) for column in (*COMPARED, *FURTHER))
    histograms = {"video_histogram", "audio_histogram", "wire_histogram", "players_sketch"}
    columns = {f"{metric.name}_us" if metric.kind == Kind.TIME else metric.name for metric in METRICS}
    assert schemas.ROLLUPS.keys() == {*schemas.GROUP, "stream", *columns, *histograms}


def test_docs_describe_each_metric_as_the_table_does() -> None:
    text = DOCS.read_text()
    assert text.count("<!-- metrics -->") == len(TABLES)
    assert documented(text) == text, "run python -m docs.metric_tables docs/analytics.md"
    assert {figure.name for _, figures in TABLES for figure in figures} == set(BY_NAME)


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("live_h", {"live_ms": 5_400_000}, 1.5),
        ("uptime_percent", {"live_ms": 900, "elapsed_ms": 950, "recovery_ms": 50}, 90.0),
        ("health_percent", {"good_ms": 60, "warning_ms": 20, "bad_ms": 20}, 70.0),
        ("bad_percent", {"good_ms": 60, "warning_ms": 20, "bad_ms": 20}, 20.0),
        ("warning_percent", {"good_ms": 60, "warning_ms": 10, "bad_ms": 30}, 10.0),
        ("lost_min", {"recovery_ms": 60_000, "bad_ms": 30_000, "elapsed_ms": 600_000, "live_ms": 480_000}, 3.0),
        ("lost_min", {"recovery_ms": 60_000, "bad_ms": 180_000, "elapsed_ms": 600_000, "live_ms": 480_000}, 4.0),
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
        ("viewer_minutes", {"viewer_ms": 90_000, "player_ms": 180_000}, 1.5),
        ("viewer_hours", {"viewer_ms": 1_800_000}, 0.5),
        ("viewer_join_s", {"viewer_join_ms": 4_500, "viewer_joins": 3, "viewer_reports": 5}, 1.5),
        ("viewer_stalled_percent", {"viewer_stalled_ms": 30, "viewer_watched_ms": 1_470, "viewer_joins": 3}, 2.0),
        ("delivered_gb", {"out_bytes": 2_500_000_000}, 2.5),
    ],
)
def test_each_metric_has_its_formula(name: str, fields: dict[str, int], expected: float) -> None:
    assert getattr(Figures.of_sums(fields), name) == pytest.approx(expected)


def test_undefined_metrics_of_empty_figures_are_none() -> None:
    empty = Figures()
    assert {one.name for one in DERIVED if getattr(empty, one.name) is not None} == {
        *("live_h", "lost_min", "player_minutes", "player_hours", "viewer_minutes", "viewer_hours", "delivered_gb")
    }
    assert (empty.health, empty.quantiles) == ("none", (None, None, None))


def test_percentiles_are_of_all_samples() -> None:
    """A part's are its own, several parts' those of their histograms. A part: as QUANTILE_FIELDS has it."""
    one = (pack_histogram([1.0, 2.0, 3.0]), 7.0, 8.0, None, 1.0, 3.0)
    assert merged_quantiles([one]) == (7.0, 8.0, None)
    assert merged_quantiles([one, (pack_histogram([10.0]), *NO_QUANTILES, 10.0, 10.0)]) == pytest.approx(
        (1, 2, 10), rel=0.01
    )


@pytest.mark.parametrize(
    ("good_s", "warning_s", "bad_s", "health"),
    [
        (3_600, 0, 0, "good"),
        (3_599, 0, 1, "good"),  # One bad second.
        (3_540, 0, 60, "warning"),  # A bad minute of an hour, 1.7 %.
        (86_340, 0, 60, "good"),  # A bad minute of a day, 0.07 %.
        (3_420, 0, 180, "bad"),  # 5 %.
        (3_564, 18, 18, "warning"),  # 1 % together.
        (3_565, 35, 0, "good"),
        (95, 0, 5, "good"),  # 5 %, but seconds.
        (10, 0, 10, "bad"),
        (0, 0, 4, "bad"),
        (0, 0, 0, "none"),
    ],
)
def test_health_is_by_the_share_of_the_time_and_not_by_a_bad_second(
    good_s: int, warning_s: int, bad_s: int, health: str
) -> None:
    of = Figures(good_ms=1000 * good_s, warning_ms=1000 * warning_s, bad_ms=1000 * bad_s)
    assert of.health == health


def test_the_variation_of_steady_samples_is_zero() -> None:
    assert Figures(samples=3, kbps_sum=9, kbps_squares=27).cv == 0
    assert not math.isnan(Figures(samples=3, kbps_sum=9, kbps_squares=26).cv or 0)


def test_sound_alone_has_no_video_bitrate() -> None:
    heard = Figures.of_sums({"audio_frames": 43, "elapsed_ms": 1000}, (0.0, 0.0, 0.0))
    found = (heard.video_kbps_mean, heard.video_kbps_p5, heard.video_kbps_p50, heard.video_kbps_p95)
    assert found == (None, None, None, None)
