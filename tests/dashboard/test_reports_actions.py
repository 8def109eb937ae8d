"""Reports are made, planned and sent: by the page, the API and the admin, within what is allowed."""

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from analytics.models import AnalyticsRun, Dimension, Report, ReportDelivery, ReportPlan, RunLine
from analytics.reports import subprocess_jobs
from dashboard import tasks
from dashboard.throttle import MAILED
from ingest.models import AuditEntry, Stream
from tests.analytics.rollups import make_rollup
from tests.dashboard.conftest import api_token, client_of, make_session, make_stream, make_user, text_of
from tests.dashboard.demo_data import SINCE, WEEK, make_delivery, make_report

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still", "lake", "reports_made_here")]

JSON = "application/json"
URL = "/reports/"
SENT, WAITING = ReportDelivery.State.DONE, ReportDelivery.State.WAITING
BY_ANOTHER = subprocess_jobs.report


@pytest.mark.parametrize(
    ("wish", "since", "until"),
    [
        ({"kind": "weekly", "from": "2026-11-04T12:00"}, "2026-11-02T00:00:00Z", "2026-11-09T00:00:00Z"),
        (
            {"kind": "daily", "from": "2026-10-25T00:00", "time_zone": "Europe/Berlin"},
            "2026-10-24T22:00:00Z",
            "2026-10-25T23:00:00Z",
        ),
        ({"kind": "daily", "from": "2000-01-01T05:00Z"}, "2000-01-01T00:00:00Z", "2000-01-02T00:00:00Z"),
        (
            {"kind": "daily", "from": "2026-11-04T12:00Z", "to": "2026-11-04T15:00Z", "scope": "live"},
            "2026-11-04T12:00:00Z",
            "2026-11-04T15:00:00Z",
        ),
    ],
)
def test_api_makes_a_report_of_the_requested_period_and_scope(
    analyst: Client, stream: Stream, wish: dict[str, str], since: str, until: str
) -> None:
    answer = analyst.post("/api/v1/reports", wish, content_type=JSON)
    assert answer.status_code == 201, answer.content
    made = answer.json()
    assert (made["since"], made["until"], made["scope"]) == (since, until, wish.get("scope", ""))
    assert Report.objects.get().pk == made["id"]
    assert made["document"]["lede"].startswith("Nothing was published")


@pytest.mark.parametrize(
    ("wish", "problem"),
    [
        ({"kind": "daily", "time_zone": "Mars/Olympus"}, "time zone"),
        ({"kind": "daily", "to": "2026-11-04T12:00Z"}, "give `from`"),
        ({"kind": "daily", "from": "2026-11-04T12:00Z", "to": "2026-11-04T12:00Z"}, "after it begins"),
        ({"kind": "daily", "from": "2020-11-04T12:00Z", "to": "2026-11-04T12:00Z"}, "within 400 days"),
        ({"kind": "daily", "from": "0001-01-01T00:00Z"}, "period"),
        ({"kind": "daily", "from": "9999-12-31T23:00Z"}, "period"),
        ({"kind": "daily", "scope": "none"}, "no application or stream none."),
        ({"kind": "daily", "scope": "live/none"}, "no application or stream live/none."),
    ],
)
def test_api_refuses_an_invalid_report_with_a_reason(
    analyst: Client, stream: Stream, wish: dict[str, str], problem: str
) -> None:
    answer = analyst.post("/api/v1/reports", wish, content_type=JSON)
    assert answer.status_code == 400
    assert problem in answer.json()["detail"]
    assert not Report.objects.exists()


def test_report_of_uncomputed_hours_says_nothing_has_been_computed_yet(analyst: Client, settings: Any) -> None:
    recorded = settings.LAKE_DIR / "samples/v=1/dt=2026-11-04/hr=12/n1-1-1.parquet"
    recorded.parent.mkdir(parents=True)
    recorded.write_bytes(b"PAR1")
    wish = {"kind": "daily", "from": "2026-11-04"}
    document = analyst.post("/api/v1/reports", wish, content_type=JSON).json()["document"]
    assert document["lede"] == "Nothing has been computed yet of what was published in this day."
    (note,) = document["notes"]
    assert note.startswith("1 of 1 hours was not computed")


ADD = "/admin/analytics/reportplan/add/"

PLAN = {
    "name": "Each Monday",
    "kind": "weekly",
    "time_zone": "Europe/Berlin",
    "send_at": "06:30",
    "recipients": "ops@example.org, lead@example.org",
    "app": "",
    "stream": "",
    "is_enabled": "on",
}


