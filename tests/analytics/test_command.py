"""`manage.py analytics run`, as scripts use it."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django.fixtures import Settings

from analytics import runner, services
from analytics.models import METRIC_VERSION, AnalyticsRun, Dimension, Grain, Partition, Rollup
from ingest.models import AuditEntry
from tests.analytics.lakes import HOUR_US, broadcast, fill
from tests.ingest.telemetry.records import NOON
from tests.tools import hide_java

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.slow("Spark plans and computes")
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
        "rows_written": Rollup.objects.count(),
        "metric_version": METRIC_VERSION,
        "error": None,
    }
    assert Rollup.objects.get(dimension=Dimension.STREAM).samples == 20


def test_without_java_it_fails_with_what_to_install(
    lake: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.LAKE_DIR = lake
    fill(lake, list(broadcast("demo", "a", seconds=20)))
    runner.stop()  # One that is warm goes on without.
    hide_java(monkeypatch)
    with pytest.raises(CommandError, match="Java 17 or newer"):
        call_command("analytics", "run", "--json")
    assert json.loads(capsys.readouterr().out)["state"] == "failed"
    assert AnalyticsRun.objects.get().error_code == "java_missing"


def test_an_empty_lake_is_no_error(lake: Path, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    settings.LAKE_DIR = lake
    call_command("analytics", "run")
    assert "Read 0 rows, wrote 0 rollups" in capsys.readouterr().out


@pytest.mark.both_forms
def test_retry_forgives_what_failed_and_runs_at_once(
    lake: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.LAKE_DIR = lake
    later = timezone.now() + timedelta(hours=1)
    start = datetime(2026, 3, 29, 12, tzinfo=UTC)
    Partition.objects.create(grain=Grain.HOUR, start=start, state="failed", attempts=3, retry_at=later)
    call_command("analytics", "retry", "--json")
    assert json.loads(capsys.readouterr().out)["state"] == "done"
    assert not Partition.objects.exists(), "the lake holds nothing of it"
    former = services.create_run(trigger=AnalyticsRun.Trigger.PAGE, kind="hourly", since=start)
    services.fail(former, code=AnalyticsRun.ErrorCode.FAILED, error="It broke")
    call_command("analytics", "retry", str(former.pk))
    again = AnalyticsRun.objects.latest("requested_at")
    assert (again.kind, again.since, again.state, again.trigger) == ("hourly", start, "done", "command")
    with pytest.raises(CommandError, match="There is no run 999"):
        call_command("analytics", "retry", "999")
    entries = AuditEntry.objects.filter(action="analytics.retry").order_by("pk")
    assert [entry.target for entry in entries][1:] == [f"run {former.pk}"]


@pytest.mark.both_forms
def test_recompute_wants_a_time(lake: Path, settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    settings.LAKE_DIR = lake
    with pytest.raises(CommandError, match="--to"):
        call_command("analytics", "recompute", "--from", "2026-03-29")
    call_command("analytics", "recompute", "--from", "2026-03-29", "--to", "2026-03-30")
    assert "Read 0 rows" in capsys.readouterr().out
    assert AuditEntry.objects.get(action="analytics.recompute").target == "2026-03-29 00:00 to 2026-03-30 00:00"
