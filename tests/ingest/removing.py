"""What goes on around a deletion that waits: nodes end what they are asked to, and a worker takes what happened."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.utils import timezone

from ingest.models import OutboxEvent, Recording, Session
from ingest.services import sessions


def node_ends() -> None:
    """What is asked for; the files are closed with it."""
    for session in Session.objects.filter(ended_at__isnull=True).exclude(stop_requested=""):
        sessions.end(session=session.pk, reason="kicked")
        written = Recording.objects.filter(session=session, state=Recording.State.RECORDING)
        written.update(state=Recording.State.COMPLETE, ended_at=timezone.now())


def worker_takes() -> None:
    OutboxEvent.objects.filter(taken_at__isnull=True).update(taken_at=timezone.now())


class Meanwhile:
    """`nested`: whether each look was in a transaction, which hides what is asked for."""

    def __init__(self, *works: Callable[[], None]) -> None:
        self.nested: list[bool] = []
        self._works = works

    def __call__(self, _seconds: float) -> None:
        self.nested.append(connection.in_atomic_block)
        for work in self._works:
            work()


def meanwhile(monkeypatch: pytest.MonkeyPatch, *works: Callable[[], None]) -> Meanwhile:
    """Whoever waits for something has these done."""
    made = Meanwhile(*(works or (node_ends, worker_takes)))
    monkeypatch.setattr("ingest.services.removal.sleep", made)
    return made
