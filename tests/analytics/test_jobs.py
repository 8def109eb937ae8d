"""The transforms on small frames: schemas, copies, broadcasts, what counts for what. The rest: test_oracle."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from analytics import ledger, schemas
from analytics.jobs import computing
from analytics.jobs.computing import compute_hours, tail_of
from analytics.jobs.minutes import Samples, minutes, once, overlapping
from analytics.jobs.partials import TABLES
from analytics.metrics import SKETCH_BITS
from analytics.rollups import united_sketches
from analytics.synthetic import World, generate
from analytics.tables import DAY, HOUR, PARTIALS, SESSION_HOURS, table_folder
from ingest.contracts import Sample
from tests.analytics.lakes import HOUR_US, broadcast, compute, fill, table_of
from tests.ingest.telemetry.records import NOON, event, sample

pytestmark = pytest.mark.spark

SECOND_US = 1_000_000
START = datetime(2026, 3, 2, 23, tzinfo=UTC)


def session_of(session: str, at_us: int, seconds: int, **fields: Any) -> list[Sample]:
    """A session's samples, the first of which ends at this time."""
    return [
        sample(number + 1, session=session, at_us=at_us + number * SECOND_US, **fields) for number in range(seconds)
    ]


def rows(lake: Path, table: str, **wanted: Any) -> list[dict[str, Any]]:
    """Of a table that was written, those with these values, by when they start."""
    files = sorted(table_folder(lake, table).rglob("*.parquet"))
    found = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(
        (row for row in found if all(row[column] == value for column, value in wanted.items())),
        key=lambda row: (row["start_us"], row["value"] if "value" in row else row["first_us"]),
    )


def test_written_tables_have_the_declared_columns(spark: SparkSession, lake: Path) -> None:
    fill(lake, session_of("a", NOON, 3), [event(1, at_us=NOON)])
    compute(spark, lake)
    for table, columns in {SESSION_HOURS: schemas.SESSION_HOURS, HOUR: schemas.ROLLUPS, DAY: schemas.ROLLUPS}.items():
        (file,) = table_folder(lake, table).rglob("*.parquet")
        assert pq.read_schema(file) == schemas.arrow(columns)
    (partial,) = {file.parent for file in table_folder(lake, PARTIALS).rglob("*.parquet")}
    for table, columns in TABLES.items():
        assert pq.read_schema(partial / f"{table}.parquet") == schemas.arrow(columns)


def test_duplicate_samples_are_dropped_and_gaps_are_not_taken_for_them() -> None:
    whole, lossy, twice = (session_of(name, NOON, 150) for name in ("whole", "lossy", "twice"))
    samples = table_of([*whole, *lossy[::3], *twice, twice[70]])
    assert once(samples).num_rows == 150 + 50 + 150
    assert once(samples.slice(0, 200)).num_rows == 200
    halves = [*whole[:70], *lossy[::2], *twice], [*whole[70:], twice[70]]
    parts = [minutes(Samples(table_of(half))) for half in halves]
    assert overlapping(parts) == {"twice"}
    assert overlapping(parts[:1]) == set()


def test_deduplication_of_differing_samples_is_independent_of_order() -> None:
    one, other = sample(1, video_bytes=5), sample(1, video_bytes=9)
    assert once(table_of([one, other])).equals(once(table_of([other, one])))


def test_duplicated_events_count_once_and_in_their_own_dimensions(spark: SparkSession, lake: Path) -> None:
    attempt: dict[str, Any] = {"session": "", "kind": "attempt", "stream": None, "at_us": NOON}
    refused = event(0, **attempt, reason="key_unknown", app="live", name="rk_…")
    unknown = event(0, **attempt, reason="unknown_app", app="li…", name="", session_kind="")
    happened = [
        event(1, session="a", at_us=NOON),
        event(9, session="a", at_us=NOON + SECOND_US, kind="session.ended", reason="tcp_reset"),
        event(3, session="a", at_us=NOON + SECOND_US, kind="onstatus"),
        *(
            event(1, session=f"p{number}", at_us=NOON, session_kind="play", address_hash="ab12" if number else "cd34")
            for number in range(3)
        ),
        refused,
        unknown,
    ]
    samples = session_of("a", NOON, 2)
    fill(lake, samples, happened)
    fill(lake, events=happened)
    compute(spark, lake)
    found = {row["dimension"]: row for row in rows(lake, HOUR)}
    assert set(found) == {"stream", "key", "app", "encoder", "node", "broadcast"}
    for dimension, refusals in {"node": 2, "app": 1, "stream": 0, "key": 0}.items():
        row = found[dimension]
        assert (row["accepted"], row["ends"], row["unplanned_ends"], row["refused"]) == (1, 1, 1, refusals)
    assert dict(found["node"]["refusals"]) == {"key_unknown": 1, "unknown_app": 1}
    assert dict(found["stream"]["end_reasons"]) == {"tcp_reset": 1}
    assert [found[of]["unique_players"] for of in ("stream", "app", "node", "key")] == [2, 2, 2, None]
    assert found["broadcast"]["ends"] == 1