def refusal(boss: Client, **fields: Any) -> str:
    answer = boss.post(ADD, PLAN | fields)
    assert answer.status_code == 200
    assert not ReportPlan.objects.exists()
    return str(answer.content.decode())


def schedule() -> list[tuple[str, ...]]:
    tasks = PeriodicTask.objects.filter(task="analytics.reports.tasks.make_due")
    clocks = [task.crontab for task in tasks if task.crontab]
    return [(each.hour, each.minute, each.day_of_week, str(each.timezone)) for each in clocks]


def test_a_plan_is_made_with_its_entry_in_the_schedule_and_in_the_log(boss: Client, stream: Stream) -> None:
    assert "Europe/Berlin</option>" in boss.get(ADD).content.decode()
    assert boss.post(ADD, PLAN | {"stream": stream.pk}).status_code == 302
    plan = ReportPlan.objects.get()
    assert plan.addresses == ["ops@example.org", "lead@example.org"]
    assert schedule() == [("6", "30", "1", "Europe/Berlin")]
    entry = AuditEntry.objects.get(action="report_plan.create")
    assert entry.actor == "boss"
    assert entry.stream == stream


def test_a_plan_s_change_and_deletion_reach_the_schedule(boss: Client) -> None:
    boss.post(ADD, PLAN)
    plan = ReportPlan.objects.get()
    boss.post(f"/admin/analytics/reportplan/{plan.pk}/change/", PLAN | {"kind": "daily", "send_at": "23:15"})
    assert schedule() == [("23", "15", "*", "Europe/Berlin")]
    entry = AuditEntry.objects.get(action="report_plan.change")
    assert entry.detail["changed"]["kind"] == ["weekly", "daily"]
    boss.post(f"/admin/analytics/reportplan/{plan.pk}/delete/", {"post": "yes"})
    assert schedule() == []
    assert AuditEntry.objects.filter(action="report_plan.delete").exists()


def test_invalid_report_plan_is_refused_with_a_reason(boss: Client, stream: Stream) -> None:
    make_stream("other", app="cams")
    assert "nobody is no e-mail address" in refusal(boss, recipients="ops@example.org\nnobody")
    assert "There is no application nowhere" in refusal(boss, app="nowhere")
    assert "is of another application" in refusal(boss, app="cams", stream=stream.pk)
    assert "Select a valid choice" in refusal(boss, time_zone="Mars/Olympus")
    assert "Enter a valid time" in refusal(boss, send_at="25:00")


def test_duplicate_report_plan_name_is_refused(boss: Client) -> None:
    ReportPlan.objects.create(name="Each Monday", kind="daily")
    answer = boss.post(ADD, PLAN)
    assert "Another report schedule has this name" in answer.content.decode()


def test_the_archive_and_the_log_are_to_read(boss: Client) -> None:
    report = make_report()
    delivery = make_delivery(report, "ops@example.org", error="451 later")
    run = AnalyticsRun.objects.create(trigger="page", state="done")
    line = RunLine.objects.create(run=run, text="Begins on host-1.")
    for model, row, words in (
        ("report", report, "ops@example.org"),
        ("reportdelivery", delivery, "451 later"),
        ("runline", line, "Begins on host-1."),
        ("analyticsrun", run, "Begins on host-1."),
    ):
        base = f"/admin/analytics/{model}"
        assert words in boss.get(f"{base}/{row.pk}/change/").content.decode()
        assert boss.get(f"{base}/").status_code == 200
        assert boss.post(f"{base}/{row.pk}/delete/", {"post": "yes"}).status_code == 403
        assert boss.get(f"{base}/add/").status_code == 403
    assert Report.objects.exists()


def test_the_admin_calls_several_of_each_by_their_plural(admin_client: Client) -> None:
    assert "Report deliveries" in admin_client.get("/admin/").content.decode()
    plurals = [str(model._meta.verbose_name_plural) for model in apps.get_models()]
    assert [name for name in plurals if re.search(r"[^aeiou]ys$", name)] == []


AT_ONCE = 50


def send(client: Client, report: Report, first: int, count: int) -> tuple[int, str]:
    recipients = "\n".join(f"a{number}@example.org" for number in range(first, first + count))
    answer = client.post(f"/reports/{report.pk}/send", {"recipients": recipients})
    return answer.status_code, answer.content.decode()


