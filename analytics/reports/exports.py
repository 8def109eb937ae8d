"""A report as files: its streams as CSV, all of it as JSON."""

import json
from collections.abc import Iterator

from analytics.histograms import in_file
from analytics.metrics import PERCENTILES
from analytics.models import Report
from analytics.reports.document import Document, StreamRow
from ingest import csvlines

COLUMNS = tuple(StreamRow.__annotations__)


def csv(document: Document) -> str:
    """A line for each stream, worst first; each says the period, as such files are put together."""
    period = document["period"]
    about = (period["since"], period["until"], period["time_zone"], document["metric_version"])
    rows = ([*about, *_cells(row)] for row in document["streams"])
    return "".join(csvlines.lines(("since", "until", "time_zone", "metric_version", *COLUMNS), rows))


def _cells(row: StreamRow) -> Iterator[object]:
    for name in COLUMNS:
        value = row.get(name)
        yield in_file(value) if name in PERCENTILES and isinstance(value, float) else value


def as_json(document: Document) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1)


def name(report: Report) -> str:
    """Of its files, without the ending: weekly-2026-11-02, weekly-live-studio-1-2026-11-02."""
    scope = "".join(each if each.isascii() and each.isalnum() else "-" for each in report.scope)
    return "-".join(filter(None, (report.kind, scope.strip("-")[:60], f"{report.first_day:%Y-%m-%d}")))
