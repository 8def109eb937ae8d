"""`manage.py analytics`, as scripts use it: `run`, `retry`, `recompute`, and `check`, which names what is not right."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django.fixtures import Settings

from analytics import runner, services, tables
from analytics.lake.maintenance import compact_closed
from analytics.models import METRIC_VERSION, AnalyticsRun, Dimension, Grain, Partition, Rollup
from analytics.synthetic import generate
from ingest.models import AuditEntry
from tests.analytics.lakes import HOUR_US, broadcast, fill
from tests.analytics.rollups import HOUR, mark_done
from tests.ingest.telemetry.records import NOON
from tests.tools import hide_java

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_lake")]

Printed = pytest.CaptureFixture[str]

START = datetime.fromtimestamp(NOON / 1e6, UTC)
DAY = START.replace(hour=0)


def printed(capsys: Printed, *words: str, fails: bool = False) -> dict[str, Any]:
    """What a command of the analytics answers in JSON."""
    capsys.readouterr()
    if fails:
        with pytest.raises(CommandError):
            call_command("analytics", *words, "--json")
    else:
        call_command("analytics", *words, "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.spark
def test_analytics_run_prints_range_partitions_and_row_counts(lake: Path, jvm: None, capsys: Printed) -> None:
    fill(lake, [*broadcast("demo", "a", seconds=20), *broadcast("demo", "b", seconds=20, start_us=NOON + HOUR_US)])
    told = printed(capsys, "run", "hourly", "--from", "2026-03-29T13:00", "--to", "2026-03-30")
    assert 0 < told.pop("duration_s") < 120
    assert told == {
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
    assert Rollup.objects.get(dimension=Dimension.STREAM).samples == 20, "of the one hour, and of no day"
    assert printed(capsys, "run", "daily")["partitions_done"] == 1


def test_analytics_run_without_java_fails_naming_what_to_install(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    fill(lake, list(broadcast("demo", "a", seconds=20)))
    runner.stop()  # One that is warm goes on without.
    hide_java(monkeypatch)
    with pytest.raises(CommandError, match="Java 17 or newer"):
        call_command("analytics", "run", "--json")
    assert json.loads(capsys.readouterr().out)["state"] == "failed"
    assert AnalyticsRun.objects.get().error_code == "java_missing"


@pytest.mark.both_forms
def test_retry_forgives_what_failed_and_runs_at_once(capsys: Printed) -> None:
    later = timezone.now() + timedelta(hours=1)
    Partition.objects.create(grain=Grain.HOUR, start=START, state="failed", attempts=3, retry_at=later)
    assert printed(capsys, "retry")["state"] == "done"
    assert not Partition.objects.exists(), "the lake holds nothing of it"
    former = services.create_run(trigger=AnalyticsRun.Trigger.PAGE, kind="hourly", since=START)
    services.fail(former, code=AnalyticsRun.ErrorCode.FAILED, error="It broke")
    call_command("analytics", "retry", str(former.pk))
    again = AnalyticsRun.objects.latest("requested_at")
    assert (again.kind, again.since, again.state, again.trigger) == ("hourly", START, "done", "command")
    with pytest.raises(CommandError, match="There is no run 999"):
        call_command("analytics", "retry", "999")
    entries = AuditEntry.objects.filter(action="analytics.retry").order_by("pk")
    assert [entry.target for entry in entries][1:] == [f"run {former.pk}"]


@pytest.mark.both_forms
def test_recompute_wants_a_time(capsys: Printed) -> None:
    with pytest.raises(CommandError, match="--to"):
        call_command("analytics", "recompute", "--from", "2026-03-29")
    call_command("analytics", "recompute", "--from", "2026-03-29", "--to", "2026-03-30")
    assert "Read 0 rows, wrote 0 rollups" in capsys.readouterr().out, "an empty lake is no error"
    assert AuditEntry.objects.get(action="analytics.recompute").target == "2026-03-29 00:00 to 2026-03-30 00:00"


# --- check ---


def right(samples: int) -> dict[str, Any]:
    return {"hours": 2, "days": 1, "samples": samples, "undone": 0, "differences": [], "incomplete": []}


@pytest.mark.slow("Spark plans and computes")
@pytest.mark.spark
def test_analytics_check_passes_right_rows_and_names_each_difference(lake: Path, jvm: None, capsys: Printed) -> None:
    made = generate(lake, streams=3, start=START, hours=2, files_per_hour=4)
    call_command("analytics", "run", "--json")
    assert printed(capsys, "check") == right(made.samples)

    assert compact_closed(lake, timezone.now()) == (2, 6), "hours, files"
    assert printed(capsys, "check") == right(made.samples)

    generate(lake, streams=3, start=START.replace(hour=14), hours=1, files_per_hour=4)
    still_right = right(made.samples) | {"undone": 1}
    assert printed(capsys, "check") == still_right, "what is new is no difference"

    played = Rollup.objects.filter(grain=Grain.HOUR, dimension=Dimension.STREAM, unique_players__gt=0)
    assert played.update(players_sketch=b"") > 0
    assert printed(capsys, "check") == still_right, "of what an earlier version left no sketch of, nothing can be said"

    row = Rollup.objects.filter(grain=Grain.HOUR, start=START, dimension=Dimension.STREAM).first()
    assert row
    Rollup.objects.filter(pk=row.pk).update(video_bytes=row.video_bytes + 1)
    shutil.rmtree(tables.partition_folder(lake, tables.DAY, DAY))
    found = printed(capsys, "check", fails=True)["differences"]
    hour = f"hour {START:%Y-%m-%d %H:%M}: "
    wrong = f"video_bytes {row.video_bytes + 1:,} instead of {row.video_bytes:,}"
    assert f"{hour}{row.value} in the database: {wrong}" in found
    assert f"{hour}the rows by app do not add up to those by stream" in found
    assert f"day {DAY:%Y-%m-%d %H:%M}: {row.value} is missing in the day's Parquet" in found
    Rollup.objects.filter(pk=row.pk).delete()
    assert f"{hour}{row.value} is missing in the database" in printed(capsys, "check", fails=True)["differences"]


@pytest.mark.spark
def test_hours_that_are_in_the_lake_alone_are_not_missing_in_the_database(
    lake: Path, jvm: None, settings: Settings, capsys: Printed
) -> None:
    settings.HOURS_IN_DATABASE = ["app", "node"]
    made = generate(lake, streams=3, start=START, hours=2, files_per_hour=2)
    call_command("analytics", "run", "--json")
    assert set(Rollup.objects.filter(grain=Grain.HOUR).values_list("dimension", flat=True)) == {"app", "node"}
    assert set(Rollup.objects.filter(grain=Grain.DAY).values_list("dimension", flat=True)) == set(Dimension.values)
    assert printed(capsys, "check") == right(made.samples)
    tables.figures_file(lake, tables.HOUR, START).unlink()
    found = printed(capsys, "check", fails=True)["differences"]
    assert any("is missing in the rollups' Parquet" in one for one in found)


def lacking(capsys: Printed, *options: str) -> list[str]:
    """The lines before the last, which counts what was compared."""
    call_command("analytics", "check", *options)
    *lines, last = capsys.readouterr().out.splitlines()
    assert last.startswith("Checked ")
    return lines


def test_hours_that_lack_something_are_named_with_what_to_do_and_are_no_difference(capsys: Printed) -> None:
    noon = datetime(2026, 11, 4, 12, tzinfo=UTC)
    mark_done(noon)
    assert lacking(capsys) == [], "of whole hours it says nothing"
    mark_done(noon + HOUR, 4, damaged_files=1)
    mark_done(noon + 5 * HOUR, late_rows=1)
    mark_done(noon + 6 * HOUR, strays=2)
    damaged, late, strays = lacking(capsys)
    assert damaged.startswith(
        "4 hours are incomplete: 4 files could not be read: 2026-11-04T13:00Z; 2026-11-04T14:00Z; 2026-11-04T15:00Z "
        "and 1 more. The files are in quarantine/damaged in the lake."
    )
    assert "the next run recomputes its hour" in damaged
    assert late.startswith("1 record came too late to count")
    assert "RTMPWEB_KEEP_SAMPLES_DAYS" in late
    assert strays.startswith("2 records lay among those of another hour, and did not count: 2026-11-04T18:00Z.")
    assert lacking(capsys, "--from", "2026-11-04T18:00", "--to", "2026-11-04T19:00") == [strays]
    (hour,) = printed(capsys, "check", "--to", "2026-11-04T14:00")["incomplete"]
    assert hour == {"start": "2026-11-04T13:00:00+00:00", "damaged_files": 1, "late_rows": 0, "strays": 0}
