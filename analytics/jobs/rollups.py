"""Rollups of hours and of days: what was merged from samples (analytics.jobs.groups), and what happened in a group."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.jobs import schemas
from analytics.jobs.dimensions import GROUP, PLAYERS_OF
from analytics.jobs.groups import places


def rollups(groups: pa.Table, happened: pa.Table) -> pa.Table:
    """schemas.GROUPS and HAPPENED_IN to ROLLUPS: of each group that is in one of them."""
    (place,) = places(happened.select(GROUP), [groups])
    alone = np.setdiff1d(np.arange(happened.num_rows), place)
    of_groups = np.concatenate((np.arange(groups.num_rows), np.full(len(alone), groups.num_rows)))
    of_events = np.concatenate((np.where(place < 0, happened.num_rows, place), alone))
    found = _or_none(groups, schemas.GROUPS).take(pa.array(of_groups))
    told = _or_none(happened, schemas.HAPPENED_IN).take(pa.array(of_events))
    tells_apart = pc.is_in(_either(found, told, "dimension"), pa.array([each.value for each in PLAYERS_OF]))
    columns = {name: _either(found, told, name) for name in (*GROUP, "stream")}
    for name in schemas.ROLLUPS:
        if name not in columns:
            columns[name] = (told if name in schemas.HAPPENED_IN else found)[name]
    for name in ("unique_players", "players_sketch"):
        columns[name] = pc.if_else(tells_apart, columns[name], None)
    return schemas.cast(pa.table(columns), schemas.ROLLUPS)


def _either(one: pa.Table, other: pa.Table, name: str) -> pa.ChunkedArray:
    return pc.coalesce(one[name], other[name])


def _or_none(rows: pa.Table, columns: schemas.Columns) -> pa.Table:
    """With a last row of a group that has nothing."""
    nothing = {name: NOTHING.get(kind) for name, kind in columns.items() if name not in UNDEFINED}
    return pa.concat_tables([schemas.cast(rows, columns), pa.Table.from_pylist([nothing], schemas.arrow(columns))])


NOTHING = {schemas.WHOLE: 0, schemas.COUNTS: [], schemas.HISTOGRAM: []}
UNDEFINED = {*schemas.GROUP, "stream", "peak_at_us", "players_sketch"}
"""Are null where there is nothing."""
