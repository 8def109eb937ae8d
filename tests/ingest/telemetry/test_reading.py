"""What the writer wrote is read back: once, in order, decimated so that what stands out still does; what a session's
samples add up to where its node can't tell it any more; and what others find in the lake.
"""

import re
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.conf import settings

from ingest.contracts import Sample
from ingest.telemetry import request_flush
from ingest.telemetry.lake import SAMPLES, hour_folder
from ingest.telemetry.reading import Sampled, read_session, read_stream, read_totals
from ingest.telemetry.series import Series
from ingest.telemetry.spool import Spool, spool_folder
from tests.ingest.telemetry.records import NOON, sample
from tests.ingest.telemetry.test_writer import until, writing

SECOND = 1_000_000
HOUR = 3600 * SECOND
ID = "6ba7b810"


def second(number: int, **fields: Any) -> Sample:
    return sample(number, at_us=NOON + number * SECOND, **fields)


def write(lake: Path, numbers: range, node: str = "node-a", **fields: Any) -> None:
    """One Parquet file of these seconds, written as a node does."""
    with writing(lake, node) as writer:
        writer.samples([second(number, **fields) for number in numbers])


def read(lake: Path, seconds: int = 7200, **how: Any) -> Series:
    return read_session(lake, ID, NOON, NOON + seconds * SECOND, **how)


def leave(lake: Path, batch: pa.RecordBatch, name: str = "20260329T120000000000-000001") -> None:
    folder = spool_folder(lake)
    folder.mkdir(parents=True, exist_ok=True)
    spool = Spool.create(folder / f"{SAMPLES.name}.node-a-{name}.spool", batch.schema)
    spool.append(batch)
    spool.release()


def test_a_session_comes_back_whole_and_in_order(tmp_path: Path) -> None:
    write(tmp_path, range(60, 90), fps=29.5)
    write(tmp_path, range(60), fps=None)
    series = read(tmp_path)
    assert series.at == [NOON / 1e6 + number for number in range(90)]
    assert series.step_s == 0
    assert series.values["fps"] == [None] * 60 + [29.5] * 30
    assert series.values["video_kbps"] == series.low["video_kbps"] == series.high["video_kbps"] == [2000.0] * 90
    assert series.values["video_frames"] == [30] * 90
    assert set(series.health) == {"good"}
    assert (series.totals.samples, series.totals.measured_s) == (90, 90)
    assert series.totals.mean_kbps == pytest.approx(266_000 * 8 / 1000)
    assert (series.files, series.problems) == (2, [])


