"""The lake's schema, as the records declare it and as the jobs read it, is one."""

import pyarrow as pa
from pyspark.sql.types import DataType, DoubleType, LongType, StringType

from analytics.jobs.schemas import SAMPLES
from ingest.telemetry import schema

ARROW: dict[DataType, pa.DataType] = {StringType(): pa.string(), LongType(): pa.int64(), DoubleType(): pa.float64()}


def test_the_jobs_read_what_the_nodes_write() -> None:
    read = [(field.name, ARROW[field.dataType], field.nullable) for field in SAMPLES.fields]
    written = [(field.name, field.type, field.nullable) for field in schema.SAMPLES.schema]
    assert read == written
