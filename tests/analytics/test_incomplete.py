"""`manage.py analytics check` names hours that lack something, and what to do next; that is no difference."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings

from tests.analytics.reports.rows import HOUR, done

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 4, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def in_lake(lake: Path, settings: Settings) -> None:
    settings.LAKE_DIR = lake


def checked(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """The lines before the last, which counts what was compared."""
    call_command("analytics", "check", *options)
    *lines, last = capsys.readouterr().out.splitlines()
    assert last.startswith("Checked ")
    return lines


def test_each_kind_has_a_line_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    done(NOON)
    done(NOON + HOUR, 4, damaged_files=1)
    done(NOON + 5 * HOUR, late_rows=1)
    done(NOON + 6 * HOUR, strays=2)
    damaged, late, strays = checked(capsys)
    assert damaged.startswith(
        "4 hours are incomplete, as 4 files could not be read: 2026-11-04T13:00Z; 2026-11-04T14:00Z; 2026-11-04T15:00Z "
        "and 1 more. The files are in quarantine/damaged in the lake."
    )
    assert "the next run computes its hour anew" in damaged
    assert late.startswith("1 record came too late to count")
    assert "RTMPWEB_KEEP_SAMPLES_DAYS" in late
    assert strays.startswith("2 records lay among those of another hour, and did not count: 2026-11-04T18:00Z.")
    assert checked(capsys, "--from", "2026-11-04T18:00", "--to", "2026-11-04T19:00") == [strays]
    call_command("analytics", "check", "--json", "--to", "2026-11-04T14:00")
    (hour,) = json.loads(capsys.readouterr().out)["incomplete"]
    assert hour == {"start": "2026-11-04T13:00:00+00:00", "damaged_files": 1, "late_rows": 0, "strays": 0}


def test_of_whole_hours_it_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    done(NOON, 3)
    assert checked(capsys) == []
