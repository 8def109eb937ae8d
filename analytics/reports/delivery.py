"""A report's files (CSV, JSON, HTML), a report as e-mail, and its way to each recipient, once.

The mail is HTML with its charts inside, the same as plain text, its streams attached as CSV. Charts are PNG by content
id: most mail clients show no SVG, and load nothing from elsewhere.

A message is made first, then its row goes from waiting to sending by compare-and-swap, so that no two workers send it;
what is left is the talk with the mail server. A worker that dies within this second leaves a row that nobody can tell
of whether it arrived: it is given up and says so, rather than sent twice."""

import base64
import json
import logging
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.mime.image import MIMEImage
from email.utils import parseaddr
from enum import Enum, auto
from typing import Any

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db.models import F
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from analytics import csv_lines
from analytics.histograms import in_file
from analytics.metrics import PERCENTILES
from analytics.models import Report, ReportDelivery
from analytics.reports import charts
from analytics.reports.document import Document, StreamRow
from ingest import clean
from ingest.services import outgoing
from ingest.services.outgoing import absolute_url

COLUMNS = tuple(StreamRow.__annotations__)


def report_csv(document: Document) -> str:
    """A line for each stream, worst first; each says the period, as such files are put together."""
    period = document["period"]
    about = (period["since"], period["until"], period["time_zone"], document["metric_version"])
    rows = ([*about, *_cells(row)] for row in document["streams"])
    return "".join(csv_lines.lines(("since", "until", "time_zone", "metric_version", *COLUMNS), rows))


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


def mail_subject(document: Document) -> str:
    """ "Weekly stream report: 7 to 13 November 2026 (live), 2 bad" """
    bad = sum(finding["level"] == "bad" for finding in document["findings"])
    of = f" ({document['scope']})" if document["scope"] else ""
    told = f", {bad} bad" if bad else ""
    return " ".join(f"{document['title']}: {document['period']['words']}{of}{told}".split())


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


@dataclass(frozen=True, slots=True)
class MailContent:
    """What each recipient of a report gets. `pictures`: each chart as PNG, by its content id."""

    subject: str
    text: str
    html: str
    pictures: Mapping[str, bytes]
    csv_name: str
    csv: str


def mail_content(report: Report) -> MailContent:
    document: Document = report.document
    cids = [f"chart-{number}.{report.pk}@{_domain()}" for number in range(1, len(document["charts"]) + 1)]
    about = template_context(report, [f"cid:{cid}" for cid in cids])
    return MailContent(
        subject=mail_subject(document),
        text=render_to_string("reports/mail.txt", about),
        html=render_to_string("reports/mail.html", about),
        pictures={cid: charts.png(chart) for chart, cid in zip(document["charts"], cids, strict=True)},
        csv_name=f"{file_name(report)}.csv",
        csv=report_csv(document),
    )


def mail_message(said: MailContent, recipient: str, *, message_id: str) -> EmailMultiAlternatives:
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


def report_html(report: Report) -> str:
    """The HTML with its charts in it: one file, for whoever opens it without a mail client."""
    document: Document = report.document
    pictures = [base64.b64encode(charts.png(chart)).decode() for chart in document["charts"]]
    return render_to_string(
        "reports/mail.html", template_context(report, [f"data:image/png;base64,{each}" for each in pictures])
    )


logger = logging.getLogger(__name__)

State = ReportDelivery.State

DELAYS_S = (60, 300, 900, 3600, 10_800, 21_600, 21_600, 21_600)
"""Between one try and the next: about a day in all, then it is given up."""
JITTER = 0.2
LOST_AFTER = timedelta(minutes=5)
"""Longer than the talk with a mail server may take: some ten steps of `EMAIL_TIMEOUT`."""
LOST = (
    "The worker was lost while this was being sent: it may have arrived, and is not sent twice. "
    "If it did not, send it again."
)
REFUSED_FOR_GOOD = 500
"""SMTP's status from which on it is of no use to try again."""
MOST_ERROR = 500
AT_ONCE = 50
"""Messages of one go,"""
GO_S = 30
"""and seconds, after which it begins no further one: others have their turn in the worker."""


