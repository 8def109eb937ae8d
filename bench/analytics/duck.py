"""The hour rollups as somebody would compute them with DuckDB: exactly, from the same files, into Parquet.

Nothing of the jobs is used here, so that what they measure is also looked at by another.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
GAP_US = 300_000_000

GROUPS = {
    "stream": "app, name, concat(app, '/', name)",
    "key": "app, name, coalesce(key::varchar, '')",
    "app": "app, '', app",
    "encoder": "'', '', coalesce(encoder, '')",
    "node": "'', '', node",
    "broadcast": "app, name, strftime(make_timestamp(broadcast_us), '%Y-%m-%dT%H:%M:%SZ')",
}
"""Each dimension's app, name and value."""

MEASURES = {
    "samples": "1",
    "elapsed_ms": "elapsed_ms",
    "live_ms": "if(video_bytes + audio_bytes > 0, elapsed_ms, 0)",
    "good_ms": "if(health = 'good', elapsed_ms, 0)",
    "warning_ms": "if(health = 'warning', elapsed_ms, 0)",
    "bad_ms": "if(health = 'bad', elapsed_ms, 0)",
    "starved_ms": "least(elapsed_ms, greatest(0, idle_ms - 2000))",
    "targeted_ms": "if(video_bytes + audio_bytes > 0 AND target_kbps IS NOT NULL, elapsed_ms, 0)",
    "below_ms": "if(video_bytes + audio_bytes > 0 AND video_kbps < 0.7::double * target_kbps, elapsed_ms, 0)",
    **{f"{kind}_bytes": f"{kind}_bytes" for kind in ("video", "audio", "data", "wire", "out")},
    **{name: name for name in ("video_frames", "audio_frames", "keyframes", "missing_frames_est")},
    **{name: name for name in ("media_faults", "dropped_frames")},
    "ts_gaps": "ts_gap",
    "ts_regressions": "ts_regress",
    "player_ms": "players * elapsed_ms",
    "viewer_ms": "viewers * elapsed_ms",
    "kbps_sum": "floor(video_kbps + 0.5::double)::bigint",
    "kbps_squares": "floor(video_kbps + 0.5::double)::bigint ** 2",
    "gop_1": "if(keyframes > 0 AND keyframe_interval <= 1, 1, 0)",
    "gop_2": "if(keyframes > 0 AND keyframe_interval > 1 AND keyframe_interval <= 2, 1, 0)",
    "gop_2_5": "if(keyframes > 0 AND keyframe_interval > 2 AND keyframe_interval <= 2.5, 1, 0)",
    "gop_4": "if(keyframes > 0 AND keyframe_interval > 2.5 AND keyframe_interval <= 4, 1, 0)",
    "gop_6": "if(keyframes > 0 AND keyframe_interval > 4 AND keyframe_interval <= 6, 1, 0)",
    "gop_10": "if(keyframes > 0 AND keyframe_interval > 6 AND keyframe_interval <= 10, 1, 0)",
    "gop_longer": "if(keyframes > 0 AND keyframe_interval > 10, 1, 0)",
}

KINDS = ("video", "audio", "wire")

USED = """
    session, sequence, at_us, elapsed_ms, node, app, name, stream, key, encoder, video_bytes, audio_bytes, data_bytes,
    wire_bytes, out_bytes, video_kbps, audio_kbps, wire_kbps, video_frames, audio_frames, keyframes, keyframe_interval,
    ts_gap, ts_regress, missing_frames_est, media_faults, dropped_frames, idle_ms, players, viewers, health, target_kbps
"""

