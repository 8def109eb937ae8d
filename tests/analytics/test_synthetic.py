"""Telemetry that is made up: it is what nodes write, agrees with itself, and comes out the same each time."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command

from analytics.synthetic import Generated, World, generate, holds_other_data
from ingest.models import AuditEntry
from ingest.telemetry.lake import EVENTS, SAMPLES, hour_folder
from ingest.telemetry.reading import read_session
from tests.analytics.lakes import broadcast, fill

EVENING = datetime(2026, 3, 2, 21, tzinfo=UTC)
STREAMS = 30
HOURS = 5


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Generated]:
    """From 21:00 to 02:00."""
    lake = tmp_path_factory.mktemp("synthetic") / "lake"
    return lake, generate(lake, streams=STREAMS, start=EVENING, hours=HOURS, world=World(bad=0.3))


def rows(lake: Path, query: str) -> list[tuple[Any, ...]]:
    """The query's rows; `samples` and `events` are the lake's, each with its file's `filename`."""
    with duckdb.connect() as database:
        for table in ("samples", "events"):
            files = f"read_parquet('{lake}/{table}/v=1/*/*/*.parquet', hive_partitioning = true, filename = true)"
            database.sql(f"CREATE VIEW {table} AS FROM {files}")
        return database.sql(query).fetchall()


def test_an_hour_is_the_same_alone_and_in_any_files(tmp_path: Path, made: tuple[Path, Generated]) -> None:
    hour = EVENING.replace(hour=23)
    generate(tmp_path, streams=STREAMS, start=hour, hours=1, files_per_hour=12, world=World(bad=0.3))
    for table in (SAMPLES, EVENTS):
        whole, parts = (
            pq.read_table(hour_folder(lake, table.name, hour), partitioning=None).sort_by(
                [("session", "ascending"), ("sequence", "ascending"), ("at_us", "ascending")]
            )
            for lake in (made[0], tmp_path)
        )
        assert whole.num_rows > 0
        assert whole.equals(parts)
    assert len(list(hour_folder(tmp_path, "samples", hour).iterdir())) > 12


def test_another_seed_makes_another_day(tmp_path: Path, made: tuple[Path, Generated]) -> None:
    generate(tmp_path, streams=STREAMS, start=EVENING, hours=1, seed=8)
    sessions = "SELECT DISTINCT session FROM samples"
    assert not set(rows(tmp_path, sessions)) & set(rows(made[0], sessions))


def test_synthetic_files_have_node_schemas_and_the_reported_counts(made: tuple[Path, Generated]) -> None:
    for table in (SAMPLES, EVENTS):
        for file in made[0].glob(f"{table.name}/v=1/dt=*/hr=*/*.parquet"):
            schema = pq.read_schema(file)
            assert schema.equals(table.schema), file
            assert file.name.startswith("synthetic-")
    outside = "SELECT count(*) FROM {} WHERE strftime(make_timestamp(at_us), '%Y-%m-%d %H') != dt || ' ' || hr"
    assert rows(made[0], outside.format("samples")) == rows(made[0], outside.format("events")) == [(0,)]
    told = made[1]
    assert rows(made[0], "SELECT count(*), count(DISTINCT session) FROM samples") == [(told.samples, told.sessions)]
    assert rows(made[0], "SELECT count(*) FROM events") == [(told.events,)]
    assert rows(made[0], "SELECT count(*) FROM samples WHERE NOT contains(filename, '/' || node || '-')") == [(0,)]


def test_each_second_of_a_session_is_sampled_once(made: tuple[Path, Generated]) -> None:
    sessions = rows(
        made[0],
        """
        SELECT count(*), count(DISTINCT sequence), max(sequence) - min(sequence) + 1, sum(elapsed_ms),
            (max(at_us) - min(at_us)) / 1000 + arg_min(elapsed_ms, at_us)
        FROM samples GROUP BY session
        """,
    )
    for count, distinct, span, elapsed_ms, lasted_ms in sessions:
        assert count == distinct == span
        assert abs(elapsed_ms - lasted_ms) <= 1


