"""Pages of one stream or node read its own history, not the whole server's: by which indexes SQLite reads them."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ingest.models import Stream
from tests.dashboard.conftest import make_session

TABLES = ("ingest_session", "ingest_attempt")

OWN = {
    *("session_stream_kind_started", "session_open_by_stream", "session_path_started", "attempt_path_at"),
    *("session_node_started", "session_open_by_node", "session_ended"),
}
"""Of a stream or a node, or of what is open."""


def indexes() -> set[str]:
    """All of both tables, but for their primary keys."""
    with connection.cursor() as cursor:
        found = [connection.introspection.get_constraints(cursor, table) for table in TABLES]
    return {name for those in found for name, each in those.items() if each["index"]}


def plan(sql: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        return [row[3] for row in cursor.fetchall()]


@pytest.mark.parametrize(
    ("page", "by"),
    [
        ("/streams/live/cam-1/", {"session_stream_kind_started", "session_open_by_stream", "attempt_path_at"}),
        ("/nodes/n1/", {"session_node_started", "session_open_by_node"}),
        ("/nodes/", {"session_open_by_node"}),
    ],
)
def test_a_page_reads_its_own_history(viewer: Client, stream: Stream, page: str, by: set[str]) -> None:
    make_session(stream, ended_ago_s=1)
    make_session(stream)
    with CaptureQueriesContext(connection) as asked:
        assert viewer.get(page).status_code == 200
    those = [each["sql"] for each in asked if any(f'"{table}"' in each["sql"] for table in TABLES)]
    steps = [step for sql in those if sql.startswith("SELECT") for step in plan(sql)]
    used = {name for step in steps for name in re.findall(r"INDEX (\w+)", step)}
    assert used >= by
    assert used & indexes() <= OWN
    assert [step for step in steps if re.match(rf"SCAN ({'|'.join(TABLES)})\b(?! USING)", step)] == []
