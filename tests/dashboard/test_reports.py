"""Reports: the archive with its filters and plans, the sheet, its chart and its files, on pages and by the API."""

import io
import json
from datetime import time, timedelta
from typing import Any, cast

import pypdf
import pytest
from django.test import Client
from django.utils import timezone

from analytics.mails import report_content
from analytics.models import ReportDelivery, ReportPlan
from analytics.reports import subprocess_jobs
from analytics.reports.document import MOST_ROWS, VERSION, Chart
from dashboard.reports import charts as reports_charts
from ingest.models import Stream
from tests.dashboard.conftest import csv_rows, lacks, text_of
from tests.dashboard.demo_data import chart, document, make_delivery, make_report, stream_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reports_made_here", "still")]

URL = "/reports/"
BY_ANOTHER = subprocess_jobs.report
SENT, WAITING, FAILED = ReportDelivery.State.DONE, ReportDelivery.State.WAITING, ReportDelivery.State.DEAD


def shown(client: Client, query: str) -> list[int]:
    return [row.pk for row in client.get(f"{URL}?{query}").context["page"]]


def make_plan(**fields: Any) -> ReportPlan:
    return ReportPlan.objects.create(
        **({"name": "Each Monday", "kind": "weekly", "time_zone": "Europe/Berlin"} | fields)
    )


def test_without_reports_and_plans_the_page_says_how_they_come(viewer: Client, analyst: Client) -> None:
    page = text_of(viewer, URL)
    for words in ("No reports yet", "No schedules yet", "manage.py report make", "Settings, Report schedules"):
        assert words in page
    assert "Make the first report" not in page
    assert "Make the first report" in text_of(analyst, URL)


@pytest.mark.both_forms
def test_reports_are_listed_newest_first_with_delivery_results(viewer: Client) -> None:
    now = timezone.now()
    plan = make_plan()
    old = make_report(plan=plan, made_at=now - timedelta(days=7))
    new = make_report(kind="daily", scope="live/cam-1", hours_done=165, made_at=now)
    for recipient, state in (("a@example.org", SENT), ("b@example.org", SENT), ("c@example.org", FAILED)):
        make_delivery(old, recipient, state=state)
    make_delivery(new, "a@example.org", state=WAITING)
    page = text_of(viewer, URL)
    assert page.index(f'data-report="{new.pk}"') < page.index(f'data-report="{old.pk}"')
    for words in ("9 to 15 November 2026", "165 of 168 hours", "Complete", "Sent to 2", "1 failed", "1 queued"):
        assert words in page


@pytest.mark.both_forms
def test_reports_are_filtered_by_kind_plan_scope_and_completeness(viewer: Client) -> None:
    plan = make_plan()
    weekly = make_report(plan=plan)
    daily = make_report(kind="daily", scope="live/cam-1", hours_done=1)
    assert shown(viewer, "kind=daily") == [daily.pk]
    assert shown(viewer, "plan=Each+Monday") == [weekly.pk]
    assert shown(viewer, "scope=live%2Fcam-1") == [daily.pk]
    assert shown(viewer, "whole=yes") == [weekly.pk]
    assert shown(viewer, "whole=no") == [daily.pk]
    assert shown(viewer, "kind=%00&whole=x&page=y") == [daily.pk, weekly.pk]
    assert "No matching reports" in text_of(viewer, f"{URL}?kind=monthly")


@pytest.mark.both_forms
def test_pages_of_the_archive_keep_the_filters(viewer: Client) -> None:
    for number in range(51):
        make_report(made_at=timezone.now() - timedelta(hours=number))
    assert 'href="?kind=weekly&amp;page=2"' in text_of(viewer, f"{URL}?kind=weekly")
    assert len(shown(viewer, "kind=weekly&page=2")) == 1


