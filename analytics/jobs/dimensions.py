"""What a row counts for: a stream, key, application, encoder, node and broadcast."""

from collections.abc import Iterable

from pyspark.sql import DataFrame

from analytics.jobs.sql import listed, query
from analytics.models import Dimension

GROUP = ("start_us", "dimension", "app", "name", "value")
"""What makes a rollup this one, besides its grain."""

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


def of_each(frame: DataFrame, dimensions: Iterable[Dimension] = Dimension, only: str = "true") -> DataFrame:
    """A row for each of the dimensions: GROUP and `stream` in place of the columns USED, which the frame has.

    `only`: in SQL of the frame's columns and `dimension`, what the row counts for.
    """
    groups = listed(_struct(dimension) for dimension in dimensions)
    rest = [column for column in frame.columns if column not in USED]
    return query(
        f"""
        SELECT {listed((*rest, "each.*"))}
        FROM (SELECT *, explode(array({groups})) AS each FROM {{frame}})
        WHERE {only.replace("dimension", "each.dimension")}
        """,
        frame=frame,
    )


def _struct(dimension: Dimension) -> str:
    app, name, value, stream = OF[dimension]
    return (
        f"named_struct('dimension', '{dimension.value}', 'app', {app}, 'name', {name}, 'value', {value}, "
        f"'stream', cast({stream} AS bigint))"
    )
