"""One table says what each figure of history is: the database, the formulas, files, API, pages and docs agree."""

import ast
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.db import models

from analytics import schemas
from analytics.figures import SUM_FIELDS, Figures
from analytics.metric_docs import TABLES, documented
from analytics.metrics import ALL, BY_NAME, DERIVED, METRICS, Kind, Merge, Metric
from analytics.models import IDENTITY, PACKED, Rollup
from dashboard.history.api import RollupOut
from dashboard.history.comparison import COMPARED, FURTHER
from dashboard.history.views import MERGED, ROLLUP_COLUMNS

DOCS = Path(__file__).parents[2] / "docs" / "analytics.md"

FIELDS: dict[Kind, tuple[type[models.Field[Any, Any]], ...]] = {
    Kind.WHOLE: (models.PositiveIntegerField, models.BigIntegerField),
    Kind.REAL: (models.FloatField,),
    Kind.TIME: (models.DateTimeField,),
    Kind.COUNTS: (models.JSONField,),
}
NAMES = [metric.name for metric in METRICS]
FOLLOWING = [one.name for one in DERIVED]


def test_a_name_is_one_figures() -> None:
    assert len(ALL) == len(BY_NAME)


@pytest.mark.parametrize("metric", METRICS, ids=NAMES)
def test_the_database_has_a_field_for_each(metric: Metric) -> None:
    field = Rollup._meta.get_field(metric.name)
    assert isinstance(field, FIELDS[metric.kind])
    assert isinstance(field, models.BigIntegerField) or metric.merge != Merge.SUM, "sums grow"
    assert (field.null, field.help_text) == (metric.nullable, metric.words)


def test_the_database_has_a_field_for_nothing_else() -> None:
    keys = {"id", "stream", *IDENTITY, *PACKED, "metric_version"}
    assert {field.name for field in Rollup._meta.concrete_fields} == {*NAMES, *keys}


def names_in(formula: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Name)} - {"sqrt", "max"}


@pytest.mark.parametrize("number", range(len(DERIVED)), ids=FOLLOWING)
def test_what_follows_is_of_sums_and_of_what_stands_before_it(number: int) -> None:
    one = DERIVED[number]
    assert names_in(one.formula) <= {*SUM_FIELDS, *FOLLOWING[:number]}
    found = getattr(Figures(), one.name)
    assert found == 0 if one.always else found is None


def test_figures_have_each_sum_and_each_that_follows_and_few_more() -> None:
    own = {field.name: field.type for field in fields(Figures)}
    assert own.keys() - set(NAMES) == {"quantiles"}
    assert all(own[name] is int for name in SUM_FIELDS)
    methods = {"of", "of_sums", "derived"}
    properties = {name for name in dir(Figures) if not name.startswith("_") and name not in own} - methods
    assert properties - set(BY_NAME) == {"health", "measured_ms", "keyframe_intervals"}
    assert properties >= set(FOLLOWING)


def test_files_the_api_pages_and_jobs_name_them_as_the_table_does() -> None:
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


def test_the_docs_tell_each_as_the_table_does() -> None:
    text = DOCS.read_text()
    assert text.count("<!-- metrics -->") == len(TABLES)
    assert documented(text) == text, "run python -m analytics.metric_docs docs/analytics.md"
    assert {figure.name for _, figures in TABLES for figure in figures} == set(BY_NAME)
