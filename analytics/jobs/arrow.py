"""A function of Arrow over tasks: in Spark's workers, or in this process where there is little to do.

A cluster's workers have Python, Arrow and numpy, and none of our code: they get the modules by value.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from analytics import histograms, metrics
from analytics.jobs import days, dimensions, groups, hours, minutes, partials, schemas
from ingest import fsync

if TYPE_CHECKING:
    import pyarrow as pa

for module in (days, dimensions, fsync, groups, histograms, hours, metrics, minutes, partials, schemas):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

Task = TypeVar("Task")


def spread(
    session: SparkSession,
    tasks: Sequence[Task],
    make: Callable[[Task], "pa.Table"],
    columns: schemas.Columns,
    *,
    here: bool,
) -> "pa.Table":
    """What is made of each task, one after another. `here`: Spark would take longer to start its Python workers."""
    import pyarrow as pa

    schema = schemas.arrow(columns)
    if here or not tasks:
        return pa.concat_tables([schema.empty_table(), *map(make, tasks)])
    numbers = session.range(0, len(tasks), 1, len(tasks))
    return numbers.mapInArrow(_maker(tasks, make), schemas.ddl(columns)).toArrow().cast(schema)


def _maker(
    tasks: Sequence[Task], make: Callable[[Task], "pa.Table"]
) -> Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    """For mapInArrow: numbers of tasks to what is made of them."""

    def made(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from make(tasks[number]).to_batches()

    return made
