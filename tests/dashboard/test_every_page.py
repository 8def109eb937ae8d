"""Each page, file, form and list has rows to show and asks the database for them: some SQL is SQLite's alone."""

from http import HTTPStatus
from typing import Any

import pytest
from django.contrib.admin import site
from django.db import transaction
from django.test import Client

from tests.dashboard.conftest import file_text
from tests.dashboard.demo_data import seed_demo_data
from tests.dashboard.test_roles import TABLE

LEFT_OUT = (
    "POST /logout/",  # The client stays logged in.
    "GET /t/progress",  # It names no test link.
    "GET /healthz",  # Here no media node runs,
    "GET /streams/live/cam-1/thumbnail.webp",  # and none has made a picture.
    "DELETE /api/v1/streams/live/cam-1/mute",  # Nothing is muted.
)

pytestmark = [pytest.mark.django_db, pytest.mark.stores, pytest.mark.usefixtures("still", "ends_are_told")]


FILTERED = (
    "/attempts/?app=live&name=a&within=86400",
    "/recordings/?app=live&name=a&state=complete&since=2026-01-01",
    "/keys/?q=a&state=live",
    "/audit/?q=a",
    "/jobs/?state=failed&days=7",
    "/analytics/?stream=live/cam-1&range=7&grain=hour",
    "/analytics/compare/?by=stream&sort=-uptime",
    "/reports/?kind=daily&scope=live",
    "/alerts/deliveries/?state=dead",
    "/alerts/deliveries/?service=%23ops",
    "/api/v1/sessions?app=live&since=2026-01-01T00:00:00Z",
    "/api/v1/recordings?app=live&name=a",
    "/api/v1/attempts?app=live&reason=bad_key",
    "/api/v1/rollups?stream=live/cam-1&grain=hour",
)
"""Lists of which rows are chosen; sessions' have tests of their own."""


def _answered(client: Client, row: str) -> int:
    """The status. Rolled back, so that the next finds what it asks for."""
    method, path = row.split(" ")
    answer: Any
    with transaction.atomic():
        answer = client.generic(method, path)
        if getattr(answer, "is_async", False):  # A file, whose rows are read as it is taken.
            file_text(answer)
        transaction.set_rollback(True)
    return int(answer.status_code)


WITHOUT_PDF = [row for row in TABLE if not row.endswith(".pdf")]  # test_reports.py makes them.
PAGES = [row for row in WITHOUT_PDF if " /api/" not in row]
API = [row for row in WITHOUT_PDF if " /api/" in row]
PARTS = {
    **{f"pages {number}": PAGES[number - 1 :: 3] for number in (1, 2, 3)},
    **{f"API {number}": API[number - 1 :: 2] for number in (1, 2)},
    "filtered lists": [f"GET {path}" for path in FILTERED],
}


@pytest.mark.parametrize("part", PARTS)
def test_every_route_with_data_answers_without_error(admin_client: Client, part: str) -> None:
    there = seed_demo_data()
    rows = [row.format(**there) for row in PARTS[part] if row not in LEFT_OUT]
    found = {row: _answered(admin_client, row) for row in rows}
    refused = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
    assert {row: status for row, status in found.items() if status >= 500 or status in refused} == {}


def test_every_list_of_the_admin_is_sorted_and_searched(admin_client: Client) -> None:
    """By all of its columns at once."""
    seed_demo_data()
    for model, made in site._registry.items():
        path = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        columns = ".".join(str(number) for number in range(1, len(made.list_display) + 1))
        for asked in (f"?o={columns}", "?q=a" if made.search_fields else "?all="):
            assert admin_client.get(path + asked).status_code == HTTPStatus.OK, path + asked
