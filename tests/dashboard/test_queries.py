"""By which indexes SQLite reads: pages of one stream or node read its own history, not the whole server's, and what is
asked each few seconds doesn't grow with what was ever told."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard import tasks
from dashboard.alerts import queries as alerts_queries
from ingest.delivery import engine
from ingest.models import Delivery, OutboxEvent, Stream, Webhook
from ingest.services import nodes, sessions
from tests.dashboard.conftest import make_session

TABLES = ("ingest_session", "ingest_attempt", "ingest_outboxevent")

OWN = {
    *("session_stream_kind_started", "session_open_by_stream", "session_path_started", "attempt_path_at"),
    *("session_node_started", "session_open_on_node", "session_ended"),
}
"""Of a stream or a node, or of what is open."""


def indexes() -> set[str]:
    with connection.cursor() as cursor:
        found = [connection.introspection.get_constraints(cursor, table) for table in TABLES]
    return {name for those in found for name, each in those.items() if each["index"]}


def plans(asked: CaptureQueriesContext) -> list[tuple[str, str]]:
    """Of each question with each step by which SQLite answers it."""
    found = []
    with connection.cursor() as cursor:
        for sql in [each["sql"] for each in asked if each["sql"].startswith("SELECT")]:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            found += [(sql, row[3]) for row in cursor.fetchall()]
    return found


def steps_of(asked: CaptureQueriesContext) -> list[str]:
    return [step for sql, step in plans(asked) if any(f'"{table}"' in sql for table in TABLES)]


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


def test_waiting_outbox_events_of_a_stream_are_found_by_index(stream: Stream) -> None:
    event = OutboxEvent.objects.create(kind="publish", once="publish:1", stream=stream, sequence=1)
    with CaptureQueriesContext(connection) as asked:
        assert tasks._has_earlier(event) is False
    assert used_in(steps_of(asked)) & indexes() == {"outbox_waiting_of_stream"}


pytestmark = pytest.mark.django_db

SMALL = ("delivery_waiting", "delivery_next", "delivery_left", "delivery_dead", "delivery_of_webhook")
"""Indexes of what waits and of what was given up; and of a webhook's deliveries by time, of which the last is asked."""


@pytest.mark.parametrize(
    "ask",
    [lambda: engine.receivers(timezone.now()), lambda: list(alerts_queries.webhooks())],
    ids=["receivers", "webhooks"],
)
def test_no_statement_goes_through_all_deliveries(ask: Callable[[], object]) -> None:
    with CaptureQueriesContext(connection) as asked:
        ask()
    of_deliveries = [
        step for _, step in plans(asked) if any(name in step for name in ("ingest_delivery", " U0", " U1"))
    ]
    assert of_deliveries
    assert [plan for plan in of_deliveries if not any(f"INDEX {name} " in f"{plan} " for name in SMALL)] == []


def test_webhooks_are_shown_with_what_waits_and_what_was_given_up() -> None:
    hook, _ = [Webhook.objects.create(name=name, url="http://example.org/") for name in ("a", "b")]
    for number, state in enumerate(("waiting", "dead", "dead", "done", "waiting", "waiting")):
        tried = {"state": state, "attempts": int(state != "waiting")}
        Delivery.objects.create(once=f"{number}", number=number, webhook=hook, kind="publish", series="s", **tried)
    first, second = alerts_queries.webhooks()
    assert (first.waiting, first.dead, first.last_state) == (3, 2, "done")  # type: ignore[attr-defined]
    assert (second.waiting, second.dead, second.last_state) == (0, 0, None)  # type: ignore[attr-defined]
