"""Each publishing session's hours, and which broadcast they belong to.

A broadcast's name is the time at which it begins, as that was known when it was first computed. It is kept: what comes
late for its first hour must not name it anew in all that follow, which would then have to be computed again. So hours
that others have gone on from name their sessions' broadcasts as before (schemas.GIVEN), and an hour that comes late
before others takes their names over.

Hours follow from one another, and have few rows: this process makes them, by Arrow and numpy.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from analytics import schemas
from analytics.jobs.groups import Numbers, array, codes, positions_in
from analytics.jobs.minutes import LABELS, merged
from analytics.metrics import BROADCAST_GAP_S

GAP_US = BROADCAST_GAP_S * 1_000_000
"""Sessions of one stream with a longer gap between them are of two broadcasts."""

TAIL_US = 2 * GAP_US
"""What ended so long before its hour's end is of no broadcast that goes on: a sample may begin before its hour."""

START = 1
"""A session's first sample has this sequence number."""

PATH = ["app", "name"]
ORDER = [*PATH, "start_us", "first_us", "session", "first_sequence"]

NONE = -1
"""In place of a time that there is not: all others come later, by more than any gap."""


def session_hours(sessions: pa.Table, tail: pa.Table, given: pa.Table) -> pa.Table:
    """schemas.SESSIONS of some hours one after another, the TAIL of the hour before them, and the broadcasts that are
    GIVEN, to SESSION_HOURS.
    """
    hours = merged(sessions, ["start_us", *LABELS]).sort_by([(name, "ascending") for name in ORDER])
    before = tail.filter(pc.equal(tail["session"], ""))
    begins_stream = np.diff(codes(hours.select(PATH))[0], prepend=-1) != 0
    first_us = array(hours, "first_us")
    reached_us = _before(array(hours, "last_us"), begins_stream, _of(before, "last_us", hours, PATH))
    gap_us = first_us - reached_us
    continues = gap_us <= GAP_US
    broadcast_us = _broadcasts(
        begins_stream | ~continues,
        given_us=_of(given, "broadcast_us", hours, ["start_us", "session"]),
        before_us=np.where(continues, _of(before, "broadcast_us", hours, PATH), NONE),
        first_us=first_us,
    )
    starts = array(hours, "first_sequence") <= START
    columns = {
        "broadcast_us": broadcast_us,
        "starts": starts,
        "broadcasts": starts & ~continues,
        "reconnects": starts & continues,
        "recovery_ms": np.where(starts & continues, np.maximum(gap_us, 0) // 1000, 0),
    }
    for name, values in columns.items():
        hours = hours.append_column(name, pa.array(values))
    return schemas.cast(hours, schemas.SESSION_HOURS)


def _broadcasts(begins: NDArray[np.bool], *, given_us: Numbers, before_us: Numbers, first_us: Numbers) -> Numbers:
    """Of rows in stretches without a long gap, each the part of a broadcast: when that began. `begins`: a stretch does;
    `before_us`: the broadcast of the hour before that it goes on from, or NONE.

    It has the name that was last given to a row up to here, the one it went on from, the first that is given later, or
    none yet.
    """
    rows = np.arange(len(begins))
    stretch, places_of_first = np.cumsum(begins) - 1, np.flatnonzero(begins)
    first, last = places_of_first[stretch], np.append(places_of_first[1:], len(begins))[stretch] - 1
    is_given = given_us != NONE
    former = np.maximum.accumulate(np.where(is_given, rows, -1))
    later = np.minimum.accumulate(np.where(is_given, rows, len(rows))[::-1])[::-1]
    return np.select(
        [former >= first, before_us[first] != NONE, later <= last],
        [given_us[former], before_us[first], given_us[np.minimum(later, last)]],
        first_us[first],
    )


def _before(last_us: Numbers, begins: NDArray[np.bool], before_us: Numbers) -> Numbers:
    """Until when the rows before had come in each row's stream, of which the first has `before_us`."""
    known, place = np.unique(last_us, return_inverse=True)
    # Streams' numbers grow: the greatest of one is below all of the next.
    reached = np.maximum.accumulate(np.cumsum(begins) * len(known) + place) % max(1, len(known))
    return np.where(begins, before_us, np.roll(known[reached], 1))


def _of(rows: pa.Table, name: str, hours: pa.Table, by: Sequence[str]) -> Numbers:
    """The rows' column for each hour that is the same by these columns, or NONE."""
    (place,) = positions_in(rows.select(by), [hours])
    return np.append(array(rows, name), NONE)[place]