def test_plans_say_when_they_come_next_by_their_own_clock(viewer: Client, analyst: Client, stream: Stream) -> None:
    make_plan(send_at=time(6, 30), recipients="ops@example.org", stream=stream)
    make_plan(name="Broadcasts", kind="broadcast")
    make_plan(name="Paused", is_enabled=False)
    seen = text_of(viewer, URL)
    assert "1 recipient<" in seen
    assert "ops@example.org" not in seen
    page = text_of(analyst, URL)
    assert lacks(page, "06:30", "Europe/Berlin", "ops@example.org", "live/cam-1", "after a broadcast", "Off") == []
    assert "Edit schedules" not in page
    planned = {each.plan.name: each.next for each in viewer.get(URL).context["plans"]}
    assert planned["Paused"] is None
    following = planned["Each Monday"]
    # A week has an hour more when summer time ends in it.
    assert timezone.now() < following <= timezone.now() + timedelta(days=7, hours=1)
    assert following.weekday() == 0


def test_only_who_may_change_plans_is_led_to_the_admin(boss: Client) -> None:
    assert "/admin/analytics/reportplan/add/" in text_of(boss, URL)
    make_plan()
    assert "Edit schedules" in text_of(boss, URL)


def test_report_page_shows_the_contents_of_its_document(viewer: Client) -> None:
    page = text_of(viewer, f"{URL}{make_report().pk}/")
    for words in (
        "Weekly stream report",
        "9 to 15 November 2026",
        "On Sunday <b>live/cam-1</b> fell to 1,920 kbit/s.",
        "<b>9 Nov 2026, 00:00 to 16 Nov 2026, 00:00</b>",
        "Europe/Berlin",
        "168 of 168 hours",
        "week before: 99.7 %",
        "Mean recovery",
        "live/cam-1 was below 70 % of its target for 2 h 53 min.",
        "Give the venue a wired uplink.",
        "live/cam-1, bitrate by hour",
        "was up 100 % of 138 h",
        "4,620 to 6,130",
        "Key expired",
        "Make a new key, or move its expiry.",
        "Health is 100 for good",
    ):
        assert words in page, words
    assert "E-mail" not in page
    assert viewer.get(f"{URL}{10**6}/").status_code == 404


@pytest.mark.slow("a PDF is drawn by a process that lets all others go first")
def test_a_report_of_the_former_shape_stays_readable(viewer: Client) -> None:
    """It counts reconnects, and has no lost time; what is made now counts drops."""
    newer = {"lost_min": 12.5, "unplanned_ends": 3, "average_players": 2.0, "bad_percent": 6.25, "warning_percent": 1.0}
    former = make_report(document(streams=[stream_row("cam-1", worst="bad")]))
    now = make_report(document(version=VERSION, streams=[stream_row("cam-1", worst="bad", **newer)]), kind="daily")
    for report, head, count, lost, health in (
        (former, "Reconnects", 7, "–", "Bad"),
        (now, "Drops", 3, "12.5", "Bad 6.2\u00a0%"),
    ):
        page = text_of(viewer, f"{URL}{report.pk}/")
        assert (
            lacks(page, f'<th class="num">{head}</th>', f'<td class="num">{lost}</td><td class="num">{count}</td>')
            == []
        )
        assert f"</svg>{health}</span>" in page
        mail = report_content(report)
        assert f"lost {lost} min, {head.lower()} {count}," in " ".join(mail.text.split())
        assert f'<th class="num">{head}</th>' in mail.html
        assert "6.2" in mail.html or report is former
        paper = pypdf.PdfReader(io.BytesIO(viewer.get(f"{URL}{report.pk}/report.pdf").content))
        assert head in "".join(sheet.extract_text() for sheet in paper.pages)
        (row,) = csv_rows(viewer.get(f"{URL}{report.pk}/report.csv"))
        assert (row["reconnects"], row["unplanned_ends"]) == ("7", "3" if report is now else "")


def test_the_sheet_has_its_tiles_and_the_rest_folded(viewer: Client) -> None:
    page = text_of(viewer, f"{URL}{make_report().pk}/")
    head, folded, rest = page.partition('<details class="folded" data-printed>')
    assert folded
    assert "Uptime" in head
    assert "Mean recovery" not in head
    assert "Mean recovery" in rest.partition("</details>")[0]


