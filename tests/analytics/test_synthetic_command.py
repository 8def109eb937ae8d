"""`manage.py analytics generate`."""

from pathlib import Path

import pyarrow.dataset as ds
import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from ingest.models import AuditEntry
from tests.analytics.lakes import broadcast, fill

ASKED = ("analytics", "generate", "--streams", "3", "--from", "2026-03-02T20:00", "--hours", "1", "--always-on", "1")


def samples(lake: Path) -> int:
    found: int = ds.dataset(lake / "samples" / "v=1", format="parquet").count_rows()
    return found


@pytest.mark.django_db
def test_it_fills_the_installations_lake_and_notes_it(
    lake: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.LAKE_DIR = lake
    call_command(*ASKED, "--nodes", "1")
    made = samples(lake)
    assert made > 10_000
    assert f"Made {made:,} samples" in capsys.readouterr().out
    assert AuditEntry.objects.get().action == "analytics.generate"
    assert len(list(lake.glob("samples/v=1/dt=2026-03-02/hr=20/synthetic-1-*.parquet"))) == 60


def test_it_does_not_touch_what_nodes_have_measured_unless_asked_to(lake: Path) -> None:
    fill(lake, list(broadcast("cam", "s", seconds=5)))
    with pytest.raises(CommandError, match="--into-existing"):
        call_command(*ASKED, "--lake", str(lake))
    assert samples(lake) == 5
    call_command(*ASKED, "--lake", str(lake), "--into-existing", "--files-per-hour", "1")
    assert samples(lake) > 10_000


def test_it_says_what_is_wrong_with_a_number(lake: Path) -> None:
    with pytest.raises(CommandError, match="divides 60"):
        call_command(*ASKED, "--lake", str(lake), "--files-per-hour", "7")
