"""The embedded server with RTMPS, and its drain: what is live goes on, and so do the pages."""

import asyncio
import itertools
import re
import signal
from pathlib import Path

import pytest

from tests.background import free_port
from tests.certificates import make_pair
from tests.rtmp_client import RtmpClient
from tests.server_process import ServerProcess, running, wait_for

pytestmark = [
    pytest.mark.serve,
    pytest.mark.timeout(180),
    pytest.mark.slow("the whole server starts, or ends, as processes"),
]


def test_a_publisher_through_tls_holds_the_stop_up_until_it_leaves(tmp_path: Path) -> None:
    pair, port = make_pair(tmp_path), free_port()
    tls = {
        "RTMPWEB_RTMPS": f"127.0.0.1:{port}",
        "RTMPWEB_TLS_CERT": str(pair.chain),
        "RTMPWEB_TLS_KEY": str(pair.key),
    }
    with running(tmp_path / "var", **tls, RTMPWEB_DRAIN_S="60") as server:
        assert re.search(rf"^Ready: dashboard .*, rtmp://[^ ]+, rtmps://127.0.0.1:{port}/$", server.log, re.MULTILINE)
        made = server.create_key("live/cam1")
        assert made["rtmps_server"] == f"rtmps://127.0.0.1:{port}/live"

        async def publish_and_leave() -> None:
            async with RtmpClient(port=port, tls=pair.client()) as client:
                await client.connect("live")
                stream_id = await client.publish(made["key"])
                await client.send_audio(stream_id, 0, b"\xaf\x00\x12\x10")
                server.process.send_signal(signal.SIGTERM)
                sending = asyncio.create_task(send(client, stream_id))
                await asyncio.to_thread(wait_for, lambda: "Draining for 60 s" in server.log, timeout_s=15, what="drain")
                state = await asyncio.to_thread(draining, server)
                assert state == ["draining"]
                assert not sending.done()
                assert not client.closed
                sending.cancel()
                await client.delete_stream(stream_id)

        asyncio.run(publish_and_leave())
        assert server.process.wait(40) == 0
    assert "Stopped." in server.log
    assert "Traceback" not in server.log


async def send(client: RtmpClient, stream_id: int) -> None:
    """Audio, twenty milliseconds of it each time."""
    for number in itertools.count(1):
        await client.send_audio(stream_id, 20 * number, b"\xaf\x01\x21\x00\x49\x90\x02\x19\x00\x23\x80")
        await asyncio.sleep(0.02)


def draining(server: ServerProcess) -> list[str]:
    """The nodes' states by the API's process, once one drains: pages are served meanwhile."""
    assert server.request("/healthz", token="")[0] in (200, 503)

    def states() -> list[str]:
        found = [node["state"] for node in server.manage_json("node", "list")["items"]]
        return found if "draining" in found else []

    return wait_for(states, timeout_s=40, what="the node drains")