def test_streams_lead_to_their_history_in_its_days(viewer: Client) -> None:
    page = text_of(viewer, f"{URL}{make_report().pk}/")
    assert page.count('href="/analytics/?stream=live/cam-1&amp;from=2026-11-08&amp;to=2026-11-15"') == 2
    assert page.count('href="/analytics/?stream=live/cam-2&amp;from=2026-11-08&amp;to=2026-11-15"') == 1


def test_the_mail_s_plain_text_is_no_wider_than_a_terminal(viewer: Client) -> None:
    said = document()
    for finding in said["findings"]:
        finding["what"], finding["advice"] = f"{finding['what']} " * 3, "Give the venue a wired uplink. " * 5
    plain = report_content(make_report(said)).text
    assert [line for line in plain.splitlines() if len(line) > 80] == []
    assert "\n  Give the venue a wired uplink." in plain


NOTHING: Any = dict.fromkeys(("tiles", "more", "findings", "streams", "best", "charts", "refusals"), ())
INCOMPLETE = {"notes": ["3 of 168 hours were not computed."], "completeness": {"expected": 168, "done": 165}}
MARKUP = {"lede": "**<i>x</i>** & more", "streams": [stream_row('"><script>alert(1)</script>')]}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (INCOMPLETE, ["3 of 168 hours were not computed.", "165 of 168 hours"]),
        (NOTHING, ["Nothing was measured.", "No stream was live."]),
        (MARKUP, ["<b>&lt;i&gt;x&lt;/i&gt;</b> &amp; more"]),
    ],
    ids=["incomplete", "of nothing", "never markup"],
)
def test_report_page_handles_incomplete_empty_and_markup_documents(
    viewer: Client, fields: Any, words: list[str]
) -> None:
    page = text_of(viewer, f"{URL}{make_report(document(**fields), hours_done=165).pk}/")
    assert [each for each in words if each not in page] == []
    assert "<script>alert" not in page


@pytest.mark.matrix
def test_report_page_and_pdf_of_many_streams_show_the_worst_only(viewer: Client) -> None:
    many = [stream_row(f"live/cam-{number}") for number in range(MOST_ROWS + 5)]
    report = make_report(document(streams=many))
    page = text_of(viewer, f"{URL}{report.pk}/")
    assert page.count("data-stream=") == MOST_ROWS
    assert f"5 more, after the {MOST_ROWS} most affected, are in the CSV." in page
    paper = pypdf.PdfReader(io.BytesIO(viewer.get(f"{URL}{report.pk}/report.pdf").content))
    said = "".join(sheet.extract_text() for sheet in paper.pages)
    assert "5 more are in the CSV." in said
    assert f"live/cam-{MOST_ROWS}" not in said
    assert viewer.get(f"{URL}{report.pk}/report.csv").content.count(b"\n") == MOST_ROWS + 6


def test_report_deliveries_are_shown_to_analysts_and_not_to_viewers(viewer: Client, analyst: Client) -> None:
    report = make_report()
    make_delivery(report, "a@example.org", state=SENT, ended_at=timezone.now())
    make_delivery(report, "b@example.org", error="451 try later")
    assert "a@example.org" not in text_of(viewer, f"{URL}{report.pk}/")
    page = text_of(analyst, f"{URL}{report.pk}/")
    assert lacks(page, "a@example.org", "451 try later", "Failed, tried again", "next try at") == []


def plotted(**fields: Any) -> reports_charts.Plot:
    return reports_charts.plot(cast(Chart, chart() | fields), "Europe/Berlin")


def test_a_chart_has_a_line_for_each_time_on_air() -> None:
    drawn = plotted()
    assert len(drawn.lines) == len(drawn.bands) == 8  # Seven nights off air.
    assert [mark.label for mark in drawn.grid] == ["0", "2,000", "4,000", "6,000", "8,000"]
    assert [mark.label for mark in drawn.ticks] == ["Mon 9", "Tue 10"]
    heights = {mark.label: float(mark.at) for mark in drawn.grid}
    assert heights["0"] > heights["8,000"]
    assert float(drawn.target) == pytest.approx(heights["6,000"], abs=0.1)
    assert len(drawn.moments) == 168 - 21
    assert f"{drawn.moments[0].at:%Y-%m-%d %H:%M}" == "2026-11-09 00:00"


