"""What is asked each few seconds, and by every page of alerts, doesn't grow with the deliveries that were ever made."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard.alerts import queries as alerts_queries
from ingest.delivery import engine
from ingest.models import Delivery, Webhook

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
    plans = []
    with connection.cursor() as cursor:
        for query in asked.captured_queries:
            cursor.execute(f"EXPLAIN QUERY PLAN {query['sql']}")
            plans += [row[3] for row in cursor.fetchall()]
    of_deliveries = [plan for plan in plans if "ingest_delivery" in plan or " U0" in plan or " U1" in plan]
    assert of_deliveries
    assert [plan for plan in of_deliveries if not any(f"INDEX {name} " in f"{plan} " for name in SMALL)] == []


def test_webhooks_are_shown_with_what_waits_and_what_was_given_up() -> None:
    for name in ("a", "b"):
        hook = Webhook.objects.create(name=name, url="http://example.org/")
        for number, state in enumerate(
            ["waiting", "dead", "dead", "done", "waiting", "waiting"] if name == "a" else []
        ):
            attempts = 0 if state == "waiting" else 1
            Delivery.objects.create(
                once=f"{number}",
                number=number,
                webhook=hook,
                kind="publish",
                series="s",
                state=state,
                attempts=attempts,
            )
    first, second = alerts_queries.webhooks()
    assert (first.waiting, first.dead, first.last_state) == (3, 2, "done")  # type: ignore[attr-defined]
    assert (second.waiting, second.dead, second.last_state) == (0, 0, None)  # type: ignore[attr-defined]