def test_a_session_is_read_back_from_its_lake(made: tuple[Path, Generated]) -> None:
    longest = "SELECT session, count(*), min(at_us), max(at_us) FROM samples GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1"
    [(session, count, since, until)] = rows(made[0], longest)
    series = read_session(made[0], session, since, until + 1)
    assert series.totals.samples == count
    assert not series.problems


def test_sessions_begin_and_end_by_their_events(made: tuple[Path, Generated]) -> None:
    apart = """
        SELECT count(*), count(*) FILTER (WHERE abs(e.at_us - s.first) > 1500 OR s.sequence != 1)
        FROM (SELECT session, at_us FROM events WHERE kind = 'session.started' AND session_kind = 'publish') e
        JOIN (SELECT session, min(at_us) - 1000 * arg_min(elapsed_ms, at_us) AS first, min(sequence) AS sequence
            FROM samples GROUP BY 1) s USING (session)
    """
    [(count, wrong)] = rows(made[0], apart)
    assert count > 20
    assert wrong == 0
    ends = """
        SELECT count(*)
        FROM (SELECT session, at_us FROM events WHERE kind = 'session.ended' AND session_kind = 'publish') e
        LEFT JOIN (SELECT session, max(at_us) AS last FROM samples GROUP BY 1) s USING (session)
        WHERE last IS NULL OR abs(e.at_us - last) > 1500
    """
    assert rows(made[0], ends) == [(0,)]


def test_players_of_the_samples_are_those_of_the_events(made: tuple[Path, Generated]) -> None:
    """In the last hour, whose players have all come in hours that were made."""
    wrong = """
        WITH plays AS (
            SELECT stream, at_us // 1000000 AS second, CASE kind WHEN 'session.started' THEN 1 ELSE -1 END AS step
            FROM events WHERE session_kind = 'play'
        ),
        before AS (SELECT stream, count(*) AS n FROM events e WHERE session_kind = 'play' AND kind = 'session.ended'
            AND session NOT IN (SELECT session FROM events WHERE kind = 'session.started') GROUP BY 1),
        seen AS (SELECT session, stream, at_us // 1000000 AS second, players FROM samples WHERE hr = '01'),
        counted AS (
            SELECT s.session, s.second, s.players, coalesce(any_value(b.n), 0) + coalesce(sum(p.step), 0) AS n
            FROM seen s LEFT JOIN plays p ON p.stream = s.stream AND p.second <= s.second
            LEFT JOIN before b ON b.stream = s.stream
            WHERE s.second % 300 = 0 GROUP BY ALL
        )
        SELECT count(*), count(*) FILTER (WHERE players != n), max(players) FROM counted
    """
    [(count, off, most)] = rows(made[0], wrong)
    assert count > 50
    assert most > 5
    assert off == 0


def test_health_is_what_the_figures_say(made: tuple[Path, Generated]) -> None:
    kinds = rows(made[0], "SELECT health, count(*) FROM samples GROUP BY 1")
    assert {health for health, _ in kinds} == {"none", "good", "warning", "bad"}
    [(silent, fine)] = rows(
        made[0],
        """
        SELECT count(*) FILTER (WHERE idle_ms >= 5000 AND health = 'bad' AND video_bytes + audio_bytes = 0),
            count(*) FILTER (WHERE idle_ms >= 5000 AND (health != 'bad' OR video_bytes + audio_bytes > 0))
        FROM samples WHERE sequence > 60
        """,
    )
    assert silent > 10
    assert fine == 0