@pytest.mark.both_forms
def test_an_account_sends_to_so_many_addresses_an_hour() -> None:
    ana = client_of(make_user("analyst", name="ana"))
    report = make_report()
    for first in range(0, MAILED.most - 1, AT_ONCE):
        assert send(ana, report, first, min(AT_ONCE, MAILED.most - 1 - first))[0] == 302
    entries = AuditEntry.objects.count()
    assert send(ana, report, 0, AT_ONCE)[0] == 302, "whoever has got it counts no second time"
    status, page = send(ana, make_report(), 0, 2)
    assert status == 429
    assert "An account may send reports to 200 addresses an hour" in page
    assert "a1@example.org</textarea>" in page, "what was typed is still there"
    assert ReportDelivery.objects.count() == MAILED.most - 1
    assert AuditEntry.objects.count() == entries + 1
    another = make_report()
    assert send(ana, another, 0, 1)[0] == 302, "what was refused is not counted"
    assert send(ana, another, 1, 1)[0] == 429
    ben = client_of(make_user("analyst", name="ben"))
    assert send(ben, another, 1, AT_ONCE)[0] == 302


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

    assert "Give the stream of the broadcast" in refusal(scope="live")
    assert "No broadcast of live/cam-1 has ended in the last 60 days." in refusal()
    session = make_session(stream, age_s=7200, ended_ago_s=3600)
    assert "No broadcast of live/cam-1 on 2026-01-02 has ended." in refusal(day="2026-01-02")
    assert "It is not computed yet." in refusal()
    computed(session.started_at)
    answer = analyst.post(f"{URL}make", wish)
    made = Report.objects.get()
    assert answer["Location"] == f"{URL}{made.pk}/"
    assert (made.kind, made.since, made.until) == ("broadcast", session.started_at, session.ended_at)


def computed(begins: datetime) -> None:
    """The broadcast's first hour."""
    first = begins.replace(minute=0, second=0, microsecond=0)
    make_rollup(start=first, dimension=Dimension.BROADCAST, value=begins.isoformat())


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
def test_report_form_with_invalid_input_is_refused_with_a_reason(
    analyst: Client, stream: Stream, form: dict[str, str], said: str
) -> None:
    answer = analyst.post(f"{URL}make", {"kind": "weekly", "time_zone": "UTC"} | form)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert said in page
    assert "data-open" in page
    assert not Report.objects.exists()


def test_making_a_report_while_another_is_made_is_503(analyst: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_jobs, "report", BY_ANOTHER)
    monkeypatch.setattr(subprocess_jobs, "WAIT_S", 0.05)
    report = make_report()
    with subprocess_jobs._one_at_a_time:
        refused = [
            analyst.get(f"{URL}{report.pk}/report.pdf"),
            analyst.post(f"{URL}make", {"kind": "weekly", "time_zone": "UTC"}),
            analyst.get(f"/api/v1/reports/{report.pk}.pdf"),
            analyst.post("/api/v1/reports", {"kind": "weekly"}, content_type=JSON),
        ]
    assert [answer.status_code for answer in refused] == [503] * 4
    assert [subprocess_jobs.BUSY in answer.content.decode() for answer in refused] == [True] * 4
    assert [answer.json()["detail"] for answer in refused[2:]] == [subprocess_jobs.BUSY] * 2
    assert Report.objects.get() == report


def test_a_report_is_sent_once_to_each(analyst: Client) -> None:
    plan = ReportPlan.objects.create(name="Each Monday", kind="weekly", recipients="ops@example.org")
    report = make_report(plan=plan)
    make_delivery(report, "ops@example.org", state=SENT, attempts=1)
    assert "ops@example.org</textarea>" in text_of(analyst, f"{URL}{report.pk}/")
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


def test_report_page_without_mail_server_names_the_setting(analyst: Client, settings: Any) -> None:
    settings.EMAIL_URL = ""
    assert "RTMPWEB_EMAIL_URL" in text_of(analyst, f"{URL}{make_report().pk}/")


def test_report_recipients_are_not_in_the_viewers_delivery_log(viewer: Client) -> None:
    make_delivery(make_report(), "ops@example.org", state="done")
    assert "ops@example.org" not in viewer.get("/alerts/deliveries/").content.decode()
    assert viewer.get("/api/v1/deliveries", headers=api_token("viewer")).json()["count"] == 0


@pytest.mark.both_forms
def test_report_deliveries_are_not_pruned_while_the_report_exists(settings: Any) -> None:
    settings.KEEP_HOOKS_DAYS = 7
    make_delivery(make_report(), "ops@example.org", state="done", ended_at=timezone.now() - timedelta(days=30))
    tasks.prune_told()
    assert ReportDelivery.objects.get().address == "ops@example.org"
