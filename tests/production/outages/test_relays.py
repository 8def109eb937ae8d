"""A stream of one node is played on another while Redis and PostgreSQL are away: nothing of it is lost."""

import pytest

from tests.production.broadcast import on_air
from tests.production.installation import Production
from tests.production.outages.outage import UNRENEWED_S, away, hanging
from tests.programs import Keys
from tests.server_process import wait_for

pytestmark = [
    pytest.mark.production,
    pytest.mark.timeout(180),
]

LATE_S = 3.0
"""No measure of the server: its players are given all, and at once when the machine has time."""


def test_relayed_stream_goes_on_without_redis_and_postgresql(production: Production, keys: Keys) -> None:
    here, there = production.nodes["node-a"], production.nodes["node-b"]
    with on_air(here.url, keys["relayed"], players=2, play_at=there.url) as show:
        with away(production.redis, production.postgres, for_s=UNRENEWED_S):
            sent = show.sent
            wait_for(lambda: show.played > sent + 50, timeout_s=10, what="players are sent what comes meanwhile")
        production.wait_ready()
        with hanging(production.postgres):
            sent = show.sent
            wait_for(lambda: show.played > sent + 50, timeout_s=10, what="players are sent what comes meanwhile")
        production.wait_ready()
    show.check(late_s=LATE_S)


def test_all_players_are_counted_at_the_stream(production: Production, keys: Keys) -> None:
    here, there = production.nodes["node-a"], production.nodes["node-b"]
    with on_air(here.url, keys["relayed"], players=3, play_at=there.url):

        def counted() -> bool:
            stream = production.get("/api/v1/streams/live/relayed")
            nodes = {node["name"]: node for node in production.get("/api/v1/nodes")["items"]}
            relays = [(relay["path"], relay["source"], relay["here"]) for relay in nodes["node-b"]["relays"]]
            return (stream["players"], stream["node"], relays) == (3, "node-a", [("live/relayed", "node-a", 3)])

        wait_for(counted, timeout_s=10, what="the stream and its relay tell of three players")
