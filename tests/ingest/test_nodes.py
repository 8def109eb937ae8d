"""Nodes in the database: who has a name (it is taken from the dead at once, and from none who may live), how a lost
one's sessions end, one by one, and what operators do with them."""

import itertools
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import OperationalError, connection
from django.utils import timezone

from ingest.models import Node, Session, Stream
from ingest.services import nodes, sessions
from tests.ingest.admitting import NOW, hold
from tests.ingest.control import NODE
from tests.ingest.faults import ended_process, other_process, process_elsewhere
from tests.ingest.operators import run, run_json

pytestmark = [pytest.mark.django_db, pytest.mark.both_forms]


def former(process: str, **fields: object) -> Node:
    return Node.objects.create(name=NODE, **({"process": process, "seen_at": timezone.now()} | fields))


def is_taken() -> bool:
    return Node.objects.get(name=NODE).process == str(nodes.own_process())


def test_a_process_knows_itself_and_another_one_while_it_runs() -> None:
    own = nodes.own_process()
    assert nodes.parse_process(str(own)) == own
    assert own.runs is True
    with other_process() as text:
        other = nodes.parse_process(text)
        assert other is not None
        assert other.runs is True
    assert other.runs is False
    for text, runs in ((ended_process(), False), (process_elsewhere(), None)):
        found = nodes.parse_process(text)
        assert found is not None
        assert found.runs is runs
    assert nodes.parse_process("") is nodes.parse_process("no process at all, but words") is None


def test_unused_node_name_is_claimed_and_shown_as_stopped() -> None:
    assert nodes.Claim(NODE).take()
    assert is_taken()
    assert Node.objects.filter(state="down", stopped_at__isnull=False).exists()
    assert nodes.Claim(NODE).take(), "one's own"


@pytest.mark.parametrize("how", ["it stopped in order", "it died", "it was forgotten"])
def test_name_of_a_stopped_dead_or_forgotten_node_is_claimed_at_once(how: str) -> None:
    if how == "it stopped in order":
        former(str(nodes.own_process()))
        nodes.set_state(name=NODE, state=Node.State.DOWN, now=timezone.now())
    elif how == "it died":
        former(ended_process())
    else:
        former(process_elsewhere(), state="down")
        nodes.forget(name=NODE)
    assert nodes.Claim(NODE).take()
    assert is_taken()


def test_name_of_a_running_process_is_refused_however_long_unseen() -> None:
    with other_process() as other:
        former(other, state="down", seen_at=timezone.now() - timedelta(hours=1))
        with pytest.raises(nodes.NameTaken, match=rf"process {other.split()[1]} of .* RTMPWEB_NODE"):
            nodes.Claim(NODE).take()
        assert Node.objects.get().process == other


@pytest.mark.parametrize("whose", ["another machine's", "a former version's"])
def test_name_of_a_possibly_running_node_is_claimed_after_it_stood_still(
    whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "STILL_S", 0.3)
    row = former(process_elsewhere() if whose == "another machine's" else "")
    claim = nodes.Claim(NODE)
    assert not claim.take()
    Node.objects.update(seen_at=row.seen_at + timedelta(seconds=3))
    moved = time.monotonic()
    with pytest.raises(nodes.NameTaken):
        claim.take()
    while not claim.take():
        time.sleep(0.01)
    assert time.monotonic() - moved >= 0.3
    assert is_taken()


def test_a_node_whose_name_was_taken_writes_nothing_there() -> None:
    now = timezone.now()
    row = nodes.started(name=NODE, address="", now=now)
    Node.objects.update(process=process_elsewhere())
    with pytest.raises(nodes.NameTaken):
        nodes.seen(name=NODE, now=now + timedelta(minutes=1))
    for state in (Node.State.DRAINING, Node.State.DOWN):
        nodes.set_state(name=NODE, state=state, now=now + timedelta(minutes=1))
    found = Node.objects.get()
    assert (found.state, found.seen_at, found.process) == ("up", row.seen_at, process_elsewhere())


LATER = NOW + timedelta(minutes=1)


@pytest.fixture
def lost(transactional_db: None, stream: Stream) -> Node:
    """A node with five publishers."""
    node = nodes.started(name="node-a", address="", now=NOW)
    for number in range(5):
        hold(Stream.objects.create(application=stream.application, name=f"cam-{number}"))
    return node


def still_open() -> int:
    return Session.objects.filter(ended_at__isnull=True).count()


def before_each_end(monkeypatch: pytest.MonkeyPatch, look: Callable[[int], None]) -> None:
    """`look` is told how many there were before."""
    real, before = sessions.end, itertools.count()

    def end(**about: Any) -> bool:
        look(next(before))
        return real(**about)

    monkeypatch.setattr(sessions, "end", end)


def fails_at_the_third(number: int) -> None:
    if number == 2:
        raise OperationalError("the database goes away")