def test_session_events_count_for_the_encoder_named_by_its_samples(spark: SparkSession, lake: Path) -> None:
    """A session begins by its flashVer, before its metadata have told more; one without samples has no other name."""
    happened = [
        event(1, session="a", at_us=NOON, encoder="FMLE/3.0"),
        event(9, session="a", at_us=NOON + SECOND_US, kind="session.ended", reason="tcp_reset", encoder="obs"),
        event(1, session="b", at_us=NOON, encoder="FMLE/3.0"),
    ]
    fill(lake, session_of("a", NOON, 2, encoder="obs"), happened)
    compute(spark, lake)
    encoders = rows(lake, HOUR, dimension="encoder")
    found = {row["value"]: (row["sessions"], row["accepted"], row["ends"]) for row in encoders}
    assert found == {"obs": (1, 1, 1), "FMLE/3.0": (0, 1, 0)}


def test_tail_of_an_hour_holds_the_sessions_that_may_go_on(spark: SparkSession, lake: Path) -> None:
    end = NOON + HOUR_US
    early = session_of("early", NOON, 2, name="a")
    late = session_of("late", end - 90 * SECOND_US, 80, name="b")
    fill(lake, [*early, *late])
    (hour,) = compute(spark, lake)
    assert tail_of(lake, hour).to_pylist() == [
        {"app": "live", "name": "b", "session": "", "last_us": late[-1].at_us, "broadcast_us": end - 91 * SECOND_US},
        {"app": "live", "name": "b", "session": "late", "last_us": None, "broadcast_us": end - 91 * SECOND_US},
    ]


@pytest.mark.slow("the first test with Spark starts Java")
@pytest.mark.django_db
def test_hour_ending_with_nothing_on_air_has_an_empty_tail(spark: SparkSession, lake: Path) -> None:
    fill(lake, list(broadcast("demo", "early", seconds=5, start_us=NOON)))
    fill(lake, list(broadcast("demo", "late", seconds=5, start_us=NOON + 2 * HOUR_US - 5_000_000)))
    early, late = ledger.scan(lake).values()
    tails = compute_hours(spark, lake, [early, late], lake.parent / "out")
    assert tails[early.start].tail == "" == ledger.tail_before(early.start), "no hour is made anew on its account"
    assert tails[late.start].tail


@pytest.mark.slow("Spark plans and computes")
def test_spark_s_workers_come_to_what_this_process_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes = [tmp_path / where for where in ("here", "workers")]
    for root in lakes:
        generate(root, streams=3, start=START, hours=2, world=World(always_on=1.0, twice=0.1))
        compute(spark, root)
        monkeypatch.setattr(computing, "FEW_BYTES", 0)
        for few in ("FEW_ROLLUPS", "FEW_MINUTES"):
            monkeypatch.setattr(computing, few, 0)
    for table in (SESSION_HOURS, HOUR, DAY):
        here, workers = (rows(root, table) for root in lakes)
        for row in (*here, *workers):
            row.pop("players_sketch", None)  # It has the same players in the order in which they came.
        assert here
        assert here == workers


@pytest.mark.parametrize("players", [0, 3, 400, 60_000])
def test_spark_and_local_sketches_give_the_same_player_count(spark: SparkSession, players: int) -> None:
    """Of hours with players of their own and common ones, and of one that nobody watched."""
    seen = spark.range(players).selectExpr("id % 7 AS hour", "sha2(cast(id * (id % 3) AS string), 256) AS player")
    seen = seen.union(spark.sql("SELECT 7, NULL"))
    hours = seen.groupBy("hour").agg(expr(f"hll_sketch_agg(player, {SKETCH_BITS}) AS sketch"))
    (theirs,) = hours.selectExpr("hll_sketch_estimate(hll_union_agg(sketch)) AS players").collect()
    ours = united_sketches(bytes(row.sketch) for row in hours.collect())
    assert ours == theirs.players
    distinct = len({number * (number % 3) for number in range(players)})
    assert ours == pytest.approx(distinct, rel=4 * 0.016 if players > 1000 else 0.005)
