"""Lakes for tests: filled as a node fills them, with figures from a fixed seed."""

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
    """Brings these to the lake."""
    writer = TelemetryWriter(lake, node)
    writer.start()
    writer.samples(samples)
    for event in events:
        writer.event(event)
    writer.close()
    assert not writer.dropped


def table_of(samples: Sequence[Sample]) -> pa.Table:
    """As the jobs read them."""
    rows = SAMPLES.batch(samples) if samples else SAMPLES.schema.empty_table()
    return schemas.cast(pa.table(rows), schemas.SAMPLES)


def broadcast(name: str, session: str, *, first: int = 0, seconds: int, start_us: int = NOON) -> Iterator[Sample]:
    """One session's samples: a wandering bitrate, gaps, players that come and go."""
    random_ = random.Random(f"{name} {session}")
    kbps = random_.uniform(1500, 6000)
    for number in range(first, first + seconds):
        kbps = max(0.0, kbps + random_.gauss(0, 150))
        idle = random_.random() < 0.03
        elapsed = random_.choice([1000, 1000, 999, 1003])
        video = 0 if idle else int(kbps * elapsed / 8)
        audio = 0 if idle else random_.randrange(14_000, 18_000)
        players = random_.randrange(0, 9)
        yield sample(
            number,
            session=session,
            name=name,
            stream=len(name),
            at_us=start_us + number * 1_000_000 + random_.randrange(0, 1000),
            elapsed_ms=elapsed,
            video_bytes=video,
            audio_bytes=audio,
            data_bytes=random_.randrange(0, 40),
            wire_bytes=video + audio + 900,
            video_kbps=8 * video / elapsed,
            audio_kbps=8 * audio / elapsed,
            wire_kbps=8 * (video + audio + 900) / elapsed,
            video_frames=0 if idle else 30,
            audio_frames=0 if idle else 43,
            keyframes=number % 2,
            keyframe_interval=None if number < 2 else random_.uniform(1.9, 2.1),
            ts_gap=int(random_.random() < 0.01),
            ts_regress=int(random_.random() < 0.01),
            missing_frames_est=random_.randrange(0, 3),
            players=players,
            out_bytes=players * (video + audio),
            dropped_frames=random_.randrange(0, 2),
            health="bad" if idle else random_.choice(["good", "good", "warning", "none"]),
        )


def note_done(lake: Path, start: datetime, tail: str = "") -> Partition:
    """The hour as the run leaves it that has computed it."""
    hour = ledger.find_hour(lake, start)
    assert hour
    ledger.note_pending(Grain.HOUR, [start])
    lock = locks.take(None, Grain.HOUR, [start])
    fingerprint = hour.fingerprint(ledger.tail_before(start))
    lock.done(start, Computed(1, 1, 1, tail), fingerprint=fingerprint, files=hour.file_count)
    return Partition.objects.get(grain=Grain.HOUR, start=start)


def note_days_done() -> None:
    """Those that are to do, as the run leaves them that has computed them."""
    pending = ledger.Days().pending()
    assert pending
    for day in pending:
        ledger.note_pending(Grain.DAY, [day.start])
        lock = locks.take(None, Grain.DAY, [day.start])
        lock.done(day.start, Computed(1, 1, 1), fingerprint=day.fingerprint(), files=day.file_count)


def compute(spark: SparkSession, lake: Path, *, hours_at_once: int = 6) -> dict[datetime, Computed]:
    """Computes all hours, which follow one another, and their days, as a run does but for the database."""
    hours, out = list(ledger.scan(lake).values()), lake / "rollups" / ".work"
    done: dict[datetime, Computed] = {}
    for first in range(0, len(hours), hours_at_once):
        done |= compute_hours(spark, lake, hours[first : first + hours_at_once], out)
        _bring(out, lake)
    compute_days(spark, lake, sorted({hour.start.replace(hour=0) for hour in hours}), out)
    _bring(out, lake)
    return done


def _bring(out: Path, lake: Path) -> None:
    shutil.copytree(out / "rollups", lake / "rollups", dirs_exist_ok=True)
    shutil.rmtree(out)
