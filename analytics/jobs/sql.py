"""A transform is one text in Spark's SQL. Built of Column objects, each of which is a call to Java or several, the plan
of an hour took longer to write down than to carry out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from analytics.metrics import Merge, Metric


def query(text: str, **frames: DataFrame) -> DataFrame:
    """What the text says of the frames: in it, {name} is the one of that name."""
    session = next(iter(frames.values())).sparkSession
    given: dict[str, Any] = {**frames}
    return session.sql(text, **given)


def named(expressions: Mapping[str, str]) -> str:
    """{column: expression} as a SELECT has them."""
    return ", ".join(f"{expression} AS {name}" for name, expression in expressions.items())


def start_of(time: str, length_us: int) -> str:
    """The beginning of the minute, hour or day (UTC) that the time lies in, in microseconds since the epoch."""
    return f"({time} - {time} % {length_us})"


def listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def texts(values: Iterable[str]) -> str:
    """As IN has them. None has a quote in it."""
    return "(" + listed(f"'{value}'" for value in values) + ")"


def merged(metrics: Iterable[Metric]) -> dict[str, str]:
    """{column: aggregate} of sums, and of the greatest and the least."""
    return {each.name: f"{each.merge.value}({each.name})" for each in metrics if each.merge in _PLAIN}


_PLAIN = (Merge.SUM, Merge.MAX, Merge.MIN)
