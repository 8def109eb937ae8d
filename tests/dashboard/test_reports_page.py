"""The pages of reports: the archive with its filters and plans, the sheet, its files, making one and sending it."""

import csv
import io
import json
from datetime import datetime, time, timedelta
from typing import Any

import pypdf
import pytest
from django.test import Client
from django.utils import timezone

from analytics.mails import report_content
from analytics.models import FIGURES, METRIC_VERSION, Report, ReportDelivery, ReportPlan, Rollup
from analytics.reports import subprocess_jobs
from analytics.reports.document import MOST_ROWS
from dashboard.reports import charts as reports_charts
from ingest.models import AuditEntry, Stream
from tests.dashboard.conftest import client_of, make_session, make_user
from tests.dashboard.documents import SINCE, WEEK, chart, document, make_delivery, make_report, stream_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reports_made_here", "still")]

URL = "/reports/"
BY_ANOTHER = subprocess_jobs.report
SENT, WAITING, FAILED = ReportDelivery.State.DONE, ReportDelivery.State.WAITING, ReportDelivery.State.DEAD


@pytest.fixture
def analyst() -> Client:
    return client_of(make_user("analyst", name="ana"))


def text(client: Client, url: str = URL) -> str:
    answer = client.get(url)
    assert answer.status_code == 200
    return answer.content.decode()


def shown(client: Client, query: str) -> list[int]:
    return [row.pk for row in client.get(f"{URL}?{query}").context["page"]]


def make_plan(**fields: Any) -> ReportPlan:
    return ReportPlan.objects.create(
        **({"name": "Each Monday", "kind": "weekly", "time_zone": "Europe/Berlin"} | fields)
    )


# --- The archive ---


def test_without_reports_and_plans_the_page_says_how_they_come(viewer: Client, analyst: Client) -> None:
    page = text(viewer)
    for words in ("No report was made yet", "No report comes by itself yet", "manage.py report make", "in the admin"):
        assert words in page
    assert "Make the first report" not in page
    assert "Make the first report" in text(analyst)


@pytest.mark.both_forms
def test_reports_are_shown_newest_first_with_what_became_of_them(viewer: Client) -> None:
    now = timezone.now()
    plan = make_plan()
    old = make_report(plan=plan, made_at=now - timedelta(days=7))
    new = make_report(kind="daily", scope="live/cam-1", hours_done=165, made_at=now)
    for recipient, state in (("a@example.org", SENT), ("b@example.org", SENT), ("c@example.org", FAILED)):
        make_delivery(old, recipient, state=state)
    make_delivery(new, "a@example.org")
    page = text(viewer)
    assert page.index(f'data-report="{new.pk}"') < page.index(f'data-report="{old.pk}"')
    for words in ("9 to 15 November 2026", "165 of 168 hours", "Complete", "Sent to 2", "1 given up", "1 waiting"):
        assert words in page


@pytest.mark.both_forms
def test_filters(viewer: Client) -> None:
    plan = make_plan()
    weekly = make_report(plan=plan)
    daily = make_report(kind="daily", scope="live/cam-1", hours_done=1)
    assert shown(viewer, "kind=daily") == [daily.pk]
    assert shown(viewer, "plan=Each+Monday") == [weekly.pk]
    assert shown(viewer, "scope=live%2Fcam-1") == [daily.pk]
    assert shown(viewer, "whole=yes") == [weekly.pk]
    assert shown(viewer, "whole=no") == [daily.pk]
    assert shown(viewer, "kind=%00&whole=x&page=y") == [daily.pk, weekly.pk]
    assert "No report matches" in text(viewer, f"{URL}?kind=monthly")


@pytest.mark.both_forms
def test_pages_of_the_archive_keep_the_filters(viewer: Client) -> None:
    for number in range(51):
        make_report(made_at=timezone.now() - timedelta(hours=number))
    assert 'href="?kind=weekly&amp;page=2"' in text(viewer, f"{URL}?kind=weekly")
    assert len(shown(viewer, "kind=weekly&page=2")) == 1


def test_plans_say_when_they_come_next_by_their_own_clock(viewer: Client, analyst: Client, stream: Stream) -> None:
    make_plan(send_at=time(6, 30), recipients="ops@example.org", stream=stream)
    make_plan(name="Broadcasts", kind="broadcast")
    make_plan(name="Paused", is_enabled=False)
    seen = text(viewer)
    assert "1 recipient<" in seen
    assert "ops@example.org" not in seen
    page = text(analyst)
    for words in ("06:30", "Europe/Berlin", "ops@example.org", "live/cam-1", "after a broadcast", "Off"):
        assert words in page
    assert "Change plans" not in page
    planned = {each.plan.name: each.next for each in viewer.get(URL).context["plans"]}
    assert planned["Paused"] is None
    following = planned["Each Monday"]
    # A week has an hour more when summer time ends in it.
    assert timezone.now() < following <= timezone.now() + timedelta(days=7, hours=1)
    assert following.weekday() == 0


