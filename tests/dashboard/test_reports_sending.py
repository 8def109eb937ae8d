"""How many addresses an account may have reports sent to."""

import pytest
from django.test import Client

from analytics.models import Report, ReportDelivery
from dashboard.throttle import MAILED
from ingest.models import AuditEntry
from tests.dashboard.conftest import client_of, make_user
from tests.dashboard.documents import make_report

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