class Outcome(Enum):
    """What the server did with one."""

    TAKEN = auto()
    NOT_TAKEN = auto()
    AWAY = auto()


_random = random.SystemRandom()


def send_due(now: datetime) -> int:
    """Sends what is due; how many were taken by the server. Repeating it, or two at a time, sends nothing twice.

    Where the server is away, the first that it did not answer is the last of this go.
    """
    give_up_lost(now)
    due = ReportDelivery.objects.filter(state=State.WAITING, next_at__lte=now).order_by("next_at", "pk")
    contents: dict[int, MailContent] = {}
    connection = get_connection()
    ends = time.monotonic() + GO_S
    taken = 0
    try:
        for row in due.select_related("report")[:AT_ONCE]:
            outcome = _send(row, connection, contents)
            taken += outcome == Outcome.TAKEN
            if outcome == Outcome.AWAY or time.monotonic() > ends:
                break
    finally:
        outgoing.close_mail(connection)
    return taken


def give_up_lost(now: datetime) -> None:
    """Ends what was being sent by a worker that is gone."""
    lost = ReportDelivery.objects.filter(state=State.SENDING, next_at__lte=now - LOST_AFTER)
    if lost.update(state=State.FAILED, error=LOST):
        logger.error("%s", LOST)


def _send(row: ReportDelivery, connection: BaseEmailBackend, contents: dict[int, MailContent]) -> Outcome:
    """`contents`: of reports by their ids, each made for its first recipient."""
    if not outgoing.is_mail_set():
        _try_again(row, outgoing.NO_MAIL_SERVER)
        return Outcome.NOT_TAKEN
    try:
        if row.report_id not in contents:
            contents[row.report_id] = mail_content(row.report)
        said = contents[row.report_id]
        message = mail_message(said, row.recipient, message_id=f"report-{row.report_id}-{row.pk}")
    except Exception:
        logger.exception("Report %d can't be made into a message.", row.report_id)
        _try_again(row, "It can't be made into a message: see the worker's log.")
        return Outcome.NOT_TAKEN
    if not _claim(row):
        return Outcome.NOT_TAKEN
    message.connection = connection
    status, error = outgoing.send_mail(connection, message)
    if status == outgoing.MAIL_TAKEN:
        _settle(row, state=State.SENT, sent_at=timezone.now(), error="")
        return Outcome.TAKEN
    logger.warning("Report %d was not sent to one recipient: %s", row.report_id, error)
    if status is not None and status >= REFUSED_FOR_GOOD:
        _settle(row, state=State.FAILED, error=clean.text(error, MOST_ERROR))
    else:
        _try_again(row, error)
    return Outcome.AWAY if status is None else Outcome.NOT_TAKEN


def _claim(row: ReportDelivery) -> bool:
    """Whether it is ours to send: nobody else took it since it was read."""
    now = timezone.now()
    ours = ReportDelivery.objects.filter(pk=row.pk, state=State.WAITING, attempts=row.attempts)
    return bool(ours.update(state=State.SENDING, attempts=F("attempts") + 1, next_at=now))


def _try_again(row: ReportDelivery, error: str) -> None:
    """Later, or never if it was tried often enough. A try that came to no claim counts as well."""
    fields: dict[str, Any] = {"error": clean.text(error, MOST_ERROR), "attempts": row.attempts + 1}
    if row.attempts < len(DELAYS_S):
        delay = DELAYS_S[row.attempts] * _random.uniform(1 - JITTER, 1 + JITTER)
        fields |= {"state": State.WAITING, "next_at": timezone.now() + timedelta(seconds=delay)}
    else:
        fields |= {"state": State.FAILED}
    _settle(row, **fields)


def _settle(row: ReportDelivery, **fields: Any) -> None:
    """Unless another has settled it since."""
    ReportDelivery.objects.filter(
        pk=row.pk, state__in=[State.WAITING, State.SENDING], attempts__in=[row.attempts, row.attempts + 1]
    ).update(**fields)
