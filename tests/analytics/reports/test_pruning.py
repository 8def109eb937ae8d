"""Old reports go by the hourly task."""

from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from analytics import tasks
from analytics.models import Report, ReportDelivery, ReportPlan
from analytics.reports import plans
from tests.dashboard.house import make_delivery, make_report

pytestmark = [pytest.mark.django_db, pytest.mark.both_forms]

DAY = timedelta(days=1)


def made(days_ago: float, now: datetime) -> Report:
    report = make_report(made_at=now - days_ago * DAY)
    make_delivery(report, "ops@example.org", state="done", ended_at=report.made_at)
    return report


def left() -> set[int]:
    return set(Report.objects.values_list("pk", flat=True))


def test_reports_go_after_the_days_that_are_set(lake: Path, settings: Any) -> None:
    now = timezone.now()
    old, older, young = (made(days, now) for days in (31, 300, 29))
    tasks.keep_lake()
    assert left() == {old.pk, older.pk, young.pk}, "400 days are the default"
    settings.KEEP_REPORTS_DAYS = 0
    made(5000, now)
    tasks.keep_lake()
    assert len(left()) == 4
    settings.KEEP_REPORTS_DAYS = 30
    with CaptureQueriesContext(connection) as queries:
        tasks.keep_lake()
    assert left() == {young.pk}
    assert [row.report for row in ReportDelivery.objects.all()] == [young]
    assert not any('"document"' in query["sql"] for query in queries), "it may be long, and is not looked at"


def test_what_a_plan_has_made_is_not_made_again_on_that_account(lake: Path, settings: Any) -> None:
    settings.KEEP_REPORTS_DAYS = 1
    now = timezone.now()
    plan = ReportPlan.objects.create(
        name="Each day", kind="daily", time_zone="UTC", send_at=time(0), counts_from=now - 30 * DAY
    )
    assert len(plans.make_due(plan, now)) == 7
    for report in Report.objects.all():
        Report.objects.filter(pk=report.pk).update(made_at=report.until)
    tasks.keep_lake()
    assert plans.make_due(plan, now) == []
    Report.objects.update(made_at=now - 9 * DAY)
    tasks.keep_lake()
    assert left() == set()