def test_samples_that_are_only_in_the_spool_are_read(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        write(tmp_path, range(30))
        writer.samples([second(number) for number in range(30, 40)])
        until(lambda: read(tmp_path).totals.samples == 40)
        writer.samples([second(40)])
        until(lambda: read(tmp_path).totals.samples == 41)
        assert list(spool_folder(tmp_path).glob("*.spool")), "nothing was converted meanwhile"
        assert request_flush(tmp_path)
        assert read(tmp_path).totals.samples == 41


def test_samples_written_while_the_machines_clock_was_behind_are_read(tmp_path: Path) -> None:
    """Samples go by the node's steady time, a file's time by the machine's clock."""
    ahead_us = int(time.time() * SECOND) + HOUR // 2 - NOON
    with writing(tmp_path) as writer:
        writer.samples([sample(number, at_us=NOON + ahead_us + number * SECOND) for number in range(60)])
    since_us = NOON + ahead_us
    assert read_session(tmp_path, ID, since_us, since_us + 60 * SECOND).totals.samples == 60


def test_duplicate_samples_count_once(tmp_path: Path) -> None:
    """A spool that has just become a file, and a file that two nodes recovered."""
    write(tmp_path, range(10))
    (file,) = tmp_path.rglob("*.parquet")
    shutil.copy(file, file.with_name("node-b-20260329T110000000000-000001.parquet"))
    leave(tmp_path, SAMPLES.batch([second(number) for number in range(5, 12)]), "20260329T110000000000-000009")
    series = read(tmp_path)
    assert series.at == [NOON / 1e6 + number for number in range(12)]
    assert series.totals.measured_s == 12
    assert series.files == 3


def test_a_damaged_file_is_named_and_costs_only_itself(tmp_path: Path) -> None:
    write(tmp_path, range(10))
    write(tmp_path, range(10, 20))
    damaged = min(tmp_path.rglob("*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-40])
    spool_folder(tmp_path).mkdir(exist_ok=True)
    (spool_folder(tmp_path) / "samples.node-a-1-1.spool").write_bytes(b"no spool")
    series = read(tmp_path)
    assert series.at == [NOON / 1e6 + number for number in range(10, 20)]
    (problem,) = series.problems
    assert problem.startswith("Files of the lake can't be read: 2.")
    assert damaged.name in problem
    assert "samples.node-a-1-1.spool" in problem


def test_an_empty_lake_has_nothing_and_no_problem(tmp_path: Path) -> None:
    series = read(tmp_path / "none")
    assert (series.at, series.health, series.problems, series.totals.mean_kbps) == ([], [], [], None)


def test_files_of_other_hours_and_nodes_are_not_opened(tmp_path: Path) -> None:
    write(tmp_path, range(10))
    write(tmp_path, range(10), node="node-b", session="other")
    write(tmp_path, range(7200, 7210), session="later")
    assert read(tmp_path, 60, node="node-a").files == 1
    assert read(tmp_path, 60).files == 2
    assert read(tmp_path, 9000).files == 3
    assert read(tmp_path, 9000, node="node-c").files == 0


def test_a_stream_has_the_samples_of_all_its_sessions(tmp_path: Path) -> None:
    write(tmp_path, range(10))
    write(tmp_path, range(20, 30), node="node-b", session="second life")
    write(tmp_path, range(30), session="other", stream=2)
    series = read_stream(tmp_path, 1, NOON + 5 * SECOND, NOON + 25 * SECOND)
    assert series.at == [NOON / 1e6 + number for number in (*range(5, 10), *range(20, 25))]
    assert series.gaps == [(NOON / 1e6 + 9, NOON / 1e6 + 20)]


def test_gathered_spans_keep_extremes_sums_and_the_worst_health(tmp_path: Path) -> None:
    """Over an hour's border, with a dip of one second and a frame rate that was not always known."""
    odd: dict[int, dict[str, Any]] = {
        4321: {"video_kbps": 40.0, "health": "bad", "missing_frames_est": 7, "fps": 3.0},
        100: {"fps": None},
    }
    with writing(tmp_path) as writer:
        writer.samples([second(number, **odd.get(number, {})) for number in range(7200)])
    series = read(tmp_path, 7200, points=72)
    assert len(series.at) == 72
    assert series.step_s == 100
    assert series.at[:2] == [NOON / 1e6, NOON / 1e6 + 100]
    assert series.low["video_kbps"][43] == 40
    assert series.values["video_kbps"][43] == pytest.approx((99 * 2000 + 40) / 100)
    assert series.high["video_kbps"][43] == 2000
    assert [place for place, health in enumerate(series.health) if health == "bad"] == [43]
    assert series.values["missing_frames_est"][43] == series.totals.missing_frames == 7
    assert series.values["fps"][1] == 30
    assert series.values["drift"] == [None] * 72
    assert (series.totals.bad_s, series.totals.samples) == (1, 7200)
    assert series.totals.p95_kbps == pytest.approx(2128)


def test_time_without_media_is_a_gap(tmp_path: Path) -> None:
    silent = {"video_bytes": 0, "audio_bytes": 0, "video_kbps": 0.0, "audio_kbps": 0.0}
    with writing(tmp_path) as writer:
        writer.samples([second(number, **(silent if 3590 < number < 3610 else {})) for number in range(7200)])
    series = read(tmp_path, points=50)
    assert series.gaps == [(NOON / 1e6 + 3590, NOON / 1e6 + 3610)]


def test_a_file_without_a_newer_column_is_read(tmp_path: Path) -> None:
    write(tmp_path, range(10))
    (file,) = tmp_path.rglob("*.parquet")
    older = pq.ParquetFile(file).read().drop_columns(["media_faults", "rtt_ms"])
    pq.write_table(older, file)
    series = read(tmp_path)
    assert series.values["media_faults"] == [None] * 10
    leave(tmp_path, pa.Table.to_batches(older)[0], "1-2")
    series = read(tmp_path)
    assert (series.totals.samples, series.files, series.problems) == (10, 2, [])


def test_reading_stops_in_time_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, range(10))
    series = read(tmp_path, budget_s=0)
    assert series.at == []
    assert series.problems == [
        "Reading took too long and was stopped: what was before 2026-03-29 13:00 UTC is missing, or part of it."
    ]


DAY = 86_400 * SECOND


def totals(lake: Path, node: str = "node-a") -> Sampled | None:
    return read_totals(lake, ID, NOON, NOON + DAY, node=node)


def test_session_totals_add_up_files_and_the_spool_of_a_dead_node(tmp_path: Path) -> None:
    write(tmp_path, range(3600, 3660), dropped_frames=2, data_bytes=100)  # The next hour.
    write(tmp_path, range(60))
    write(tmp_path, range(60), session="another")
    # Ten of them have become a file before it died.
    leave(tmp_path, SAMPLES.batch([second(number) for number in range(50, 70)]))
    found = totals(tmp_path)
    assert found == Sampled(
        {
            "bytes_in": 130 * 266_000 + 60 * 100,
            "bytes_out": 130 * 500_000,
            "video_frames": 130 * 30,
            "audio_frames": 130 * 43,
            "keyframes": 130,
            "dropped_frames": 60 * 2,
            "duration_ms": 130_000,
        },
        NOON / 1e6 + 3659,
    )


def test_session_totals_are_none_without_samples(tmp_path: Path) -> None:
    assert totals(tmp_path) is None
    write(tmp_path, range(10), node="node-b")
    assert totals(tmp_path) is None


def test_without_its_first_hours_a_session_has_no_total(tmp_path: Path) -> None:
    """Retention has removed them."""
    hours = [range(1, 61), range(3600, 3660), range(7200, 7260)]
    for numbers in hours:
        write(tmp_path, numbers)
    found = totals(tmp_path)
    assert found is not None
    assert found.totals["video_frames"] == 180 * 30
    shutil.rmtree(hour_folder(tmp_path, SAMPLES.name, datetime.fromtimestamp(NOON / 1e6, UTC)))
    assert totals(tmp_path) is None


def test_session_totals_are_none_if_a_file_is_damaged(tmp_path: Path) -> None:
    write(tmp_path, range(10))
    (whole,) = tmp_path.rglob("*.parquet")
    whole.with_stem(f"{whole.stem}-2").write_bytes(whole.read_bytes()[:100])
    assert totals(tmp_path) is None


@pytest.mark.parametrize("older", [min, max], ids=["older first", "newer first"])
def test_the_documented_query_reads_files_that_lack_a_new_column(tmp_path: Path, older: Callable[..., str]) -> None:
    (query,) = re.findall(
        r"^```sql\n(.*?)```", (Path(settings.BASE_DIR) / "docs" / "analytics.md").read_text(), re.M | re.S
    )
    names = ["a.parquet", "b.parquet"]
    folder = tmp_path / "samples" / "v=1" / "dt=2026-03-29" / "hr=12"
    folder.mkdir(parents=True)
    batch = SAMPLES.batch([sample(0, media_faults=3)])
    for name in names:
        is_older = name == older(names)
        written = batch.drop_columns("media_faults") if is_older else batch
        pq.write_table(pa.Table.from_batches([written]), folder / name)
    assert duckdb.execute(query.replace("LAKE", str(tmp_path))).fetchall() == [("live", "demo", 3)]
