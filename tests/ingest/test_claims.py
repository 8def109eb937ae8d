"""Who has a node's name: it is taken from the dead at once, and from none who may live."""

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from ingest.models import Node
from ingest.services import nodes
from tests.ingest.control import NODE
from tests.ingest.others import ended_process, other_process, process_elsewhere

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


def test_a_name_that_nobody_had_is_taken_and_shown_as_stopped_until_the_node_is_up() -> None:
    assert nodes.Claim(NODE).take()
    assert is_taken()
    assert Node.objects.filter(state="down", stopped_at__isnull=False).exists()
    assert nodes.Claim(NODE).take(), "one's own"


@pytest.mark.parametrize("how", ["it stopped in order", "it died", "it was forgotten"])
def test_the_name_of_who_is_gone_is_taken_at_once(how: str) -> None:
    if how == "it stopped in order":
        former(str(nodes.own_process()))
        nodes.stopped(name=NODE, now=timezone.now())
    elif how == "it died":
        former(ended_process())
    else:
        former(process_elsewhere(), state="down")
        nodes.forget(name=NODE)
    assert nodes.Claim(NODE).take()
    assert is_taken()


def test_the_name_of_who_runs_is_not_taken_however_long_it_was_not_seen() -> None:
    with other_process() as other:
        former(other, state="down", seen_at=timezone.now() - timedelta(hours=1))
        with pytest.raises(nodes.NameTaken, match=rf"process {other.split()[1]} of .* RTMPWEB_NODE"):
            nodes.Claim(NODE).take()
        assert Node.objects.get().process == other


@pytest.mark.parametrize("whose", ["another machine's", "a former version's"])
def test_one_that_may_run_is_watched(whose: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    row = nodes.started(name=NODE, address="", now=now).node
    Node.objects.update(process=process_elsewhere())
    with pytest.raises(nodes.NameTaken):
        nodes.seen(name=NODE, now=now + timedelta(minutes=1))
    for tell in (nodes.draining, nodes.stopped):
        tell(name=NODE, now=now + timedelta(minutes=1))
    found = Node.objects.get()
    assert (found.state, found.seen_at, found.process) == ("up", row.seen_at, process_elsewhere())