def test_synthetic_day_contains_all_kinds_of_streams_and_gaps(made: tuple[Path, Generated]) -> None:
    [(nodes, apps, keyless, audio_only, unnamed, across)] = rows(
        made[0],
        """
        SELECT count(DISTINCT node), count(DISTINCT app), count(*) FILTER (WHERE key IS NULL),
            count(*) FILTER (WHERE app = 'radio' AND video_bytes = 0 AND audio_bytes > 0),
            count(*) FILTER (WHERE ts_gap > 0 OR missing_frames_est > 0),
            (SELECT count(*) FROM (SELECT session FROM samples GROUP BY 1 HAVING count(DISTINCT dt) > 1))
        FROM samples
        """,
    )
    assert nodes == 3
    assert apps >= 3
    assert min(keyless, audio_only, unnamed, across) > 0
    gaps = rows(
        made[0],
        """
        SELECT (first - lag(last) OVER (PARTITION BY stream ORDER BY first)) / 1e6 FROM (
            SELECT stream, session, min(at_us) - 1000 * arg_min(elapsed_ms, at_us) AS first, max(at_us) AS last
            FROM samples GROUP BY ALL) QUALIFY lag(last) OVER (PARTITION BY stream ORDER BY first) IS NOT NULL
        """,
    )
    assert any(gap < 0 for (gap,) in gaps), "takeovers"
    assert any(0 < gap <= 300 for (gap,) in gaps), "reconnects"
    assert any(gap > 300 for (gap,) in gaps), "new broadcasts"


def test_some_files_come_twice(tmp_path: Path) -> None:
    made = generate(tmp_path, streams=4, start=EVENING, hours=1, files_per_hour=2, world=World(twice=1.0, always_on=1))
    query = "SELECT count(*), count(DISTINCT (session, sequence)) FROM samples"
    assert rows(tmp_path, query) == [(2 * made.samples, made.samples)]


def test_a_lake_with_a_nodes_files_is_told_apart(tmp_path: Path) -> None:
    assert not holds_other_data(tmp_path)
    generate(tmp_path, streams=1, start=EVENING, hours=1)
    assert not holds_other_data(tmp_path)
    fill(tmp_path, list(broadcast("cam", "s", seconds=2)))
    assert holds_other_data(tmp_path)


@pytest.mark.parametrize(("streams", "hours", "files"), [(0, 1, 1), (1, 0, 1), (1, 1, 7)])
def test_impossible_counts_are_refused(tmp_path: Path, streams: int, hours: int, files: int) -> None:
    with pytest.raises(ValueError, match="60"):
        generate(tmp_path, streams=streams, start=EVENING, hours=hours, files_per_hour=files)
    assert not list(tmp_path.iterdir())


ASKED = ("analytics", "generate", "--streams", "3", "--from", "2026-03-02T20:00", "--hours", "1", "--always-on", "1")


def count_samples(lake: Path) -> int:
    found: int = ds.dataset(lake / "samples" / "v=1", format="parquet").count_rows()
    return found


@pytest.mark.django_db
def test_generate_command_fills_the_installations_lake_and_is_audited(
    own_lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = own_lake
    call_command(*ASKED, "--nodes", "1")
    made = count_samples(lake)
    assert made > 10_000
    assert f"Made {made:,} samples" in capsys.readouterr().out
    assert AuditEntry.objects.get().action == "analytics.generate"
    assert len(list(lake.glob("samples/v=1/dt=2026-03-02/hr=20/synthetic-1-*.parquet"))) == 60


def test_generate_command_needs_an_option_for_a_lake_with_measured_data(lake: Path) -> None:
    fill(lake, list(broadcast("cam", "s", seconds=5)))
    for option, said in (((), "--into-existing"), (("--into-existing", "--files-per-hour", "7"), "divides 60")):
        with pytest.raises(CommandError, match=said):
            call_command(*ASKED, "--lake", str(lake), *option)
    assert count_samples(lake) == 5
    call_command(*ASKED, "--lake", str(lake), "--into-existing", "--files-per-hour", "1")
    assert count_samples(lake) > 10_000
