"""How rows and nodes' figures are joined."""

import pytest
from django.test import Client

from dashboard.streams.queries import Now, by_stream
from ingest import live_store
from ingest.live_store import LiveView
from ingest.models import Node, Stream
from tests.dashboard.conftest import figures, snapshot

pytestmark = pytest.mark.both_forms


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_nodes_that_know_a_stream_the_publishers_is_shown(stream: Stream, order: int) -> None:
    publisher = snapshot(stream, node="n1", state="live")
    players = snapshot(stream, node="n2", state="waiting", session_id=None)
    assert by_stream([publisher, players][::order]) == {stream.pk: publisher}


def test_a_view_is_as_new_as_its_newest_node(stream: Stream) -> None:
    now = Now.of(LiveView([figures("n1", 100.0), figures("n2", 101.5)], []))
    assert now.at == 101.5
    assert now.of_stream(stream)["state"] == "offline"


def test_while_redis_is_away_nothing_is_said_to_be_offline(viewer: Client, stream: Stream) -> None:
    live_store._store = live_store.RedisLiveStore("redis://127.0.0.1:1/0")
    answer = viewer.get("/api/v1/streams")
    assert answer.status_code == 503
    assert answer.json().keys() == {"detail", "items", "count"}


def test_while_redis_is_away_a_web_process_is_healthy(client: Client, db: None) -> None:
    """Nobody is helped by a load balancer that takes all of them away: log-in, lists and history go on."""
    Node.objects.create(name="n1")
    live_store._store = live_store.RedisLiveStore("redis://127.0.0.1:1/0")
    answer = client.get("/healthz")
    health = answer.json()
    assert (answer.status_code, health["status"], health["nodes"]) == (200, "ok", None)
