"""The work of nodes and workers during a deletion that waits for them."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from ingest.models import OutboxEvent, Recording, Session
from ingest.services import sessions


def node_ends() -> None:
    """End the sessions that should end, and close their files."""
    for session in Session.objects.filter(ended_at__isnull=True).exclude(stop_requested=""):
        sessions.end(session=session.pk, reason="kicked")
        written = Recording.objects.filter(session=session, state=Recording.State.RECORDING)
        written.update(state=Recording.State.COMPLETE, ended_at=timezone.now())


def worker_takes() -> None:
    OutboxEvent.objects.filter(taken_at__isnull=True).update(taken_at=timezone.now())


def meanwhile(monkeypatch: pytest.MonkeyPatch, *works: Callable[[], object]) -> Any:
    """Do this work whenever a deletion waits. `nested` has, for each wait, True if it was in a transaction."""
    looks = SimpleNamespace(nested=[])

    def sleep(_seconds: float) -> None:
        looks.nested.append(connection.in_atomic_block)
        for work in works or (node_ends, worker_takes):
            work()

    monkeypatch.setattr("ingest.services.removal.sleep", sleep)
    return looks
