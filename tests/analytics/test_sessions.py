"""Sessions' hours and broadcasts, against the same told row by row."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics import schemas
from analytics.jobs.sessions import GAP_US, session_hours

HOUR_US = 3_600_000_000
FIRST_US = 490_000 * HOUR_US
PATHS = [("live", "main"), ("live", "side"), ("side", "main")]
NONE_OF = {schemas.TEXT: "", schemas.WHOLE: 0, schemas.REAL: 0.0}

Row = dict[str, Any]
Path = tuple[str, str]


def table(rows: list[Row], columns: schemas.Columns) -> pa.Table:
    missing = {name: NONE_OF[kind] for name, kind in columns.items()}
    return pa.Table.from_pylist([missing | row for row in rows], schemas.arrow(columns))


@st.composite
def sessions(draw: st.DrawFn) -> list[Row]:
    rows = []
    for number in range(draw(st.integers(0, 12))):
        app, name = draw(st.sampled_from(PATHS))
        start_us = FIRST_US + draw(st.integers(0, 1)) * HOUR_US
        first_us = start_us + draw(st.integers(0, 12)) * 150_000_000  # Half a gap.
        rows.append(
            {
                "start_us": start_us,
                "session": f"s{number}",
                "app": app,
                "name": name,
                "stream": PATHS.index((app, name)),
                "key": draw(st.sampled_from([None, 3])),
                "encoder": draw(st.sampled_from([None, "OBS"])),
                "first_us": first_us,
                "last_us": first_us + draw(st.integers(0, 6)) * 150_000_000,
                "first_sequence": draw(st.integers(1, 2)),
                "samples": draw(st.integers(1, 100)),
            }
        )
    return rows


@st.composite
def tails(draw: st.DrawFn) -> dict[Path, tuple[int, int]]:
    """Of streams, when the last sample of the hour before was, and when its broadcast began."""
    ended = st.integers(0, 3).map(lambda gaps: FIRST_US - gaps * GAP_US // 2)
    began = st.integers(1, 9).map(lambda hours: FIRST_US - hours * HOUR_US)
    return draw(st.dictionaries(st.sampled_from(PATHS), st.tuples(ended, began)))


def told(rows: list[Row], tail: Mapping[Path, tuple[int, int]], named: Mapping[str, int]) -> dict[str, Row]:
    """{session: its broadcast and how it began}, one row after another."""
    found: dict[str, Row] = {}
    order = sorted(rows, key=lambda row: (row["app"], row["name"], row["start_us"], row["first_us"], row["session"]))
    for path, own in groupby(order, key=lambda row: (row["app"], row["name"])):
        reached, begun = tail.get(path, (None, None))
        stretches: list[tuple[int | None, list[Row]]] = []
        for row in own:
            gap_us = None if reached is None else row["first_us"] - reached
            goes_on = gap_us is not None and gap_us <= GAP_US
            if not goes_on or not stretches:
                stretches.append((begun if goes_on else None, []))
            stretches[-1][1].append(row)
            reached = row["last_us"] if row is stretches[0][1][0] else max(reached or 0, row["last_us"])
            begins = row["first_sequence"] == 1
            found[row["session"]] = {
                "starts": int(begins),
                "broadcasts": int(begins and not goes_on),
                "reconnects": int(begins and goes_on),
                "recovery_ms": max(gap_us or 0, 0) // 1000 if begins and goes_on else 0,
                "samples": row["samples"],
            }
        for before, stretch in stretches:
            names = [named.get(row["session"]) for row in stretch]
            for place, row in enumerate(stretch):
                former = [name for name in names[: place + 1] if name is not None][-1:]
                later = [name for name in names[place:] if name is not None][:1]
                known = [*former, *([before] if before is not None else []), *later, stretch[0]["first_us"]]
                found[row["session"]]["broadcast_us"] = known[0]
    return found


@settings(max_examples=300)
@given(rows=sessions(), tail=tails(), draw=st.data())
def test_broadcasts_and_what_a_session_s_start_was(
    rows: list[Row], tail: dict[Path, tuple[int, int]], draw: st.DataObject
) -> None:
    named = draw.draw(st.dictionaries(st.sampled_from([row["session"] for row in rows] or ["-"]), st.integers(1, 9)))
    before = [
        {"app": app, "name": name, "last_us": last_us, "broadcast_us": began_us}
        for (app, name), (last_us, began_us) in tail.items()
    ]
    given_before = [
        {"start_us": row["start_us"], "session": row["session"], "broadcast_us": named[row["session"]]}
        for row in rows
        if row["session"] in named
    ]
    parts = [row | {"samples": samples} for row in rows for samples in (row["samples"] - 1, 1)]
    made = session_hours(
        table(parts, schemas.SESSIONS), table(before, schemas.TAIL), table(given_before, schemas.GIVEN)
    )
    expected = told(rows, tail, named)
    columns = ["broadcast_us", "starts", "broadcasts", "reconnects", "recovery_ms", "samples"]
    assert made.num_rows == len(rows)
    assert {row["session"]: {name: row[name] for name in columns} for row in made.to_pylist()} == expected
    labels = ["session", "start_us", "stream", "key", "encoder"]
    assert sorted(map(repr, made.select(labels).to_pylist())) == sorted(
        repr({name: row[name] for name in labels}) for row in rows
    )