def test_the_last_label_of_a_chart_is_in_the_drawing() -> None:
    drawn = plotted(ticks=[{"at": 0.0, "label": "00:00"}, {"at": 168.0, "label": "00:00"}])
    first, last = (float(tick.words_at) for tick in drawn.ticks)
    assert first == reports_charts.BOX.left
    assert reports_charts.BOX.right - 20 < last < reports_charts.BOX.width - len("00:00") * 3


def test_an_hour_alone_is_a_short_line() -> None:
    drawn = plotted(p50=[None, 100.0, None], p5=[None, 50.0, None], p95=[None, 150.0, None], target=None)
    (line,) = drawn.lines
    places = [float(point.split(" ")[0]) for point in line.removeprefix("M").split("L")]
    width = (reports_charts.BOX.right - reports_charts.BOX.left) / 3
    assert places[-1] - places[0] == pytest.approx(width, abs=0.2)
    assert drawn.target == ""


def test_a_chart_of_nothing_is_empty() -> None:
    drawn = plotted(**dict.fromkeys(("p50", "p5", "p95"), [None] * 3), target=None)
    assert (drawn.lines, drawn.bands, drawn.moments) == ([], [], [])
    assert len(drawn.grid) == 5


@pytest.mark.parametrize("base", ["/reports/{}/report", "/api/v1/reports/{}"])
def test_report_csv_and_pdf_have_the_documents_contents(viewer: Client, base: str) -> None:
    """The percentiles with one decimal in the CSV, and with all in the document."""
    rows = [stream_row("cam-1", p5=4620.123456, p50=5890.987654, p95=None), stream_row("cam-2")]
    report = make_report(document(streams=rows), scope="live")
    base = base.format(report.pk)
    told = viewer.get(f"{base}.csv")
    assert told["Content-Type"] == "text/csv; charset=utf-8"
    assert told["Content-Disposition"] == 'attachment; filename="weekly-live-2026-11-09.csv"'
    first, second = csv_rows(told)
    assert (first["stream"], second["stream"]) == ("live/cam-1", "live/cam-2")
    assert (first["p5"], first["p50"], first["p95"]) == ("4620.1", "5891.0", "")
    printed = viewer.get(f"{base}.pdf")
    assert printed["Content-Type"] == "application/pdf"
    assert printed["Content-Disposition"].endswith('.pdf"')
    assert "9 to 15 November 2026" in pypdf.PdfReader(io.BytesIO(printed.content)).pages[0].extract_text()
    assert viewer.get(f"{base}.exe").status_code == 404


def test_report_document_is_served_as_json_by_page_and_api(viewer: Client) -> None:
    report = make_report(document(streams=[stream_row("cam-1", p50=5890.987654)]))
    assert json.loads(viewer.get(f"{URL}{report.pk}/report.json").content) == report.document
    assert viewer.get(f"/api/v1/reports/{report.pk}").json()["document"] == report.document


def test_api_lists_reports_without_documents(viewer: Client) -> None:
    report = make_report()
    answer = viewer.get("/api/v1/reports").json()
    assert answer["count"] == 1
    (item,) = answer["items"]
    assert (item["id"], item["kind"], item["hours_done"]) == (report.pk, report.kind, report.hours_done)
    assert "document" not in item
    assert viewer.get("/api/v1/reports?kind=monthly").json()["items"] == []
    for path in ("999", "999.pdf", "999.csv"):
        assert viewer.get(f"/api/v1/reports/{path}").status_code == 404


@pytest.mark.parametrize(
    "query", ["from=2026-11-14&to=2026-11-01", "to=9999-12-31T23:59-12:00", "from=0001-01-01T00:00%2B14:00"]
)
def test_api_refuses_an_impossible_time_range(viewer: Client, query: str) -> None:
    answer = viewer.get(f"/api/v1/reports?{query}")
    assert answer.status_code == 422
    assert "later than" in answer.text or "the year" in answer.text