SUMS = ", ".join(f"sum({expression})::bigint AS {name}" for name, expression in MEASURES.items())
AGAIN = ", ".join(f"sum({name})::bigint AS {name}" for name in MEASURES)
EXTREMES = ", ".join(f"min({kind}_kbps) AS {kind}_kbps_min, max({kind}_kbps) AS {kind}_kbps_max" for kind in KINDS)
EXTREMES_AGAIN = ", ".join(
    f"min({kind}_kbps_min) AS {kind}_kbps_min, max({kind}_kbps_max) AS {kind}_kbps_max" for kind in KINDS
)
PERCENTS = (5, 50, 95)
QUANTILES = ", ".join(
    f"quantile_disc({kind}_kbps, [{', '.join(str(percent / 100) for percent in PERCENTS)}]) AS {kind}" for kind in KINDS
)

LEAST_KBPS = 0.1
"""A part of less than this is taken as one of this."""


def missing() -> str | None:
    """What to install, or None."""
    if find_spec("duckdb") is not None:
        return None
    return "DuckDB is not there: it is one of the packages in requirements/dev.lock, which `make bench` installs"


class Duck:
    """DuckDB on so many threads."""

    def __init__(self, threads: int, folder: Path) -> None:
        import duckdb  # Which is there with the tests' packages only.

        self._folder = folder
        self._database = duckdb.connect(config={"threads": threads, "temp_directory": str(folder / "temporary")})

        self._broadcasts_are_known = False

    def close(self) -> None:
        self._database.close()

    def know_broadcasts(self, samples: Sequence[Path]) -> None:
        """Finds them in samples of a longer time than is to be computed."""
        self._read(samples)
        times = "at_us - elapsed_ms * 1000 AS first_us, at_us AS last_us"
        self._find_broadcasts(f"SELECT session, app, name, {times} FROM samples")
        self._broadcasts_are_known = True

    def whole(self, samples: Sequence[Path]) -> Path:
        """What the jobs do: each sample once; sums, extremes, exact percentiles and peaks by all dimensions."""
        run = self._database.sql
        self._read(samples)
        run("CREATE OR REPLACE TEMP TABLE once AS SELECT DISTINCT ON (session, sequence) * FROM samples")
        run(
            f"""
            CREATE OR REPLACE TEMP TABLE minutes AS
            SELECT at_us // 60000000 AS minute, session, node, app, name, stream, key, encoder, {SUMS}, {EXTREMES},
                min(at_us - elapsed_ms * 1000) AS first_us, max(at_us) AS last_us, min(sequence) AS first_sequence,
                max(players) AS peak_players, max(keyframe_interval) AS keyframe_interval_max
            FROM once GROUP BY ALL
            """
        )
        if not self._broadcasts_are_known:
            self._find_broadcasts("SELECT session, app, name, first_us, last_us FROM minutes")
        out = self._folder / "hours.parquet"
        parts = " UNION ALL ".join(self._dimension(name, group) for name, group in GROUPS.items())
        run(f"COPY ({parts}) TO '{out}' (FORMAT parquet, COMPRESSION zstd)")
        return out

    def streams_alone(self, samples: Sequence[Path]) -> Path:
        """The least that may be called an hour's rollup: by stream, without looking for copies."""
        self._read(samples)
        out = self._folder / "streams.parquet"
        query = (
            f"SELECT at_us // {HOUR_US} AS hour, app, name, {SUMS}, {EXTREMES}, {QUANTILES} FROM samples GROUP BY ALL"
        )
        self._database.sql(f"COPY ({query}) TO '{out}' (FORMAT parquet, COMPRESSION zstd)")
        return out

    def worst_percentile(self, samples: Sequence[Path], rollups: str, length_us: int) -> float:
        """How far a percentile is from that of the samples by nearest rank, each sample there once, as a part of it:
        the worst of all rows of `rollups` (a glob of the jobs' files), each over `length_us`.
        """
        self._read(samples)
        rates = ", ".join(f"{kind}_kbps_p{percent}" for kind in KINDS for percent in PERCENTS)
        off = ", ".join(
            f"abs({kind}_kbps_p{percent} - {kind}[{place}]) / greatest({kind}[{place}], {LEAST_KBPS})"
            for kind in KINDS
            for place, percent in enumerate(PERCENTS, 1)
        )
        worst = 0.0
        for dimension, group in GROUPS.items():
            of_broadcast = "JOIN broadcasts USING (session)" if dimension == "broadcast" else ""
            rows = self._database.sql(
                f"""
                SELECT max(greatest({off})) FROM (
                    SELECT at_us // {length_us} * {length_us} AS start_us, {_keys(group)}, {QUANTILES}
                    FROM samples {of_broadcast} GROUP BY ALL
                )
                JOIN (
                    SELECT start_us, app AS app_, name AS name_, value AS value_, {rates}
                    FROM read_parquet('{rollups}', hive_partitioning = false) WHERE dimension = '{dimension}'
                ) USING (start_us, app_, name_, value_)
                """
            ).fetchall()
            worst = max(worst, rows[0][0])
        return worst

    def sums(self, hours: str) -> list[tuple[Any, ...]]:
        """Of each dimension in the files of hours (a glob): how many rows it has, and what they sum up to."""
        sums = ", ".join(f"sum({name})" for name in ("sessions", "peak_players", "peak_streams", *MEASURES))
        found = self._database.read_parquet(hours, hive_partitioning=False).filter("samples > 0")
        rows: list[tuple[Any, ...]] = found.aggregate(f"dimension, count(*), {sums}").order("dimension").fetchall()
        return rows

    def _find_broadcasts(self, parts: str) -> None:
        """`parts`: a query of times in which sessions were published."""
        self._database.sql(
            f"""
            CREATE OR REPLACE TEMP TABLE broadcasts AS
            WITH sessions AS (
                SELECT session, app, name, min(first_us) AS first_us, max(last_us) AS last_us
                FROM ({parts}) GROUP BY ALL
            ),
            steps AS (
                SELECT *, max(last_us) OVER (PARTITION BY app, name ORDER BY first_us, session
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_us FROM sessions
            )
            SELECT session, max(if(before_us IS NULL OR first_us - before_us > {GAP_US}, first_us, NULL))
                OVER (PARTITION BY app, name ORDER BY first_us, session) AS broadcast_us FROM steps
            """
        )

    def _read(self, samples: Sequence[Path]) -> None:
        files = [str(file) for file in samples]
        self._database.read_parquet(files, hive_partitioning=False).project(USED).create_view("samples", replace=True)

    def _dimension(self, dimension: str, group: str) -> str:
        keys = _keys(group)
        of_broadcast = "JOIN broadcasts USING (session)" if dimension == "broadcast" else ""
        return f"""
            SELECT '{dimension}' AS dimension, * FROM (
                SELECT minute // 60 AS hour, {keys}, {AGAIN}, {EXTREMES_AGAIN}, count(DISTINCT session) AS sessions,
                    max(keyframe_interval_max) AS keyframe_interval_max
                FROM minutes {of_broadcast} GROUP BY ALL
            ) JOIN (
                SELECT at_us // {HOUR_US} AS hour, {keys}, {QUANTILES} FROM once {of_broadcast} GROUP BY ALL
            ) USING (hour, app_, name_, value_) JOIN (
                SELECT minute // 60 AS hour, app_, name_, value_, max(players) AS peak_players,
                    arg_max(minute, players) AS peak_at, max(streams) AS peak_streams
                FROM (
                    SELECT minute, app_, name_, value_, sum(players) AS players, sum(live) AS streams FROM (
                        SELECT minute, {keys}, app, name, max(peak_players) AS players, max(live_ms > 0)::int AS live
                        FROM minutes {of_broadcast} GROUP BY ALL
                    ) GROUP BY ALL
                ) GROUP BY ALL
            ) USING (hour, app_, name_, value_)
        """


def _keys(group: str) -> str:
    app, name, value = group.split(", ", 2)
    return f"{app} AS app_, {name} AS name_, {value} AS value_"
