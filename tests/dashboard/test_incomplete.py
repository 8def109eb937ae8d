"""Hours that lack something are told of, wherever history is read: pages, reports, the API."""

import html
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from analytics.models import Report
from tests.analytics.reports.rows import HOUR, done
from tests.analytics.reports.rows import hour as on_air
from tests.dashboard.conftest import api_token
from tests.dashboard.rollups import make_rollup
from tests.dashboard.test_zones import at_home

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reports_made_here")]

NOON = datetime(2026, 11, 4, 12, tzinfo=UTC)
TIME = "from=2026-11-02&to=2026-11-08"
PAGE, COMPARED = f"/analytics/?stream=live/cam-1&grain=hour&{TIME}", f"/analytics/compare/?{TIME}"
LACKING = re.compile(r'<span class="lacking" data-lacking="(\w+)" title="([^"]*)">(.*?)</span>')


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, settings: Any) -> None:
    settings.LAKE_DIR = tmp_path / "lake"


def told(client: Client, page: str) -> dict[str, str]:
    """What the page says, by what it is about; times without their elements."""
    content = client.get(page).content.decode()
    return {what: html.unescape(re.sub("<[^>]+>", "", words)) for what, _, words in LACKING.findall(content)}


def lacking() -> None:
    make_rollup(start=NOON)
    done(NOON)
    done(NOON + HOUR, 2, damaged_files=2)
    done(NOON + 3 * HOUR, 5, late_rows=300)
    done(NOON + 8 * HOUR, strays=1)
    done(NOON + 200 * HOUR, damaged_files=7)  # Of another time.


@pytest.mark.parametrize("page", [PAGE, COMPARED])
def test_pages_name_hours_that_lack_something_by_their_zone(viewer: Client, page: str) -> None:
    lacking()
    assert told(at_home(viewer, "Europe/Berlin"), page) == {
        "damaged_files": "2 hours are incomplete, as 4 files could not be read: 4 Nov 2026, 14:00; 4 Nov 2026, 15:00",
        "late_rows": "1,500 records came too late to count, after their hour's samples had been removed as old: "
        "4 Nov 2026, 16:00; 4 Nov 2026, 17:00; 4 Nov 2026, 18:00 and 2 more",
        "strays": "1 record lay among those of another hour, and did not count: 4 Nov 2026, 21:00",
    }
    advice = {what: title for what, title, _ in LACKING.findall(viewer.get(page).content.decode())}
    assert advice["damaged_files"].startswith("Of all streams. The files are in quarantine/damaged in the lake.")


@pytest.mark.parametrize("page", [PAGE, COMPARED])
def test_pages_of_whole_hours_say_nothing_of_it(viewer: Client, page: str) -> None:
    make_rollup(start=NOON)
    done(NOON, 3)
    done(NOON + 200 * HOUR, damaged_files=1)
    assert told(viewer, page) == {}


def test_a_stream_of_which_there_is_nothing_may_have_been_in_the_file(viewer: Client) -> None:
    make_rollup(start=NOON, name="cam-2")
    done(NOON, damaged_files=1)
    assert told(viewer, PAGE) == {
        "damaged_files": "1 hour is incomplete, as 1 file could not be read: 4 Nov 2026, 12:00"
    }


@pytest.mark.both_forms
def test_the_api_lists_hours_that_lack_something(viewer: Client) -> None:
    lacking()

    def found(query: str) -> list[dict[str, Any]]:
        answer = viewer.get(f"/api/v1/rollups?{query}").json()
        assert answer["incomplete"]["count"] == len(answer["incomplete"]["items"])
        items: list[dict[str, Any]] = answer["incomplete"]["items"]
        return items

    strays, late = found("from=2026-11-04T19:00&to=2026-11-04T21:00")
    assert strays == {"start": "2026-11-04T20:00:00Z", "damaged_files": 0, "late_rows": 0, "strays": 1}
    assert (late["start"], late["late_rows"]) == ("2026-11-04T19:00:00Z", 300)
    assert len(found("stream=live/cam-1")) == 9
    assert len(found("grain=day&from=2026-11-04&to=2026-11-04T00:01")) == 8, "all hours of the day"
    assert found("grain=day&from=2026-11-04T00:01&to=2026-11-05") == [], "no day begins in this time"
    assert found("to=2026-11-04T13:00") == []


@pytest.mark.parametrize("scope", ["", "live", "live/cam-1"])
def test_reports_name_them_by_the_clock_of_their_zone(client: Client, viewer: Client, scope: str) -> None:
    on_air("live/cam-1", NOON)
    done(NOON, damaged_files=1, late_rows=20)
    document = made(client, scope)
    damaged, late = document["completeness"]["lacking"]
    assert damaged == {
        "what": "damaged_files",
        "count": 1,
        "hours": 1,
        "first": ["2026-11-04T12:00:00+00:00"],
        "words": "1 hour is incomplete, as 1 file could not be read: 4 Nov 2026, 13:00.",
    }
    assert (late["what"], late["count"]) == ("late_rows", 20)
    assert document["notes"] == [
        f"{damaged['words']} {late['words']} This is of all streams: manage.py analytics check says what to do next."
    ]
    page = viewer.get(f"/reports/{Report.objects.get().pk}/").content.decode()
    assert damaged["words"] in page


def test_reports_of_whole_hours_say_nothing_of_it(client: Client) -> None:
    on_air("live/cam-1", NOON)
    done(NOON)
    document = made(client, "")
    assert document["completeness"] == {"expected": 1, "done": 1}
    assert document["notes"] == []


def test_where_all_files_were_damaged_no_report_says_that_nothing_was_recorded(client: Client) -> None:
    done(NOON, damaged_files=3)
    document = made(client, "")
    assert document["lede"] == "Whether anything was published in this day is not known: files of it could not be read."
    (note,) = document["notes"]
    assert note.startswith("1 hour is incomplete, as 3 files could not be read: 4 Nov 2026, 13:00.")


def made(client: Client, scope: str) -> dict[str, Any]:
    """The document of a day's report that a script has had made."""
    wish = {"kind": "daily", "from": "2026-11-04", "time_zone": "Europe/Berlin", "scope": scope}
    answer = client.post("/api/v1/reports", wish, content_type="application/json", headers=api_token("analyst"))
    assert answer.status_code == 201, answer.content
    document: dict[str, Any] = answer.json()["document"]
    return document
