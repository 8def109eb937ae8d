"""Plans of reports in the admin: what is refused and why, the audit log, the schedule; the archive is to read."""

import re
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django_celery_beat.models import PeriodicTask

from analytics.models import AnalyticsRun, Report, ReportPlan, RunLine
from ingest.models import AuditEntry, Stream
from tests.dashboard.conftest import client_of, make_stream, make_user
from tests.dashboard.documents import make_delivery, make_report

pytestmark = pytest.mark.django_db

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


@pytest.fixture
def boss(db: None) -> Client:
    user = make_user("admin", name="boss")
    user.is_superuser = user.is_staff = True
    user.save()
    return client_of(user)


def refusal(boss: Client, **fields: Any) -> str:
    answer = boss.post(ADD, PLAN | fields)
    assert answer.status_code == 200
    assert not ReportPlan.objects.exists()
    return str(answer.content.decode())


def test_a_plan_is_made_with_its_entry_in_the_schedule_and_in_the_log(boss: Client, stream: Stream) -> None:
    assert "Europe/Berlin</option>" in boss.get(ADD).content.decode()
    assert boss.post(ADD, PLAN | {"stream": stream.pk}).status_code == 302
    plan = ReportPlan.objects.get()
    assert plan.addresses == ["ops@example.org", "lead@example.org"]
    (task,) = PeriodicTask.objects.filter(task="analytics.reports.tasks.make_due")
    assert task.crontab is not None
    assert (task.crontab.hour, task.crontab.minute, task.crontab.day_of_week) == ("6", "30", "1")
    assert str(task.crontab.timezone) == "Europe/Berlin"
    entry = AuditEntry.objects.get(action="report_plan.create")
    assert entry.actor == "boss"
    assert entry.stream == stream


def test_a_plan_s_change_and_deletion_reach_the_schedule(boss: Client) -> None:
    boss.post(ADD, PLAN)
    plan = ReportPlan.objects.get()
    boss.post(f"/admin/analytics/reportplan/{plan.pk}/change/", PLAN | {"kind": "daily", "send_at": "23:15"})
    (task,) = PeriodicTask.objects.filter(task="analytics.reports.tasks.make_due")
    assert task.crontab is not None
    assert (task.crontab.hour, task.crontab.minute, task.crontab.day_of_week) == ("23", "15", "*")
    entry = AuditEntry.objects.get(action="report_plan.change")
    assert entry.detail["changed"]["kind"] == ["weekly", "daily"]
    boss.post(f"/admin/analytics/reportplan/{plan.pk}/delete/", {"post": "yes"})
    assert not PeriodicTask.objects.filter(task="analytics.reports.tasks.make_due").exists()
    assert AuditEntry.objects.filter(action="report_plan.delete").exists()


def test_what_is_wrong_with_a_plan_is_explained(boss: Client, stream: Stream) -> None:
    make_stream("other", app="cams")
    assert "nobody is no e-mail address" in refusal(boss, recipients="ops@example.org\nnobody")
    assert "There is no application nowhere" in refusal(boss, app="nowhere")
    assert "is of another application" in refusal(boss, app="cams", stream=stream.pk)
    assert "Select a valid choice" in refusal(boss, time_zone="Mars/Olympus")
    assert "Enter a valid time" in refusal(boss, send_at="25:00")


def test_a_name_is_taken_once(boss: Client) -> None:
    ReportPlan.objects.create(name="Each Monday", kind="daily")
    answer = boss.post(ADD, PLAN)
    assert "Another plan has this name" in answer.content.decode()


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
