"""One table says what each figure of history is: the database, the formulas, files, API, pages and docs agree."""

import ast
import math
import random
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.db import models

from analytics import schemas
from analytics.figures import SUMMED, Figures
from analytics.metrics import ALL, DERIVED, MERGED_AS, METRICS, UNITS, Derived, Figure, Kind, Merge, Metric
from analytics.models import IDENTITY, PACKED, Rollup
from dashboard.history.api import RollupOut
from dashboard.history.comparison import COMPARED, FURTHER
from dashboard.history.views import MERGED, ROLLUP_COLUMNS

DOCS = Path(__file__).parents[2] / "docs" / "analytics.md"
ROW = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)

FIELDS: dict[Kind, tuple[type[models.Field[Any, Any]], ...]] = {
    Kind.WHOLE: (models.PositiveIntegerField, models.BigIntegerField),
    Kind.REAL: (models.FloatField,),
    Kind.TIME: (models.DateTimeField,),
    Kind.COUNTS: (models.JSONField,),
}
NAMES = [metric.name for metric in METRICS]
FOLLOWING = [one.name for one in DERIVED]


def test_a_name_is_one_figures() -> None:
    assert len(ALL) == len(UNITS)


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
def test_what_follows_is_by_its_formula(number: int) -> None:
    one = DERIVED[number]
    assert names_in(one.formula) <= {*SUMMED, *FOLLOWING[:number]}
    random_ = random.Random(one.name)
    for _ in range(20):
        # Many are 0; but what is summed over samples has some.
        sums: dict[str, Any] = {name: random_.choice([0, 1, random_.randrange(5_000_000)]) for name in SUMMED}
        sums["samples"] = max(sums["samples"], min(1, sums["kbps_sum"]))
        sums["kbps_squares"] = sums["kbps_sum"] ** 2
        values: dict[str, Any] = {**sums, "sqrt": math.sqrt, "max": max}
        wanted: float | None = None
        for each in DERIVED[: number + 1]:
            try:
                wanted = values[each.name] = eval(each.formula, {}, values)  # noqa: S307 (our own text)
            except ZeroDivisionError:
                wanted = values[each.name] = None
                assert not each.always
        found = getattr(Figures(**sums), one.name)
        assert found == (wanted if wanted is None else pytest.approx(wanted)), sums


def test_figures_have_each_sum_and_each_that_follows_and_few_more() -> None:
    own = {field.name: field.type for field in fields(Figures)}
    assert own.keys() - set(NAMES) == {"quantiles"}
    assert all(own[name] is int for name in SUMMED)
    properties = {name for name in dir(Figures) if not name.startswith("_") and name not in own} - {"of", "of_sums"}
    assert properties - set(UNITS) == {"health", "measured_ms", "keyframe_intervals"}
    assert properties >= set(FOLLOWING)


def test_files_the_api_pages_and_jobs_name_them_as_the_table_does() -> None:
    version = "metric_version"
    assert {*ROLLUP_COLUMNS} == {*IDENTITY, *UNITS, version}
    assert len(ROLLUP_COLUMNS) == len(IDENTITY) + len(UNITS) + 1
    assert set(MERGED) <= set(UNITS)
    described = {name: field.description for name, field in RollupOut.model_fields.items()}
    assert described.keys() == {*IDENTITY, *UNITS, version, "label", "health"}
    assert {figure.name: figure.words for figure in ALL} == {name: described[name] for name in UNITS}
    assert {column.name for column in (*COMPARED, *FURTHER)} <= set(UNITS)
    assert all(hasattr(Figures, column.name) for column in (*COMPARED, *FURTHER))
    histograms = {"video_histogram", "audio_histogram", "wire_histogram", "players_sketch"}
    columns = {f"{metric.name}_us" if metric.kind == Kind.TIME else metric.name for metric in METRICS}
    assert schemas.ROLLUPS.keys() == {*schemas.GROUP, "stream", *columns, *histograms}


def cells(figure: Figure) -> str:
    """Its row in the docs, behind its name."""
    further: list[str] = []
    if isinstance(figure, Derived):
        further = [f"`{figure.formula}`"]
    elif isinstance(figure, Metric) and figure.merge not in (Merge.SUM, Merge.COUNTS):
        further = [MERGED_AS[figure.merge]]
    return " | ".join([figure.unit, figure.doc, *further])


def test_the_docs_tell_each_as_the_table_does() -> None:
    assert dict(ROW.findall(DOCS.read_text())) == {figure.name: cells(figure) for figure in ALL}
