"""Runs of the analytics, which give way to all others: they take as long as they take, as long as they give signs of
life.
"""

import time
from typing import Any

from tests.production.installation import Production
from tests.production.settings import LONG

STILL_S = 180.0 if LONG else 60.0
"""Without any news of the latest runs, be it that one is asked for or that one computes."""

LATEST = """
    SELECT id, trigger, state, error_code, requested_at, started_at, heartbeat_at, ended_at
    FROM analytics_analyticsrun ORDER BY id DESC LIMIT 5
"""


def wait_while_running(production: Production, query: str, *values: Any, what: str) -> None:
    """Until the query finds something, for as long as there is news of the latest runs."""
    latest: list[tuple[Any, ...]] = []
    news_at = time.monotonic()
    while not production.rows(query, *values):
        former, latest = latest, production.rows(LATEST)
        if latest != former:
            news_at = time.monotonic()
        assert time.monotonic() - news_at < STILL_S, f"no news for {STILL_S} s, and not yet: {what}; {latest}"
        time.sleep(0.2)
