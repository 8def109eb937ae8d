# ruff: noqa: S608 (the SQL is the tests' own)
"""Each figure of each dimension in three hours of two days equals the result of an independent computation.

That is DuckDB's SQL on the lake's own files, written from docs/analytics.md without our code. tests/soak does the same
with a million samples of six hours.
"""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb  # Quote its types: pytest keeps annotations to the end, and DuckDB reports them as leaks.
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analytics import runner
from analytics.jobs import computing
from analytics.synthetic import World, generate
from analytics.tables import table_folder
from tests.analytics.lakes import compute

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 2, 22, tzinfo=UTC)
HOURS = 3

FAULTY = 997
"""One sample in this many has a media fault."""

PERCENTILE_TOLERANCE = 0.01
"""The largest relative error of a percentile."""

EXACT_PLAYERS = 300
"""Up to this number, unique players are counted exactly; above it they are estimated."""
PLAYERS_TOLERANCE = 0.05
"""The largest relative error of the estimate: three standard deviations."""

HOUR_US = 3_600_000_000
LENGTH_US = {"hour": HOUR_US, "day": 24 * HOUR_US}

KINDS = ("video", "audio", "wire")
KEY = "start_us, dimension, app, name, value"

PLANNED = "('client_unpublish', 'completed', 'kicked', 'key_revoked', 'replaced', 'node_shutdown', 'test_over')"
"""Reasons of planned ends."""

SUMS = """
    count(*) samples, count(distinct session) sessions, sum(elapsed_ms) elapsed_ms,
    coalesce(sum(elapsed_ms) filter (video_bytes + audio_bytes > 0), 0) live_ms,
    coalesce(sum(elapsed_ms) filter (health = 'good'), 0) good_ms,
    coalesce(sum(elapsed_ms) filter (health = 'warning'), 0) warning_ms,
    coalesce(sum(elapsed_ms) filter (health = 'bad'), 0) bad_ms,
    sum(case when idle_ms <= 2000 then 0 when idle_ms - 2000 > elapsed_ms then elapsed_ms else idle_ms - 2000 end)
        starved_ms,
    coalesce(sum(elapsed_ms) filter (video_bytes + audio_bytes > 0 and target_kbps is not null), 0) targeted_ms,
    coalesce(sum(elapsed_ms) filter (video_bytes + audio_bytes > 0 and video_kbps < 0.7 * target_kbps), 0) below_ms,
    sum(video_bytes) video_bytes, sum(audio_bytes) audio_bytes, sum(data_bytes) data_bytes,
    sum(wire_bytes) wire_bytes, sum(out_bytes) out_bytes, sum(video_frames) video_frames,
    sum(audio_frames) audio_frames, sum(keyframes) keyframes, sum(ts_gap) ts_gaps, sum(ts_regress) ts_regressions,
    sum(missing_frames_est) missing_frames_est, sum(media_faults) media_faults, sum(dropped_frames) dropped_frames,
    sum(players * elapsed_ms) player_ms, sum(coalesce(viewers, 0) * elapsed_ms) viewer_ms,
    sum(floor(video_kbps + 0.5)::bigint) kbps_sum, sum(floor(video_kbps + 0.5)::bigint ** 2) kbps_squares,
    count(*) filter (keyframes > 0 and keyframe_interval <= 1) gop_1,
    count(*) filter (keyframes > 0 and keyframe_interval > 1 and keyframe_interval <= 2) gop_2,
    count(*) filter (keyframes > 0 and keyframe_interval > 2 and keyframe_interval <= 2.5) gop_2_5,
    count(*) filter (keyframes > 0 and keyframe_interval > 2.5 and keyframe_interval <= 4) gop_4,
    count(*) filter (keyframes > 0 and keyframe_interval > 4 and keyframe_interval <= 6) gop_6,
    count(*) filter (keyframes > 0 and keyframe_interval > 6 and keyframe_interval <= 10) gop_10,
    count(*) filter (keyframes > 0 and keyframe_interval > 10) gop_longer,
    max(keyframe_interval) keyframe_interval_max
"""

RATES = ", ".join(
    f"sum({kind}_bytes) * 8 / nullif(sum(elapsed_ms), 0) {kind}_kbps_mean, "
    f"min({kind}_kbps) {kind}_kbps_min, max({kind}_kbps) {kind}_kbps_max"
    for kind in KINDS
)

COUNTS = ("starts", "broadcasts", "reconnects", "recovery_ms")
REPORTS = ("viewer_reports", "viewer_joins", "viewer_join_ms", "viewer_stalled_ms", "viewer_watched_ms")
EVENTS = ("accepted", "refused", "plays", "ends", "unplanned_ends", *REPORTS)

