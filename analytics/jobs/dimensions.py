"""What a row counts for: a stream, key, application, encoder, node and broadcast."""

from collections.abc import Iterable

from analytics.jobs import schemas
from analytics.jobs.sql import listed
from analytics.models import Dimension

GROUP = tuple(schemas.GROUP)

OF = {
    Dimension.STREAM: ("app", "name", "concat(app, '/', name)", "stream"),
    Dimension.KEY: ("app", "name", "coalesce(cast(key as string), '')", "stream"),
    Dimension.APP: ("app", "''", "app", "null"),
    Dimension.ENCODER: ("''", "''", "coalesce(encoder, '')", "null"),
    Dimension.NODE: ("''", "''", "node", "null"),
    Dimension.BROADCAST: (
        "app",
        "name",
        "date_format(timestamp_micros(broadcast_us), \"yyyy-MM-dd'T'HH:mm:ss'Z'\")",
        "stream",
    ),
}
"""A rollup's app, name, value and stream, in SQL."""

USED = ("app", "name", "stream", "key", "encoder", "node", "broadcast_us")

PLAYERS_OF = (Dimension.STREAM, Dimension.APP, Dimension.NODE)
"""Where players can be told apart. So can refusals, of which what calls itself a key or an encoder is not believed."""


def of_each(rows: str, columns: Iterable[str], dimensions: Iterable[Dimension] = Dimension) -> str:
    """SQL of a row for each of the dimensions: GROUP, `stream` and the columns. `rows`: a table's name or a query in
    brackets, which has USED, start_us and the columns.
    """
    groups = listed(_struct(dimension) for dimension in dimensions)
    return f"""
        SELECT start_us, each.*, {listed(columns)} FROM (SELECT *, explode(array({groups})) AS each FROM {rows})
    """


def groups_of(dimensions: Iterable[Dimension] = Dimension) -> str:
    """SQL of an array with the `group_id` of each dimension's group: what has many rows is grouped by a number.

    Of two groups among a million one has the other's by a chance of 1 in 40 million.
    """
    return f"array({listed(_group_id(dimension) for dimension in dimensions)})"


GROUP_ID = f"xxhash64({listed(GROUP)})"
"""Of what has a rollup's columns."""


def _group_id(dimension: Dimension) -> str:
    app, name, value, _ = OF[dimension]
    return f"xxhash64(start_us, '{dimension.value}', {app}, {name}, {value})"


def _struct(dimension: Dimension) -> str:
    app, name, value, stream = OF[dimension]
    return (
        f"named_struct('dimension', '{dimension.value}', 'app', {app}, 'name', {name}, 'value', {value}, "
        f"'stream', cast({stream} AS bigint))"
    )
