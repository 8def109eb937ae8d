"""How many addresses an account may have reports sent to, and who sees them."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from analytics.models import Report, ReportDelivery
from dashboard import tasks
from dashboard.throttle import MAILED
from ingest.models import AuditEntry
from tests.dashboard.conftest import api_token, client_of, make_user
from tests.dashboard.documents import make_delivery, make_report

pytestmark = pytest.mark.django_db

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


def test_who_gets_reports_is_not_in_the_log_that_any_viewer_sees(viewer: Client) -> None:
    make_delivery(make_report(), "ops@example.org", state="done")
    assert "ops@example.org" not in viewer.get("/alerts/deliveries/").content.decode()
    assert viewer.get("/api/v1/deliveries", headers=api_token("viewer")).json()["count"] == 0


@pytest.mark.both_forms
def test_who_has_got_a_report_is_known_for_as_long_as_it_is_there(settings: Any) -> None:
    settings.KEEP_HOOKS_DAYS = 7
    make_delivery(make_report(), "ops@example.org", state="done", ended_at=timezone.now() - timedelta(days=30))
    tasks.prune_told()
    assert ReportDelivery.objects.get().address == "ops@example.org"
