"""Lists of the admin that grow without end cost the same however long they are."""

import re
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ingest.admin_site import BoundedPaginator, LongList, RecentValues
from ingest.models import Attempt
from tests.dashboard.house import furnish

ATTEMPTS = "admin:ingest_attempt_changelist"

ENDLESS = {
    *("ingest.session", "ingest.statusevent", "ingest.attempt", "ingest.ban", "ingest.recording"),
    *("analytics.rollup", "analytics.partition", "analytics.analyticsrun", "analytics.runline"),
    *("analytics.report", "analytics.reportdelivery"),
}

ALL_ROWS = re.compile(r"datetime_trunc|date_trunc|\bMIN\(|\bMAX\(|\bDISTINCT\b|COUNT\((?!.*\bLIMIT \d)", re.IGNORECASE)
"""What reads a table to its end: dates that are gathered, values that are told apart, rows that are all counted."""


@pytest.fixture
def refused(db: None) -> list[Attempt]:
    """Five, the oldest first."""
    now = timezone.now()
    reasons = ("key_unknown", "busy", "busy", "busy", "banned")
    return [
        Attempt.objects.create(at=now, action="publish", app="live", name=f"cam{n}", address="192.0.2.9", reason=reason)
        for n, reason in enumerate(reasons)
    ]


def listed(client: Client, **query: Any) -> Any:
    return client.get(reverse(ATTEMPTS), query).context["cl"]


@pytest.mark.both_forms
def test_no_list_of_history_reads_it_to_its_end(admin_client: Client) -> None:
    admin.autodiscover()  # As the pages' routes do, which may not be loaded yet.
    furnish()
    found = {
        model._meta.label_lower: model for model, made in admin.site._registry.items() if isinstance(made, LongList)
    }
    assert found.keys() == ENDLESS
    bad: dict[str, str] = {}
    for label in ENDLESS:
        with CaptureQueriesContext(connection) as asked:
            answer = admin_client.get(f"/admin/{label.replace('.', '/')}/")
        assert answer.status_code == 200
        bad |= {each["sql"]: label for each in asked if ALL_ROWS.search(each["sql"])}
    assert bad == {}


def test_a_list_counts_as_far_as_its_pages_go(
    admin_client: Client, refused: list[Attempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "There are more" not in admin_client.get(reverse(ATTEMPTS)).content.decode()
    monkeypatch.setattr(BoundedPaginator, "most", 3)
    monkeypatch.setattr(admin.site._registry[Attempt], "list_per_page", 2)
    assert "There are more" in admin_client.get(reverse(ATTEMPTS)).content.decode()
    first, second = listed(admin_client), listed(admin_client, p=2)
    assert first.result_count == 3
    assert [*first.result_list, *second.result_list] == refused[:1:-1]
    assert listed(admin_client, reason="key_unknown").result_count == 1


def test_filters_offer_what_the_latest_rows_have(
    admin_client: Client, refused: list[Attempt], monkeypatch: pytest.MonkeyPatch
) -> None:
    def offered() -> list[str]:
        (spec,) = [spec for spec in listed(admin_client).filter_specs if getattr(spec, "field_path", "") == "reason"]
        return [choice["display"] for choice in spec.choices(listed(admin_client))][1:]

    assert offered() == ["banned", "busy", "key_unknown"]
    monkeypatch.setattr(RecentValues, "most", 2)
    assert offered() == ["banned", "busy"]
