"""What a node's application counts for metrics: sessions by how they ended, refusals by reason, recordings."""

import uuid
from typing import Any

import pytest

from ingest.consumers.active import COUNTS
from ingest.contracts import NodeCounts
from ingest.live_store import get_livestore
from ingest.services.keys import NewKey
from tests.ingest.control import Connection, NodeApp
from tests.ingest.ticks import is_up, published, until

pytestmark = pytest.mark.django_db(transaction=True)


def failed() -> dict[str, Any]:
    """What the server says of a recording that could not begin."""
    return {
        "session_id": str(uuid.uuid4()),
        "stream_id": 1,
        "state": "failed",
        "mode": "all",
        "name": "",
        "file": "",
        "began": 0.0,
        "is_continued": False,
        "duration_ms": 0,
        "size_bytes": 0,
        "dropped_frames": 0,
        "code": "NetStream.Record.DiskQuotaExceeded",
        "description": "No space left on device.",
    }


async def test_the_node_tells_them_each_second(node: NodeApp, key: NewKey) -> None:
    await is_up()
    before = COUNTS.figures
    encoder, session = await published(key)
    await encoder.unpublish(session)
    await encoder.disconnect()
    player = Connection()
    await player.connect()
    for _ in range(2):
        assert (await player.play("nothing"))["type"] == "rtmp.play.reject"
    await player.disconnect()
    await node.tell("node.record", **failed())
    await node.tick()
    await until(lambda: get_livestore().read().nodes)
    now: NodeCounts = get_livestore().read().nodes[0]["counts"]
    assert now["sessions_started"]["publish"] - before["sessions_started"]["publish"] == 1
    ended = {
        (kind, reason): count - before["sessions_ended"][kind][reason]
        for kind, reasons in now["sessions_ended"].items()
        for reason, count in reasons.items()
    }
    assert {each: count for each, count in ended.items() if count} == {("publish", "client_unpublish"): 1}
    assert now["attempts_refused"]["stream_unknown"] - before["attempts_refused"]["stream_unknown"] == 2
    assert now["recordings"]["failed"] - before["recordings"]["failed"] == 1