def test_only_who_may_change_plans_is_led_to_the_admin(db: None) -> None:
    boss = make_user("admin", name="boss")
    boss.is_superuser = boss.is_staff = True
    boss.save()
    assert "/admin/analytics/reportplan/add/" in text(client_of(boss))
    make_plan()
    assert "Change plans" in text(client_of(boss))


# --- The sheet ---


def test_the_sheet_says_what_the_document_says(viewer: Client) -> None:
    page = text(viewer, f"{URL}{make_report().pk}/")
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


def test_streams_lead_to_their_history_in_its_days(viewer: Client) -> None:
    page = text(viewer, f"{URL}{make_report().pk}/")
    assert page.count('href="/analytics/?stream=live/cam-1&amp;from=2026-11-08&amp;to=2026-11-15"') == 2
    assert page.count('href="/analytics/?stream=live/cam-2&amp;from=2026-11-08&amp;to=2026-11-15"') == 1


def test_the_mail_s_plain_text_is_no_wider_than_a_terminal(viewer: Client) -> None:
    said = document()
    for finding in said["findings"]:
        finding["what"], finding["advice"] = f"{finding['what']} " * 3, "Give the venue a wired uplink. " * 5
    plain = report_content(make_report(said)).text
    assert [line for line in plain.splitlines() if len(line) > 80] == []
    assert "\n  Give the venue a wired uplink." in plain


def test_what_a_document_says_is_never_markup(viewer: Client) -> None:
    said = document(lede="**<i>x</i>** & more", streams=[stream_row('"><script>alert(1)</script>')])
    page = text(viewer, f"{URL}{make_report(said).pk}/")
    assert "<b>&lt;i&gt;x&lt;/i&gt;</b> &amp; more" in page
    assert "<script>alert" not in page


def test_an_incomplete_report_says_so(viewer: Client) -> None:
    said = document(notes=["3 of 168 hours were not computed."], completeness={"expected": 168, "done": 165})
    page = text(viewer, f"{URL}{make_report(said, hours_done=165).pk}/")
    assert "3 of 168 hours were not computed." in page
    assert "165 of 168 hours" in page


def test_a_report_of_nothing_is_a_page(viewer: Client) -> None:
    nothing: dict[str, Any] = {
        name: [] for name in ("tiles", "more", "findings", "streams", "best", "charts", "refusals")
    }
    page = text(viewer, f"{URL}{make_report(document(**nothing)).pk}/")
    assert "Nothing was measured." in page
    assert "No stream was on air." in page


@pytest.mark.slow("a PDF of thousands of streams is drawn")
def test_of_very_many_streams_the_page_and_the_pdf_show_the_worst(viewer: Client) -> None:
    many = [stream_row(f"live/cam-{number}") for number in range(MOST_ROWS + 5)]
    report = make_report(document(streams=many))
    page = text(viewer, f"{URL}{report.pk}/")
    assert page.count("data-stream=") == MOST_ROWS
    assert f"5 more, after the worst {MOST_ROWS}, are in the CSV." in page
    paper = pypdf.PdfReader(io.BytesIO(viewer.get(f"{URL}{report.pk}/report.pdf").content))
    said = "".join(sheet.extract_text() for sheet in paper.pages)
    assert "5 more are in the CSV." in said
    assert f"live/cam-{MOST_ROWS}" not in said
    assert viewer.get(f"{URL}{report.pk}/report.csv").content.count(b"\n") == MOST_ROWS + 6


def test_deliveries_are_with_the_report_for_those_who_send(viewer: Client, analyst: Client) -> None:
    report = make_report()
    make_delivery(report, "a@example.org", state=SENT, ended_at=timezone.now())
    make_delivery(report, "b@example.org", error="451 try later")
    assert "a@example.org" not in text(viewer, f"{URL}{report.pk}/")
    page = text(analyst, f"{URL}{report.pk}/")
    for words in ("a@example.org", "451 try later", "Failed, tried again", "next try at"):
        assert words in page


# --- The chart ---


def test_a_chart_has_a_line_for_each_time_on_air() -> None:
    drawn = reports_charts.plot(chart(), "Europe/Berlin")
    assert len(drawn.lines) == len(drawn.bands) == 8  # Seven nights off air.
    assert [mark.label for mark in drawn.grid] == ["0", "2,000", "4,000", "6,000", "8,000"]
    assert [mark.label for mark in drawn.ticks] == ["Mon 9", "Tue 10"]
    heights = {mark.label: float(mark.at) for mark in drawn.grid}
    assert heights["0"] > heights["8,000"]
    assert float(drawn.target) == pytest.approx(heights["6,000"], abs=0.1)
    assert len(drawn.moments) == 168 - 21
    assert f"{drawn.moments[0].at:%Y-%m-%d %H:%M}" == "2026-11-09 00:00"


