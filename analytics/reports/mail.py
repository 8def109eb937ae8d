"""A report as e-mail: HTML with its charts inside, the same as plain text, its streams attached as CSV.

Charts are PNG by content id: most mail clients show no SVG, and load nothing from elsewhere.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from email.mime.image import MIMEImage
from email.utils import parseaddr
from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse

from analytics.models import Report
from analytics.reports import charts, exports
from analytics.reports.document import Document
from ingest.links import absolute

MOST_ROWS = 40
"""Streams in the mail's table; the attached CSV has all."""
TILES_IN_ROW = 3


def subject(document: Document) -> str:
    """ "Weekly stream report: 7 to 13 November 2026 (live), 2 bad" """
    bad = sum(finding["level"] == "bad" for finding in document["findings"])
    of = f" ({document['scope']})" if document["scope"] else ""
    told = f", {bad} bad" if bad else ""
    return " ".join(f"{document['title']}: {document['period']['words']}{of}{told}".split())


def context(report: Report, sources: list[str]) -> dict[str, Any]:
    """`sources`: where each chart's picture is."""
    document: Document = report.document
    tiles = document["tiles"]
    return {
        "document": document,
        "tile_rows": [tiles[first : first + TILES_IN_ROW] for first in range(0, len(tiles), TILES_IN_ROW)],
        "charts": list(zip(document["charts"], sources, strict=True)),
        "rows": document["streams"][:MOST_ROWS],
        "more_rows": max(0, len(document["streams"]) - MOST_ROWS),
        "url": absolute(reverse("dashboard:report", args=[report.pk])),
    }


@dataclass(frozen=True, slots=True)
class Content:
    """What each recipient of a report gets. `pictures`: each chart as PNG, by its content id."""

    subject: str
    text: str
    html: str
    pictures: Mapping[str, bytes]
    csv_name: str
    csv: str


def content(report: Report) -> Content:
    document: Document = report.document
    cids = [f"chart-{number}.{report.pk}@{_domain()}" for number in range(1, len(document["charts"]) + 1)]
    about = context(report, [f"cid:{cid}" for cid in cids])
    return Content(
        subject=subject(document),
        text=render_to_string("reports/mail.txt", about),
        html=render_to_string("reports/mail.html", about),
        pictures={cid: charts.png(chart) for chart, cid in zip(document["charts"], cids, strict=True)},
        csv_name=f"{exports.name(report)}.csv",
        csv=exports.csv(document),
    )


def message(said: Content, recipient: str, *, message_id: str) -> EmailMultiAlternatives:
    """`message_id`: without its domain; by it, one that is sent again is known for the same."""
    made = EmailMultiAlternatives(
        said.subject,
        said.text,
        to=[recipient],
        headers={"Message-ID": f"<{message_id}@{_domain()}>", "Auto-Submitted": "auto-generated"},
    )
    made.attach_alternative(said.html, "text/html")
    for number, (cid, picture) in enumerate(said.pictures.items(), 1):
        made.attach(_inline(picture, cid, f"chart-{number}.png"))
    made.attach(said.csv_name, said.csv, "text/csv")
    return made


def _domain() -> str:
    return parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "localhost"


def _inline(picture: bytes, cid: str, file: str) -> MIMEImage:
    part = MIMEImage(picture, "png")
    part.add_header("Content-ID", f"<{cid}>")
    part.add_header("Content-Disposition", "inline", filename=file)
    return part


def page(report: Report) -> str:
    """The HTML with its charts in it: one file, for whoever opens it without a mail client."""
    document: Document = report.document
    pictures = [base64.b64encode(charts.png(chart)).decode() for chart in document["charts"]]
    return render_to_string(
        "reports/mail.html", context(report, [f"data:image/png;base64,{each}" for each in pictures])
    )
