"""Streams, keys, encoders, applications or nodes beside each other: the page and its files."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard import exports
from dashboard.analytics import files
from dashboard.analytics.columns import COMPARED
from dashboard.analytics.comparing import DIMENSIONS, MOST, MOST_CHOSEN, Comparison
from dashboard.analytics.periods import RANGE_WORDS, Completeness
from dashboard.views.access import require_ability
from ingest.roles import Ability


@require_safe
@require_ability(Ability.VIEW)
def compare(request: HttpRequest) -> HttpResponse:
    comparison = Comparison.of(request.GET)
    context = {
        "comparison": comparison,
        "period": comparison.period,
        "completeness": Completeness.of(comparison.period),
        "columns": COMPARED,
        "dimensions": DIMENSIONS,
        "words": DIMENSIONS[comparison.dimension],
        "ranges": RANGE_WORDS,
        "most": MOST,
        "most_chosen": MOST_CHOSEN,
        "chart": comparison.chart() if comparison.chosen else None,
        "period_address": urlencode(comparison.time),
        "kept": urlencode({"by": str(comparison.dimension), "pick": comparison.picks}, doseq=True) + "&",
        "fixed": [("by", comparison.dimension), *(("pick", pick) for pick in comparison.picks)],
    }
    return render(request, "dashboard/analytics_compare.html", context)


@require_safe
@require_ability(Ability.VIEW)
def export_csv(request: HttpRequest) -> HttpResponseBase:
    """All that the page compares, in its order."""
    comparison = Comparison.of(request.GET)
    if comparison.lacking:
        return exports.lacking_answer(comparison.lacking)
    columns = files.COMPARED_COLUMNS
    rows = ([row[column] for column in columns] for row in files.compared_rows(comparison))
    return exports.csv_answer(_name(comparison), columns, rows)


@require_safe
@require_ability(Ability.VIEW)
def export_json(request: HttpRequest) -> HttpResponseBase:
    """The same as JSON."""
    comparison = Comparison.of(request.GET)
    if comparison.lacking:
        return exports.lacking_answer(comparison.lacking)
    return exports.json_answer(_name(comparison), files.compared_rows(comparison))


def _name(comparison: Comparison) -> str:
    period = comparison.period
    return f"by-{comparison.dimension}-{period.first_day:%Y%m%d}-{period.last_day:%Y%m%d}"