@pytest.mark.parametrize(
    "node_ends", [lambda: nodes.sweep(now=LATER), lambda: nodes.started(name="node-a", address="", now=LATER)]
)
def test_each_session_is_written_before_the_next(lost: Node, monkeypatch: pytest.MonkeyPatch, node_ends: Any) -> None:
    def look(number: int) -> None:
        assert not connection.in_atomic_block, "what ended before is not written yet"
        assert still_open() == 5 - number

    before_each_end(monkeypatch, look)
    node_ends()
    assert still_open() == 0


def test_a_sweep_that_fails_half_way_goes_on_with_the_next(lost: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    before_each_end(monkeypatch, fails_at_the_third)
    assert len(nodes.sweep(now=LATER)) == 2
    assert still_open() == 3
    assert len(nodes.sweep(now=LATER)) == 3
    lost.refresh_from_db()
    assert lost.state == "down"
    assert nodes.sweep(now=LATER) == []


def test_a_start_that_fails_half_way_tells_of_all_that_ended(lost: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    before_each_end(monkeypatch, fails_at_the_third)
    left: list[Session] = []
    with pytest.raises(OperationalError):
        nodes.started(name="node-a", address="", now=LATER, left=left)
    assert len(left) == 2
    nodes.started(name="node-a", address="", now=LATER, left=left)
    assert len({session.pk for session in left}) == 5


def test_a_node_that_is_back_while_it_is_swept_learns_that_its_sessions_ended(
    lost: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(number: int) -> None:
        assert nodes.seen(name="node-a", now=LATER) is False

    before_each_end(monkeypatch, look)
    Node.objects.update(process="")
    assert len(nodes.sweep(now=LATER)) == 5
    assert nodes.seen(name="node-a", now=LATER) is True


def test_a_drain_belongs_to_its_process() -> None:
    now = timezone.now()
    Node.objects.create(name=NODE, state="up")
    nodes.request_drain(name=NODE, grace_s=30, now=now)
    asked = nodes.drain(name=NODE)
    assert asked is not None
    assert asked.left_s(now + timedelta(seconds=10)) == 20
    assert asked.left_s(now + timedelta(seconds=31)) == 0
    nodes.started(name=NODE, address="", now=now, process_since=now - timedelta(seconds=1))
    assert nodes.drain(name=NODE) == asked
    nodes.started(name=NODE, address="", now=now, process_since=now + timedelta(seconds=1))
    assert nodes.drain(name=NODE) is None


def test_a_draining_node_that_was_taken_for_dead_still_drains() -> None:
    now = timezone.now()
    Node.objects.create(name=NODE, state="draining")
    nodes.request_drain(name=NODE, grace_s=30, now=now)
    for request, state in ((True, "draining"), (False, "up")):
        Node.objects.update(state="down", drain_requested_at=now if request else None)
        nodes.seen(name=NODE, now=now)
        assert Node.objects.get().state == state


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drain", "node-9"), "no node node-9. Known nodes: node-a, node-b"),
        (("drain", "node-b"), "is down"),
        (("resume", "node-b"), "is down"),
        (("drain", NODE, "--grace", "-1"), "expected 0 to"),
        (("forget", NODE), "is up. Only one that is down"),
        (("forget", "node-9"), "no node node-9"),
    ],
)
def test_node_command_reports_invalid_arguments(words: tuple[str, ...], said: str) -> None:
    Node.objects.create(name=NODE, state="up")
    Node.objects.create(name="node-b", state="down")
    with pytest.raises(CommandError, match=said):
        run_json("node", *words)


def test_node_forget_marks_a_down_node_stopped_and_keeps_its_sessions() -> None:
    node = Node.objects.create(name="node-b", state="down")
    Session.objects.create(kind="play", app="live", name="cam1", node=node, ended_at=timezone.now())
    assert run_json("node", "forget", "node-b")["state"] == "down"
    node.refresh_from_db()
    assert node.stopped_at == node.seen_at
    assert node.sessions.count() == 1


def test_node_list_counts_open_sessions_per_node() -> None:
    for name in ("node-e", "node-c", "node-b", "node-d"):
        Node.objects.create(name=name, state="down")
    node = Node.objects.create(name=NODE, state="up", address="127.0.0.1:1935")
    Session.objects.create(kind="play", app="live", name="cam1", node=node)
    Session.objects.create(kind="publish", app="live", name="cam1", node=node, ended_at=timezone.now())
    found = run_json("node", "list")
    assert found["count"] == 5
    assert [(row["name"], row["publishers"], row["players"]) for row in found["items"]] == [
        (NODE, 0, 1),
        *((f"node-{letter}", 0, 0) for letter in "bcde"),
    ]
    assert f"{NODE}  up  127.0.0.1:1935  publishers=0  players=1" in run("node", "list")