MAPS = ("refusals", "end_reasons")
NULLABLE = {"stream", "unique_players", "peak_at_us", "keyframe_interval_max"} | {
    f"{kind}_kbps_{figure}" for kind in KINDS for figure in ("mean", "min", "max")
}

# The dimensions for which an hour of a session, or an event of a publisher, counts.
DIMENSIONS = """
    select unnest([
        {'dimension': 'stream', 'app': app, 'name': name, 'value': app || '/' || name, 'stream': stream},
        {'dimension': 'key', 'app': app, 'name': name, 'value': coalesce(key::varchar, ''), 'stream': stream},
        {'dimension': 'app', 'app': app, 'name': '', 'value': app, 'stream': null},
        {'dimension': 'encoder', 'app': '', 'name': '', 'value': coalesce(encoder, ''), 'stream': null},
        {'dimension': 'node', 'app': '', 'name': '', 'value': node, 'stream': null},
        {'dimension': 'broadcast', 'app': app, 'name': name, 'stream': stream,
            'value': strftime(make_timestamp(broadcast_us), '%Y-%m-%dT%H:%M:%SZ')}
    ], recursive := true)
"""


# --- The oracle, which tests/soak uses as well ---


def fill_with_disorder(lake: Path, *, streams: int, start: datetime, hours: int) -> int:
    """Fill the lake with everything that can be wrong, and have Spark compute it two hours at a time.

    There are bad uplinks, faults, files that came twice, lost samples, and a node of a former version. Return the
    number of generated samples.
    """
    world = World(bad=0.4, twice=0.1, players=20)
    made = generate(lake, streams=streams, start=start, hours=hours, files_per_hour=4, world=world)
    for number, file in enumerate(sorted(lake.glob("samples/v=1/*/*/*.parquet"))):
        records = pq.ParquetFile(file).read()
        if records["node"][0].as_py().endswith("1"):
            pq.write_table(records.drop_columns(["encoder", "target_kbps", "media_faults", "viewers"]), file)
            continue
        # Generated faults are too rare to rely on. A sample and its copy have the same faults.
        faults = pa.array(records["sequence"].to_numpy() % FAULTY == 0).cast(pa.int64())
        place = records.schema.get_field_index("media_faults")
        records = records.set_column(place, records.schema.field(place), faults)
        if number % 5 == 0:
            records = records.slice(200, records.num_rows // 2)
        pq.write_table(records, file)
    events = next(lake.glob("events/v=1/*/*/*.parquet"))
    shutil.copy(events, events.with_name("copy.parquet"))
    with runner.spark() as spark:
        compute(spark, lake, hours_at_once=2)
    return made.samples


def open_lake(lake: Path) -> "duckdb.DuckDBPyConnection":
    """Connect to a database with the tables `once` (samples), `session_hours` and `happened` (events)."""
    duck = duckdb.connect()
    duck.execute("set threads = 1")
    for table in ("samples", "events"):
        files = f"read_parquet('{lake}/{table}/v=1/*/*/*.parquet', union_by_name = true, hive_partitioning = false)"
        duck.execute(f"create view all_{table} as from {files}")
    duck.execute(
        f"""create table once as select *, at_us // {HOUR_US} * {HOUR_US} as h from
            (select distinct on (session, sequence) * from all_samples)"""
    )
    duck.execute(
        """create table first_look as select h, session, any_value(app) app, any_value(name) as name,
            any_value(stream) stream, any_value(key) as key, any_value(encoder) encoder, any_value(node) node,
            min(at_us - 1000 * elapsed_ms) first_us, max(at_us) last_us, min(sequence) <= 1 begins
        from once group by h, session"""
    )
    duck.execute(
        """create table session_hours as
        with gaps as (
            select *, first_us - max(last_us) over (partition by app, name order by h, first_us, session
                rows between unbounded preceding and 1 preceding) gap_us from first_look
        ), islands as (
            select *, sum((gap_us is null or gap_us > 300000000)::int)
                over (partition by app, name order by h, first_us, session) island from gaps
        )
        select *, first(first_us) over (partition by app, name, island order by h, first_us) broadcast_us,
            begins::int starts, (begins and (gap_us is null or gap_us > 300000000))::int broadcasts,
            (begins and gap_us <= 300000000)::int reconnects,
            case when begins and gap_us between 0 and 300000000 then gap_us // 1000 else 0 end recovery_ms
        from islands"""
    )
    duck.execute(
        f"""create table happened as
        with once as (select distinct * from all_events), timed as (
            select *, at_us // {HOUR_US} * {HOUR_US} as h, case
                when kind = 'session.started' and session_kind = 'publish' then 'accepted'
                when kind = 'session.started' and session_kind = 'play' then 'plays'
                when kind = 'session.ended' and session_kind = 'publish' then 'ends'
                when kind = 'session.ended' and (join_ms is not null or watched_ms is not null) then 'reports'
                when kind = 'attempt' and session_kind != 'play' then 'refused' end what
            from once
        )
        select timed.* exclude (encoder), coalesce(own.encoder, timed.encoder) encoder,
            coalesce(own.broadcast_us, former.broadcast_us) broadcast_us
        from timed left join session_hours own on own.session = timed.session and own.h = timed.h
            left join session_hours former on former.session = timed.session and former.h = timed.h - {HOUR_US}
                and former.last_us >= timed.h - 600000000
        where what is not null"""
    )
    return duck


def expect(duck: "duckdb.DuckDBPyConnection", grain: str) -> None:
    """Make the tables `measured`, the samples of each group, and `expected`, the figures of each group.

    `expected` has the columns of a rollup except histograms, sketches and percentiles.
    """
    start = f"h // {LENGTH_US[grain]} * {LENGTH_US[grain]} as start_us"
    duck.execute(
        f"""create or replace table measured as
        select g.*, once.* exclude (session, h, app, name, stream), once.app || '/' || once.name path
        from ({DIMENSIONS}, h, session, {start} from session_hours) g join once using (h, session)"""
    )
    duck.execute(
        f"""create or replace table expected as
        with sums as (select {KEY}, max(stream) stream, {SUMS}, {RATES} from measured group by all),
        begun as (
            select {KEY}, {", ".join(f"sum({name}) {name}" for name in COUNTS)}
            from ({DIMENSIONS}, {start}, {", ".join(COUNTS)} from session_hours) group by all
        ),
        streams as (
            select {KEY}, at_us // 60000000 as minute, path, max(players) players,
                max(coalesce(viewers, 0)) viewers,
                max(video_bytes + audio_bytes > 0 and elapsed_ms > 0) is_live from measured group by all
        ),
        moments as (
            select {KEY}, minute, sum(players) players, sum(viewers) viewers, sum(is_live::int) live
            from streams group by all
        ),
        peaks as (
            select {KEY}, max(players) peak_players, max(viewers) peak_viewers, max(live) peak_streams,
                case when max(players) > 0 then min_by(minute, (-players, minute)) * 60000000 end peak_at_us
            from moments group by all
        ),
        events as (
            select * from ({DIMENSIONS}, {start}, what, reason, address_hash, join_ms, stalled_ms, watched_ms
                from happened)
            where (dimension != 'stream' or stream > 0) and (dimension != 'broadcast' or value is not null)
                and (dimension != 'app' or (app != '' and app not like '%…'))
                and (what in ('accepted', 'ends') or dimension in ('stream', 'app', 'node'))
        ),
        counts as (
            select {KEY}, max(stream) event_stream, count(*) filter (what = 'accepted') accepted,
                count(*) filter (what = 'refused') refused, count(*) filter (what = 'plays') plays,
                count(*) filter (what = 'ends') ends,
                count(*) filter (what = 'ends' and reason not in {PLANNED}) unplanned_ends,
                count(*) filter (what = 'reports') viewer_reports,
                count(join_ms) filter (what = 'reports') viewer_joins,
                sum(join_ms) filter (what = 'reports') viewer_join_ms,
                sum(stalled_ms) filter (what = 'reports') viewer_stalled_ms,
                sum(watched_ms) filter (what = 'reports') viewer_watched_ms,
                histogram(reason) filter (what = 'refused') refusals,
                histogram(reason) filter (what = 'ends') end_reasons,
                count(distinct address_hash) filter (what = 'plays') players
            from events group by all
        )
        select * exclude (stream, event_stream, players, refusals, end_reasons),
            coalesce(stream, event_stream) stream,
            case when dimension in ('stream', 'app', 'node') then coalesce(players, 0) end unique_players,
            list_sort(map_entries(refusals)) refusals, list_sort(map_entries(end_reasons)) end_reasons
        from sums join begun using ({KEY}) join peaks using ({KEY}) full join counts using ({KEY})"""
    )


def differences(column: str) -> str:
    """Select the groups in which the column differs, with both values."""
    here, there = f"found.{column}", f"expected.{column}"
    if column == "unique_players":
        return f"""select {KEY}, {here} as here, {there} as there from found full join expected using ({KEY})
            where coalesce(abs({here} - {there}) > if({there} > {EXACT_PLAYERS}, {PLAYERS_TOLERANCE} * {there}, 0),
                ({here} is null) != ({there} is null)) order by all limit 3"""
    if column in MAPS:
        here, there = f"list_sort(map_entries({here}))", f"coalesce({there}, [])"
    elif column not in NULLABLE:
        there = f"coalesce({there}, 0)"
    return f"""select {KEY}, {here} as here, {there} as there
        from found full join expected using ({KEY}) where here is distinct from there order by all limit 3"""


def wrong_percentiles(kind: str) -> str:
    """Select the groups with a percentile outside the tolerance."""
    columns = {"p5": 0.05, "p50": 0.5, "p95": 0.95}
    exact = ", ".join(
        f"list_sort(list({kind}_kbps))[greatest(1, ceil(round({rank} * count(*), 6)))::bigint] exact_{figure}"
        for figure, rank in columns.items()
    )
    wrong = " or ".join(
        f"coalesce(abs(found.{kind}_kbps_{name} - exact_{name}) > {PERCENTILE_TOLERANCE} * exact_{name} + 0.001, true)"
        for name in columns
    )
    return f"""with exact as (select {KEY}, {exact} from measured group by all)
        select {KEY} from exact left join found using ({KEY}) where {wrong} limit 3"""


def load_grain(duck: "duckdb.DuckDBPyConnection", lake: Path, grain: str) -> None:
    """Make the tables `found`, `expected` and `measured` of a grain."""
    expect(duck, grain)
    files = f"read_parquet('{table_folder(lake, grain)}/**/figures.parquet', hive_partitioning = false)"
    duck.execute(f"create or replace table found as from {files}")


def check_columns(found: "duckdb.DuckDBPyConnection") -> None:
    """Check that sums, extremes and counts are the same in each row of each dimension."""
    columns = [column[0] for column in found.execute("from expected limit 0").description]
    assert {"stream", "unplanned_ends", "peak_at_us", "video_kbps_mean"} < set(columns)
    assert set(found.execute("from found limit 0").df()) - set(columns) == {
        f"{kind}_{figure}" for kind in KINDS for figure in ("histogram", "kbps_p5", "kbps_p50", "kbps_p95")
    } | {"players_sketch"}
    names = {row[0] for row in found.execute("select distinct dimension from found").fetchall()}
    assert names == {"stream", "key", "app", "encoder", "node", "broadcast"}
    for column in set(columns) - set(KEY.split(", ")):  # A row that is missing differs in all others.
        wrong = found.execute(differences(column)).fetchall()
        assert wrong == [], column


def check_percentiles(found: "duckdb.DuckDBPyConnection", kind: str, *, of_most: int) -> None:
    """Check each row's percentiles; the largest row must have more than `of_most` samples."""
    assert found.execute(wrong_percentiles(kind)).fetchall() == []
    assert found.execute("select max(samples) from found").fetchall() > [(of_most,)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, jvm: None) -> Path:
    """Computed in the way for many samples, which Spark compiles: two hours at once, and one after midnight."""
    lake = tmp_path_factory.mktemp("oracle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computing, "FEW_ROWS", 2_000)
        patch.setattr(computing, "FEW_BYTES", 1_000_000)
        assert fill_with_disorder(lake, streams=24, start=START, hours=HOURS) > 90_000
    return lake


@pytest.fixture(scope="module")
def duck(lake: Path) -> "Iterator[duckdb.DuckDBPyConnection]":
    with open_lake(lake) as opened:
        yield opened


@pytest.fixture(scope="module", params=["hour", "day"])
def found(request: pytest.FixtureRequest, lake: Path, duck: "duckdb.DuckDBPyConnection") -> "duckdb.DuckDBPyConnection":
    load_grain(duck, lake, request.param)
    return duck


def test_sums_extremes_and_counts_equal_those_of_the_oracle(found: "duckdb.DuckDBPyConnection") -> None:
    check_columns(found)


def test_each_measured_column_of_the_test_data_is_above_zero(found: "duckdb.DuckDBPyConnection") -> None:
    some_sums = ("starved_ms", "below_ms", "gop_10", "media_faults", "bad_ms", "viewer_ms")
    for column in (*COUNTS, *EVENTS, *some_sums):
        assert found.execute(f"select sum({column}) from expected where dimension = 'node'").fetchall() > [(0,)], column


@pytest.mark.parametrize("kind", KINDS)
def test_percentiles_are_within_a_hundredth_of_the_oracle(found: "duckdb.DuckDBPyConnection", kind: str) -> None:
    check_percentiles(found, kind, of_most=20_000)