def test_the_last_label_of_a_chart_is_in_the_drawing() -> None:
    drawn = reports_charts.plot(
        {**chart(), "ticks": [{"at": 0.0, "label": "00:00"}, {"at": 168.0, "label": "00:00"}]}, "UTC"
    )
    first, last = (float(tick.words_at) for tick in drawn.ticks)
    assert first == reports_charts.BOX.left
    assert reports_charts.BOX.right - 20 < last < reports_charts.BOX.width - len("00:00") * 3


def test_an_hour_alone_is_a_short_line() -> None:
    one: Any = chart() | {
        "p50": [None, 100.0, None],
        "p5": [None, 50.0, None],
        "p95": [None, 150.0, None],
        "target": None,
    }
    drawn = reports_charts.plot(one, "UTC")
    (line,) = drawn.lines
    places = [float(point.split(" ")[0]) for point in line.removeprefix("M").split("L")]
    width = (reports_charts.BOX.right - reports_charts.BOX.left) / 3
    assert places[-1] - places[0] == pytest.approx(width, abs=0.2)
    assert drawn.target == ""


def test_a_chart_of_nothing_is_empty() -> None:
    none: Any = chart() | {"p50": [None] * 3, "p5": [None] * 3, "p95": [None] * 3, "target": None}
    drawn = reports_charts.plot(none, "UTC")
    assert (drawn.lines, drawn.bands, drawn.moments) == ([], [], [])
    assert len(drawn.grid) == 5


# --- Its files ---


def test_the_files_say_the_same(viewer: Client) -> None:
    report = make_report(scope="live")
    base = f"{URL}{report.pk}/report"
    told = viewer.get(f"{base}.csv")
    rows = list(csv.DictReader(io.StringIO(told.content.decode())))
    assert [row["stream"] for row in rows] == ["live/cam-1", "live/cam-2"]
    assert told["Content-Disposition"] == 'attachment; filename="weekly-live-2026-11-09.csv"'
    assert json.loads(viewer.get(f"{base}.json").content) == report.document
    printed = viewer.get(f"{base}.pdf")
    assert printed["Content-Type"] == "application/pdf"
    pages = pypdf.PdfReader(io.BytesIO(printed.content)).pages
    assert "9 to 15 November 2026" in pages[0].extract_text()
    assert viewer.get(f"{base}.exe").status_code == 404


def test_while_another_is_made_the_pages_say_so(analyst: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_jobs, "report", BY_ANOTHER)
    monkeypatch.setattr(subprocess_jobs, "WAIT_S", 0.05)
    report = make_report()
    with subprocess_jobs._one_at_a_time:
        refused = [
            analyst.get(f"{URL}{report.pk}/report.pdf"),
            analyst.post(f"{URL}make", {"kind": "weekly", "time_zone": "UTC"}),
        ]
    for answer in refused:
        assert answer.status_code == 503
        assert subprocess_jobs.BUSY in answer.content.decode()
    assert Report.objects.get() == report


# --- Making one ---


def test_a_report_is_made_for_the_last_period_or_the_one_with_a_day(analyst: Client, stream: Stream) -> None:
    answer = analyst.post(f"{URL}make", {"kind": "daily", "time_zone": "Europe/Berlin"})
    last = Report.objects.get()
    assert answer["Location"] == f"{URL}{last.pk}/"
    # The day on which summer time ends has 25 hours.
    assert last.until <= timezone.now() < last.until + timedelta(hours=25)
    form = {"kind": "weekly", "day": "2026-11-12", "time_zone": "Europe/Berlin", "scope": "live/cam-1"}
    page = analyst.post(f"{URL}make", form, follow=True)
    assert "9 to 15 November 2026" in page.content.decode()
    made = Report.objects.latest("pk")
    assert (made.since, made.until, made.scope) == (SINCE, SINCE + WEEK, "live/cam-1")
    assert made.made_by is not None
    assert made.made_by.username == "ana"
    entry = AuditEntry.objects.filter(action="report.make").first()
    assert entry is not None
    assert entry.detail == {"report": made.pk}


