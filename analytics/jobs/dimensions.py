"""What a row counts for: a stream, key, application, encoder, node and broadcast."""

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

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

USED = frozenset(("app", "name", "stream", "key", "encoder", "node", "broadcast_us"))


PLAYERS_OF = (Dimension.STREAM, Dimension.APP, Dimension.NODE)
"""Where players can be told apart. So can refusals, of which what calls itself a key or an encoder is not believed."""


def of_each(frame: DataFrame, dimensions: Iterable[Dimension] = Dimension, only: str = "true") -> DataFrame:
    """A row for each of the dimensions: GROUP and `stream` in place of the columns USED, which the frame has.

    `only`: in SQL of the frame's columns and `dimension`, what the row counts for.
    """
    groups = []
    for dimension in dimensions:
        app, name, value, stream = (F.expr(text) for text in OF[dimension])
        groups.append(
            F.struct(
                F.lit(dimension.value).alias("dimension"),
                app.alias("app"),
                name.alias("name"),
                value.alias("value"),
                stream.cast("bigint").alias("stream"),
            )
        )
    rest = [column for column in frame.columns if column not in USED]
    exploded = frame.select("*", F.explode(F.array(*groups)).alias("group"))
    return exploded.where(only.replace("dimension", "group.dimension")).select(*rest, "group.*")
