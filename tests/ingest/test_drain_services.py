"""A drain, and nodes that are gone, by command."""

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from ingest.models import Node, Session
from ingest.services import nodes
from tests.ingest.control import NODE

pytestmark = [pytest.mark.django_db, pytest.mark.both_forms]


def run(*words: str) -> Any:
    out = io.StringIO()
    call_command("node", *words, "--json", stdout=out)
    return json.loads(out.getvalue())


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
def test_what_is_wrong_is_said(words: tuple[str, ...], said: str) -> None:
    Node.objects.create(name=NODE, state="up")
    Node.objects.create(name="node-b", state="down")
    with pytest.raises(CommandError, match=said):
        run(*words)


def test_one_that_is_gone_is_forgotten_and_history_keeps_it() -> None:
    node = Node.objects.create(name="node-b", state="down")
    Session.objects.create(kind="play", app="live", name="cam1", node=node, ended_at=timezone.now())
    assert run("forget", "node-b")["state"] == "down"
    node.refresh_from_db()
    assert node.stopped_at == node.seen_at
    assert node.sessions.count() == 1


def test_list() -> None:
    for name in ("node-e", "node-c", "node-b", "node-d"):
        Node.objects.create(name=name, state="down")
    node = Node.objects.create(name=NODE, state="up", address="127.0.0.1:1935")
    Session.objects.create(kind="play", app="live", name="cam1", node=node)
    Session.objects.create(kind="publish", app="live", name="cam1", node=node, ended_at=timezone.now())
    found = run("list")
    assert found["count"] == 5
    assert [(row["name"], row["publishers"], row["players"]) for row in found["items"]] == [
        (NODE, 0, 1),
        *((f"node-{letter}", 0, 0) for letter in "bcde"),
    ]
    out = io.StringIO()
    call_command("node", "list", stdout=out)
    assert f"{NODE}  up  127.0.0.1:1935  publishers=0  players=1" in out.getvalue()
