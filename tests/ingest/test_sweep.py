"""A lost node's sessions end one by one, so that nothing else waits for all; and what fails half-way goes on."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from ingest.models import Node, Session, Stream
from ingest.services import nodes, sessions
from tests.ingest.test_outbox import NOW, make_session

pytestmark = [pytest.mark.django_db, pytest.mark.both_forms]

LATER = NOW + timedelta(minutes=1)


@pytest.fixture
def lost(transactional_db: None, stream: Stream) -> Node:
    """A node with five publishers."""
    node = nodes.started(name="node-a", address="", now=NOW).node
    for number in range(5):
        make_session(Stream.objects.create(application=stream.application, name=f"cam-{number}"))
    return node


def still_open() -> int:
    return Session.objects.filter(ended_at__isnull=True).count()


def fails_at(monkeypatch: pytest.MonkeyPatch, wanted: int) -> None:
    """The so-manieth end, once."""
    real, number = sessions.end, 0

    def end(**about: Any) -> bool:
        nonlocal number
        number += 1
        if number == wanted:
            raise OperationalError("the database goes away")
        return real(**about)

    monkeypatch.setattr(sessions, "end", end)


@pytest.mark.parametrize(
    "node_ends", [lambda: nodes.sweep(now=LATER), lambda: nodes.started(name="node-a", address="", now=LATER)]
)
def test_each_session_is_written_before_the_next(lost: Node, monkeypatch: pytest.MonkeyPatch, node_ends: Any) -> None:
    real, left = sessions.end, 5

    def end(**about: Any) -> bool:
        nonlocal left
        assert not connection.in_atomic_block, "what ended before is not written yet"
        assert still_open() == left
        left -= 1
        return real(**about)

    monkeypatch.setattr(sessions, "end", end)
    node_ends()
    assert still_open() == left == 0


def test_a_sweep_that_fails_half_way_goes_on_with_the_next(lost: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_at(monkeypatch, 3)
    assert len(nodes.sweep(now=LATER)) == 2
    assert still_open() == 3
    assert len(nodes.sweep(now=LATER)) == 3
    lost.refresh_from_db()
    assert lost.state == "down"
    assert nodes.sweep(now=LATER) == []


def test_a_start_that_fails_half_way_tells_of_all_that_ended(lost: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    fails_at(monkeypatch, 3)
    left: list[Session] = []
    with pytest.raises(OperationalError):
        nodes.started(name="node-a", address="", now=LATER, left=left)
    assert len(left) == 2
    nodes.started(name="node-a", address="", now=LATER, left=left)
    assert len({session.pk for session in left}) == 5


def test_a_node_that_is_back_while_it_is_swept_learns_that_its_sessions_ended(
    lost: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sessions.end

    def end(**about: Any) -> bool:
        assert nodes.seen(name="node-a", now=LATER) is False
        return real(**about)

    monkeypatch.setattr(sessions, "end", end)
    Node.objects.update(process="")
    assert len(nodes.sweep(now=LATER)) == 5
    assert nodes.seen(name="node-a", now=LATER) is True
