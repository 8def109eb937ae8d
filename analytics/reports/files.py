"""A report's files: CSV, JSON, and the HTML that its mail is too."""

import base64
import json
from collections.abc import Iterator
from typing import Any

from django.template.loader import render_to_string
from django.urls import reverse

from analytics.histograms import in_file
from analytics.metrics import PERCENTILES
from analytics.models import Report
from analytics.reports import charts
from analytics.reports.document import Document, StreamRow
from ingest import clean
from ingest.services.media_urls import absolute_url

COLUMNS = tuple(StreamRow.__annotations__)


def report_csv(document: Document) -> str:
    """A line for each stream, worst first; each says the period, as such files are put together."""
    period = document["period"]
    about = (period["since"], period["until"], period["time_zone"], document["metric_version"])
    rows = ([*about, *_cells(row)] for row in document["streams"])
    return "".join(clean.csv_lines(("since", "until", "time_zone", "metric_version", *COLUMNS), rows))


def _cells(row: StreamRow) -> Iterator[object]:
    for name in COLUMNS:
        value = row.get(name)
        yield in_file(value) if name in PERCENTILES and isinstance(value, float) else value


def report_json(document: Document) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1)


def file_name(report: Report) -> str:
    """Of its files, without the ending: weekly-2026-11-02, weekly-live-studio-1-2026-11-02."""
    scope = "".join(each if each.isascii() and each.isalnum() else "-" for each in report.scope)
    return "-".join(filter(None, (report.kind, scope.strip("-")[:60], f"{report.first_day:%Y-%m-%d}")))


MOST_ROWS_IN_MAIL = 40
"""Streams in the mail's table; the attached CSV has all."""
TILES_IN_ROW = 3


def template_context(report: Report, sources: list[str]) -> dict[str, Any]:
    """`sources`: where each chart's picture is."""
    document: Document = report.document
    tiles = document["tiles"]
    return {
        "document": document,
        "tile_rows": [tiles[first : first + TILES_IN_ROW] for first in range(0, len(tiles), TILES_IN_ROW)],
        "charts": list(zip(document["charts"], sources, strict=True)),
        "rows": document["streams"][:MOST_ROWS_IN_MAIL],
        "more_rows": max(0, len(document["streams"]) - MOST_ROWS_IN_MAIL),
        "url": absolute_url(reverse("dashboard:report", args=[report.pk])),
    }


def report_html(report: Report) -> str:
    """The mail's HTML with its charts in it: one file, for whoever opens it without a mail client."""
    document: Document = report.document
    pictures = [base64.b64encode(charts.png(chart)).decode() for chart in document["charts"]]
    return render_to_string(
        "reports/mail.html", template_context(report, [f"data:image/png;base64,{each}" for each in pictures])
    )
