"""What a row counts for: a stream, key, application, encoder, node and broadcast; in SQL, and in Arrow.

In SQL for what is counted from events, and in Arrow for what is merged from samples (analytics.jobs.groups). A
transform is one text in Spark's SQL: built of Column objects, each of which is a call to Java or several, the plan of
an hour took longer to write down than to carry out."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analytics import schemas
from analytics.models import Dimension


def named(expressions: Mapping[str, str]) -> str:
    """{column: expression} as a SELECT has them."""
    return ", ".join(f"{expression} AS {name}" for name, expression in expressions.items())


def start_of(time: str, length_us: int) -> str:
    """The beginning of the minute, hour or day (UTC) that the time lies in, in microseconds since the epoch."""
    return f"({time} - {time} % {length_us})"


def listed(names: Iterable[str]) -> str:
    return ", ".join(names)


GROUP = tuple(schemas.GROUP)


@dataclass(frozen=True, slots=True)
class Of:
    """A dimension's rollups. `labels`: of app, name and stream, those that they have; the others are empty. `value`:
    theirs, in SQL; `column`: the same of a table of Arrow.
    """

    labels: tuple[str, ...]
    value: str
    column: Callable[[pa.Table], Any]


def _path(rows: pa.Table) -> Any:
    return pc.binary_join_element_wise(rows["app"], rows["name"], "/")


def _text(name: str) -> Callable[[pa.Table], Any]:
    def column(rows: pa.Table) -> Any:
        return rows[name].cast("string").fill_null("")

    return column


def _begin(rows: pa.Table) -> Any:
    seconds = pc.divide(rows["broadcast_us"], 1_000_000).cast(pa.timestamp("s"))
    return pc.strftime(seconds, "%Y-%m-%dT%H:%M:%SZ")


OF = {
    Dimension.STREAM: Of(("app", "name", "stream"), "concat(app, '/', name)", _path),
    Dimension.KEY: Of(("app", "name", "stream"), "coalesce(cast(key as string), '')", _text("key")),
    Dimension.APP: Of(("app",), "app", _text("app")),
    Dimension.ENCODER: Of((), "coalesce(encoder, '')", _text("encoder")),
    Dimension.NODE: Of((), "node", _text("node")),
    Dimension.BROADCAST: Of(
        ("app", "name", "stream"),
        "date_format(timestamp_micros(broadcast_us), \"yyyy-MM-dd'T'HH:mm:ss'Z'\")",
        _begin,
    ),
}

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


def _struct(dimension: Dimension) -> str:
    of = OF[dimension]
    app, name = (label if label in of.labels else "''" for label in ("app", "name"))
    stream = "stream" if "stream" in of.labels else "null"
    return (
        f"named_struct('dimension', '{dimension.value}', 'app', {app}, 'name', {name}, 'value', {of.value}, "
        f"'stream', cast({stream} AS bigint))"
    )
