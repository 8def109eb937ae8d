"""Each publishing session's minutes, from its samples; and which samples came twice.

This is the one pass over all columns of all samples, so it groups by hashing and shuffles sums only.
"""

from pyspark.sql import DataFrame

from analytics.jobs.periods import HOUR_US, MINUTE_US, start_of
from analytics.jobs.schemas import BITRATES, MEASURED, MINUTES, PUBLISH, names
from analytics.jobs.sql import listed, named, query
from analytics.models import GOP_BINS

SILENCE_MS = 2000
"""A publisher starves its stream once nothing has come for so long."""

BELOW = 0.7
"""Video below this part of its target is below target."""

SUMMED = {"ts_gaps": "ts_gap", "ts_regressions": "ts_regress"}
"""Sums whose samples' column has another name."""


HOUR_OF_MINUTE = start_of("minute_us", HOUR_US)


def minutes(samples: DataFrame) -> DataFrame:
    """Samples (schemas.SAMPLES), each once, to minutes (schemas.MINUTES)."""
    return query(f"SELECT {_COLUMNS} FROM {{samples}} GROUP BY {_GROUP}", samples=samples)


def doubtful(minutes: DataFrame) -> DataFrame:
    """The sessions (`session`) of minutes that may have samples twice. None is missed; few are here without reason.

    A copy has its original's time. So samples come once where each minute has as many bits as samples, and begins
    after the last number of the minute before.
    """
    return query(
        """
        SELECT DISTINCT session
        FROM (
            SELECT session, samples, sequences, first_sequence <= lag(last_sequence, 1, -1) OVER (
                PARTITION BY session ORDER BY minute_us, first_sequence
            ) AS overlaps
            FROM {minutes}
        )
        WHERE overlaps OR bit_count(sequences) != samples
        """,
        minutes=minutes,
    )


def each_once(samples: DataFrame, sessions: DataFrame) -> DataFrame:
    """The samples without those of the sessions that came before. Of two that differ, always the same one is left."""
    return query(
        f"""
        SELECT sample.* FROM (
            SELECT max(struct({listed(samples.columns)})) AS sample
            FROM {{samples}} LEFT SEMI JOIN {{sessions}} USING (session)
            GROUP BY session, sequence
        )
        UNION ALL SELECT {listed(samples.columns)} FROM {{samples}} LEFT ANTI JOIN {{sessions}} USING (session)
        """,
        samples=samples,
        sessions=sessions.hint("broadcast"),
    )


def _when(condition: str, value: str) -> str:
    return f"if({condition}, {value}, 0)"


def _times() -> dict[str, str]:
    arrived = "video_bytes + audio_bytes > 0"
    targeted = f"{arrived} AND target_kbps IS NOT NULL"
    return {
        "live_ms": _when(arrived, "elapsed_ms"),
        **{f"{health}_ms": _when(f"health = '{health}'", "elapsed_ms") for health in ("good", "warning", "bad")},
        "starved_ms": f"least(elapsed_ms, greatest(0, idle_ms - {SILENCE_MS}))",
        "targeted_ms": _when(targeted, "elapsed_ms"),
        "below_ms": _when(f"{targeted} AND video_kbps < {BELOW}D * target_kbps", "elapsed_ms"),
        "player_ms": "players * elapsed_ms",
    }


def _bitrates() -> dict[str, str]:
    whole = "floor(video_kbps + 0.5D)"
    return {"kbps_sum": whole, "kbps_squares": f"{whole} * {whole}"}


def _keyframe_intervals() -> dict[str, str]:
    bins, over = {}, "keyframes > 0"
    for name, longest in GOP_BINS.items():
        bins[name] = _when(f"{over} AND keyframe_interval <= double('{longest}')", "1")
        over += f" AND keyframe_interval > double('{longest}')"
    return bins


def _columns() -> dict[str, str]:
    """{column of schemas.MINUTES, in their order: expression}"""
    others = {**_times(), **_bitrates(), **_keyframe_intervals(), **SUMMED, "samples": "1"}
    found = {
        "minute_us": start_of("at_us", MINUTE_US),
        **{name: name for name in names(PUBLISH)},
        "first_us": "min(at_us - elapsed_ms * 1000)",
        "last_us": "max(at_us)",
        "first_sequence": "min(sequence)",
        "last_sequence": "max(sequence)",
        "sequences": "bit_or(shiftleft(1L, cast(sequence % 64 AS int)))",
        **{name: f"cast(coalesce(sum({others.get(name, name)}), 0) AS bigint)" for name in MEASURED},
        "peak_players": "max(players)",
        "keyframe_interval_max": "max(keyframe_interval)",
        **{f"{kind}_kbps_{figure}": f"{figure}({kind}_kbps)" for kind in BITRATES for figure in ("min", "max")},
    }
    return {name: found[name] for name in MINUTES.fieldNames()}


_COLUMNS = named(_columns())
_GROUP = listed((start_of("at_us", MINUTE_US), *names(PUBLISH)))
