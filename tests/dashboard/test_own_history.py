"""Pages of one stream or node read its own history, not the whole server's, and for what is open no history: by which
indexes SQLite reads them.
"""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard import tasks
from ingest.models import OutboxEvent, Stream
from ingest.services import nodes, sessions
from tests.dashboard.conftest import make_session

TABLES = ("ingest_session", "ingest_attempt", "ingest_outboxevent")

OWN = {
    *("session_stream_kind_started", "session_open_by_stream", "session_path_started", "attempt_path_at"),
    *("session_node_started", "session_open_on_node", "session_ended"),
}
"""Of a stream or a node, or of what is open."""


def indexes() -> set[str]:
    """All of both tables, but for their primary keys."""
    with connection.cursor() as cursor:
        found = [connection.introspection.get_constraints(cursor, table) for table in TABLES]
    return {name for those in found for name, each in those.items() if each["index"]}


def steps_of(asked: CaptureQueriesContext) -> list[str]:
    """How SQLite reads for what was asked of both tables."""
    those = [each["sql"] for each in asked if any(f'"{table}"' in each["sql"] for table in TABLES)]
    found = []
    with connection.cursor() as cursor:
        for sql in those:
            if sql.startswith("SELECT"):
                cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
                found += [row[3] for row in cursor.fetchall()]
    return found


def used_in(steps: list[str]) -> set[str]:
    return {name for step in steps for name in re.findall(r"INDEX (\w+)", step)}


@pytest.mark.parametrize(
    ("page", "by"),
    [
        ("/streams/live/cam-1/", {"session_stream_kind_started", "session_open_by_stream", "attempt_path_at"}),
        ("/nodes/n1/", {"session_node_started", "session_open_on_node"}),
        ("/nodes/", {"session_open_on_node"}),
    ],
)
def test_a_page_reads_its_own_history(viewer: Client, stream: Stream, page: str, by: set[str]) -> None:
    make_session(stream, ended_ago_s=1)
    make_session(stream)
    with CaptureQueriesContext(connection) as asked:
        assert viewer.get(page).status_code == 200
    steps = steps_of(asked)
    used = used_in(steps)
    assert used >= by
    assert used & indexes() <= OWN
    assert [step for step in steps if re.match(rf"SCAN ({'|'.join(TABLES)})\b(?! USING)", step)] == []


def test_a_node_looks_at_what_is_open_there_alone(stream: Stream) -> None:
    """Each second, and when it is taken for dead."""
    make_session(stream, ended_ago_s=1)
    session = make_session(stream)
    with CaptureQueriesContext(connection) as asked:
        assert sessions.due_to_end(node="n1", now=timezone.now()) == [(session.pk, "key_revoked")], "it has none"
        assert len(nodes.sweep(now=timezone.now() + timedelta(hours=1))) == 1
    assert used_in(steps_of(asked)) & indexes() == {"session_open_on_node"}


def test_what_waits_to_be_told_of_a_stream_is_found_without_what_was_told(stream: Stream) -> None:
    event = OutboxEvent.objects.create(kind="publish", once="publish:1", stream=stream, sequence=1)
    with CaptureQueriesContext(connection) as asked:
        assert tasks._has_earlier(event) is False
    assert used_in(steps_of(asked)) & indexes() == {"outbox_waiting_of_stream"}
