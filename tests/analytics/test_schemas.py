"""The lake's schema, as the records declare it and as the jobs read it, is one."""

from analytics import schemas
from ingest.telemetry import lake


def test_the_jobs_read_what_the_nodes_write() -> None:
    for table, columns in ((lake.SAMPLES, schemas.SAMPLES), (lake.EVENTS, schemas.EVENTS)):
        written = {field.name: field.type for field in table.schema}
        read = {field.name: field.type for field in schemas.arrow(columns)}
        assert read == {name: written[name] for name in read}
    assert set(schemas.EVENTS) == set(lake.EVENTS.schema.names), "a copy of an event equals it in every column"


def test_what_may_be_unknown_is_told_from_nothing() -> None:
    for table, columns in ((lake.SAMPLES, schemas.SAMPLES), (lake.EVENTS, schemas.EVENTS)):
        nullable = {field.name for field in table.schema if field.nullable and field.name in columns}
        assert nullable <= set(schemas.UNKNOWN)
