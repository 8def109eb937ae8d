"""What a session's samples add up to, where its node can't tell it any more."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

from ingest.telemetry import Rotation, TelemetryWriter
from ingest.telemetry.lake import SAMPLES, hour_folder
from ingest.telemetry.reading import Sampled, read_totals
from ingest.telemetry.spool import Spool, spool_folder
from tests.ingest.telemetry.records import NOON, sample

SECOND = 1_000_000
DAY = 86_400 * SECOND
ID = "6ba7b810"


def second(number: int, **fields: object) -> object:
    return sample(number, at_us=NOON + number * SECOND, **fields)


def write(lake: Path, numbers: range, node: str = "node-a", **fields: object) -> None:
    writer = TelemetryWriter(lake, node, rotation=Rotation(flush_s=0.01))
    writer.start()
    writer.samples([second(number, **fields) for number in numbers])  # type: ignore[misc]
    writer.close()


def leave(lake: Path, numbers: range, node: str = "node-a") -> None:
    """A spool of a node that was killed."""
    folder = spool_folder(lake)
    folder.mkdir(parents=True, exist_ok=True)
    spool = Spool.create(folder / f"{SAMPLES.name}.{node}-20260329T120000000000-000001.spool", SAMPLES.schema)
    spool.append(SAMPLES.batch([second(number) for number in numbers]))
    spool.release()


def totals(lake: Path, node: str = "node-a") -> Sampled | None:
    return read_totals(lake, ID, NOON, NOON + DAY, node=node)


def test_files_and_what_a_dead_node_left_in_its_spool(tmp_path: Path) -> None:
    write(tmp_path, range(3600, 3660), dropped_frames=2, data_bytes=100)  # The next hour.
    write(tmp_path, range(60))
    write(tmp_path, range(60), session="another")
    leave(tmp_path, range(50, 70))  # Ten of them have become a file before it died.
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


def test_where_there_are_no_samples_nothing_is_known(tmp_path: Path) -> None:
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


def test_a_part_is_no_total(tmp_path: Path) -> None:
    write(tmp_path, range(10))
    (whole,) = tmp_path.rglob("*.parquet")
    whole.with_stem(f"{whole.stem}-2").write_bytes(whole.read_bytes()[:100])
    assert totals(tmp_path) is None
