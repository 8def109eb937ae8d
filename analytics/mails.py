"""A report as e-mail: HTML with its charts inside, the same as plain text, its streams attached as CSV.

Charts are PNG by content id: most mail clients show no SVG, and load nothing from elsewhere."""

from django.template.loader import render_to_string

from analytics.models import Report
from analytics.models.reports import REPORT, report_of
from analytics.reports import charts, files
from analytics.reports.document import Document
from ingest.delivery.email import mail_domain
from ingest.delivery.kinds import MailContent, mail_of
from ingest.models import Delivery


@mail_of(REPORT, at_most_once=True, comes_last=True)
def report_mail(row: Delivery) -> MailContent:
    return report_content(Report.objects.get(pk=report_of(row)))


def report_content(report: Report) -> MailContent:
    document: Document = report.document
    cids = [f"chart-{number}.{report.pk}@{mail_domain()}" for number in range(1, len(document["charts"]) + 1)]
    context = files.template_context(report, [f"cid:{cid}" for cid in cids])
    return MailContent(
        subject=report_subject(document),
        text=render_to_string("reports/mail.txt", context),
        html=render_to_string("reports/mail.html", context),
        pictures={cid: charts.png(chart) for chart, cid in zip(document["charts"], cids, strict=True)},
        files=((f"{files.file_name(report)}.csv", files.report_csv(document), "text/csv"),),
    )


def report_subject(document: Document) -> str:
    """ "Weekly stream report: 7 to 13 November 2026 (live), 2 bad" """
    bad = sum(finding["level"] == "bad" for finding in document["findings"])
    of = f" ({document['scope']})" if document["scope"] else ""
    suffix = f", {bad} bad" if bad else ""
    return " ".join(f"{document['title']}: {document['period']['words']}{of}{suffix}".split())