@pytest.mark.both_forms
def test_a_report_is_made_of_a_stream_s_last_broadcast(analyst: Client, stream: Stream) -> None:
    wish = {"kind": "broadcast", "time_zone": "UTC", "scope": "live/cam-1"}

    def refusal(**more: str) -> str:
        answer = analyst.post(f"{URL}make", wish | more)
        assert answer.status_code == 422
        return str(answer.content.decode())

    assert "Give the stream whose broadcast it is about" in refusal(scope="live")
    assert "No broadcast of live/cam-1 has ended in the last 60 days." in refusal()
    session = make_session(stream, age_s=7200, ended_ago_s=3600)
    assert "No broadcast of live/cam-1 on 2026-01-02 has ended." in refusal(day="2026-01-02")
    assert "It is not computed yet." in refusal()
    make_rollup(session.started_at)
    answer = analyst.post(f"{URL}make", wish)
    made = Report.objects.get()
    assert answer["Location"] == f"{URL}{made.pk}/"
    assert (made.kind, made.since, made.until) == ("broadcast", session.started_at, session.ended_at)


def make_rollup(begins: datetime) -> None:
    """Of the broadcast's first hour."""
    counts = {name: 0 for name in FIGURES if Rollup._meta.get_field(name).get_internal_type() == "BigIntegerField"}
    Rollup.objects.create(
        grain="hour",
        dimension="broadcast",
        start=begins.replace(minute=0, second=0, microsecond=0),
        app="live",
        name="cam-1",
        value=begins.isoformat(),
        sessions=1,
        peak_players=0,
        metric_version=METRIC_VERSION,
        **counts,
    )


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"kind": "yearly"}, "Select a valid choice"),
        ({"time_zone": "Mars/Olympus"}, "Select a valid choice"),
        ({"day": "someday"}, "Enter a valid date"),
        ({"scope": "nowhere"}, "There is no application or stream nowhere"),
        ({"scope": "live/none"}, "There is no application or stream live/none"),
        ({"day": "0001-01-01"}, "The period has to be in the years 2000 to 2100."),
        ({"day": "9999-12-31"}, "The period has to be in the years 2000 to 2100."),
        ({"kind": "broadcast", "scope": "live/cam-1", "day": "0001-01-01"}, "The period has to be in the years"),
        ({"kind": "broadcast", "scope": "live/cam-1", "day": "9999-12-31"}, "The period has to be in the years"),
    ],
)
def test_what_can_t_be_made_is_explained(analyst: Client, stream: Stream, form: dict[str, str], said: str) -> None:
    answer = analyst.post(f"{URL}make", {"kind": "weekly", "time_zone": "UTC"} | form)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert said in page
    assert "data-open" in page
    assert not Report.objects.exists()


# --- Sending it ---


def test_a_report_is_sent_once_to_each(analyst: Client) -> None:
    report = make_report(plan=make_plan(recipients="ops@example.org"))
    make_delivery(report, "ops@example.org", state=SENT, attempts=1)
    assert "ops@example.org</textarea>" in text(analyst, f"{URL}{report.pk}/")
    to = {"recipients": "ops@example.org, new@example.org\nnew@example.org"}
    page = analyst.post(f"{URL}{report.pk}/send", to, follow=True).content.decode()
    assert "It is sent to 1. 1 of these had it already." in page
    assert dict(report.deliveries.values_list("address", "state")) == {
        "ops@example.org": SENT,
        "new@example.org": WAITING,
    }
    entry = AuditEntry.objects.get(action="report.send")
    assert entry.detail == {"report": report.pk, "recipients": ["ops@example.org", "new@example.org"]}
    page = analyst.post(f"{URL}{report.pk}/send", {"recipients": "ops@example.org"}, follow=True).content.decode()
    assert "Nothing is sent. 1 of these had it already." in page


@pytest.mark.parametrize(
    ("recipients", "said"),
    [
        ("", "Give at least one address."),
        (" ,\n", "Give at least one address."),
        ("ops@example.org nobody", "nobody is no e-mail address"),
        ("\n".join(f"a{number}@example.org" for number in range(51)), "At most 50 recipients"),
    ],
)
def test_recipients_that_are_none_are_explained(analyst: Client, recipients: str, said: str) -> None:
    report = make_report()
    answer = analyst.post(f"{URL}{report.pk}/send", {"recipients": recipients})
    assert answer.status_code == 422
    assert said in answer.content.decode()
    assert not ReportDelivery.objects.exists()


def test_a_page_without_a_mail_server_says_so(analyst: Client, settings: Any) -> None:
    settings.EMAIL_URL = ""
    assert "RTMPWEB_EMAIL_URL" in text(analyst, f"{URL}{make_report().pk}/")


def test_a_viewer_neither_makes_nor_sends(viewer: Client) -> None:
    report = make_report()
    assert viewer.post(f"{URL}make", {"kind": "weekly", "time_zone": "UTC"}).status_code == 403
    assert viewer.post(f"{URL}{report.pk}/send", {"recipients": "a@example.org"}).status_code == 403
    assert not ReportDelivery.objects.exists()
