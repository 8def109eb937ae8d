"""`manage.py analytics run`, as scripts use it."""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from analytics.models import AnalyticsRun, Rollup
from tests.analytics.lakes import HOUR_US, broadcast, fill
from tests.ingest.telemetry.records import NOON

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.spark
@pytest.mark.usefixtures("jvm")
def test_it_prints_what_was_read_and_written(
    lake: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.LAKE_DIR = lake
    fill(lake, [*broadcast("demo", "a", seconds=20), *broadcast("demo", "b", seconds=20, start_us=NOON + HOUR_US)])
    call_command("analytics", "run", "hourly", "--from", "2026-03-29T13:00", "--to", "2026-03-30", "--json")
    printed = json.loads(capsys.readouterr().out)
    duration = printed.pop("duration_s")
    assert 0 < duration < 120
    assert printed == {
        "id": AnalyticsRun.objects.get().pk,
        "kind": "hourly",
        "state": "done",
        "from": "2026-03-29T13:00:00+00:00",
        "to": "2026-03-30T00:00:00+00:00",
        "partitions_expected": 1,
        "partitions_done": 1,
        "rows_read": 20,
        "rows_written": 1,
        "metric_version": 1,
        "error": None,
    }
    assert Rollup.objects.get().samples == 20


def test_without_java_it_fails_with_what_to_install(
    lake: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.LAKE_DIR = lake
    fill(lake, list(broadcast("demo", "a", seconds=20)))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(CommandError, match="Java 17 or newer"):
        call_command("analytics", "run", "--json")
    assert json.loads(capsys.readouterr().out)["state"] == "failed"
    assert AnalyticsRun.objects.get().error_code == "java_missing"


def test_an_empty_lake_is_no_error(lake: Path, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    settings.LAKE_DIR = lake
    call_command("analytics", "run")
    assert "Read 0 rows, wrote 0 rollups" in capsys.readouterr().out
