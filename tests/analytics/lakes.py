"""Lakes for tests: filled as a node fills them, with measurements from a fixed seed."""

import random
import shutil
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from analytics import ledger, locks, schemas
from analytics.jobs.computing import compute_days, compute_hours
from analytics.models import Grain, Partition
from analytics.schemas import Computed
from ingest.contracts import EventRecord, Sample
from ingest.telemetry import TelemetryWriter
from ingest.telemetry.lake import SAMPLES
from tests.ingest.telemetry.records import NOON, sample

HOUR_US = 3_600_000_000


def fill(
    lake: Path, samples: Sequence[Sample] = (), events: Sequence[EventRecord] = (), *, node: str = "node-a"
) -> None:
    writer = TelemetryWriter(lake, node)
    writer.start()
    writer.samples(samples)
    for event in events:
        writer.event(event)
    writer.close()
    assert not writer.dropped


def table_of(samples: Sequence[Sample]) -> pa.Table:
    """Return the samples in the form that the jobs read."""
    rows = SAMPLES.batch(samples) if samples else SAMPLES.schema.empty_table()
    return schemas.cast(pa.table(rows), schemas.SAMPLES)


def broadcast(name: str, session: str, *, seconds: int, start_us: int = NOON) -> Iterator[Sample]:
    """Yield one session's samples: a wandering bitrate, gaps, players that come and go."""
    random_ = random.Random(f"{name} {session}")
    kbps = random_.uniform(1500, 6000)
    for number in range(seconds):
        kbps = max(0.0, kbps + random_.gauss(0, 150))
        idle = random_.random() < 0.03
        elapsed = random_.choice([1000, 1000, 999, 1003])
        sizes = {
            "video": 0 if idle else int(kbps * elapsed / 8),
            "audio": 0 if idle else random_.randrange(14_000, 18_000),
        }
        media_bytes = sum(sizes.values())
        sizes["wire"] = media_bytes + 900
        players = random_.randrange(0, 9)
        yield sample(
            number,
            session=session,
            name=name,
            stream=len(name),
            at_us=start_us + number * 1_000_000 + random_.randrange(0, 1000),
            elapsed_ms=elapsed,
            data_bytes=random_.randrange(0, 40),
            video_frames=0 if idle else 30,
            audio_frames=0 if idle else 43,
            keyframes=number % 2,
            keyframe_interval=None if number < 2 else random_.uniform(1.9, 2.1),
            ts_gap=int(random_.random() < 0.01),
            ts_regress=int(random_.random() < 0.01),
            missing_frames_est=random_.randrange(0, 3),
            players=players,
            out_bytes=players * media_bytes,
            dropped_frames=random_.randrange(0, 2),
            health="bad" if idle else random_.choice(["good", "good", "warning", "none"]),
            **{f"{kind}_bytes": size for kind, size in sizes.items()},
            **{f"{kind}_kbps": 8 * size / elapsed for kind, size in sizes.items()},
        )


def note_done(lake: Path, start: datetime, tail: str = "") -> Partition:
    """Note in the ledger that a run has computed the hour."""
    hour = ledger.find_hour(lake, start)
    assert hour
    _note(Grain.HOUR, hour, hour.fingerprint(ledger.tail_before(start)), tail)
    return Partition.objects.get(grain=Grain.HOUR, start=start)


def note_days_done() -> None:
    """Note in the ledger that a run has computed all pending days."""
    pending = ledger.Days().pending()
    assert pending
    for day in pending:
        _note(Grain.DAY, day, day.fingerprint())


def _note(grain: Grain, work: ledger.Work, fingerprint: str, tail: str = "") -> None:
    ledger.note_pending(grain, [work.start])
    lock = locks.take(None, grain, [work.start])
    lock.done(work.start, Computed(1, 1, 1, tail), fingerprint=fingerprint, files=work.file_count)


def compute(spark: SparkSession, lake: Path, *, hours_at_once: int = 6) -> dict[datetime, Computed]:
    """Compute all hours, which must be consecutive, and their days, as a run does, but without the database."""
    hours, out = list(ledger.scan(lake).values()), lake / "rollups" / ".work"
    done: dict[datetime, Computed] = {}
    for first in range(0, len(hours), hours_at_once):
        done |= compute_hours(spark, lake, hours[first : first + hours_at_once], out)
        _publish(out, lake)
    compute_days(spark, lake, sorted({hour.start.replace(hour=0) for hour in hours}), out)
    _publish(out, lake)
    return done


def _publish(out: Path, lake: Path) -> None:
    shutil.copytree(out / "rollups", lake / "rollups", dirs_exist_ok=True)
    shutil.rmtree(out)
