"""The embedded server while streams are live: RTMPS, its drain, and webhooks, though it is killed."""

import asyncio
import json
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.background import free_port
from tests.certificates import make_pair
from tests.receivers import HttpReceiver, answer, http_receiver
from tests.rtmp_client import RtmpClient
from tests.rtmpweb.test_serve import AUDIO, keep_sending, publish
from tests.server_process import ServerProcess, running, wait_for

pytestmark = [
    pytest.mark.serve,
    pytest.mark.timeout(240),  # A first start alone may take two minutes.
    pytest.mark.matrix,
]


@pytest.mark.journey
@pytest.mark.slow("the whole server starts and stops")
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
                await client.send_audio(stream_id, 0, AUDIO[0])
                server.process.send_signal(signal.SIGTERM)
                sending = asyncio.create_task(keep_sending(client, stream_id))
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


def draining(server: ServerProcess) -> list[str]:
    """The nodes' states by the API's process, once one drains: pages are served meanwhile."""
    assert server.request("/healthz", token="")[0] in (200, 503)

    def states() -> list[str]:
        found = [node["state"] for node in server.manage_json("node", "list")["items"]]
        return found if "draining" in found else []

    return wait_for(states, timeout_s=40, what="the node drains")


MAKE = """
from ingest.delivery.webhook import secret_of
from ingest.models import Webhook
print(secret_of(Webhook.objects.create(name="graphics", url={url!r})))
"""
OUTBOX = """
import json
from ingest.models import OutboxEvent
print(json.dumps([[event.kind, event.payload["session"]["id"]] for event in OutboxEvent.objects.all()]))
"""
EXPIRE = """
from ingest.models import Delivery
from django.utils import timezone
print(Delivery.objects.filter(state="waiting").exclude(claim=None).update(claimed_until=timezone.now()))
"""


def shell(server: ServerProcess, code: str) -> str:
    return server.manage("shell", "--no-imports", "-c", code).strip().splitlines()[-1]


def bodies(receiver: HttpReceiver, kind: str) -> list[dict[str, Any]]:
    return [body for got in receiver.got if (body := json.loads(got.body))["kind"] == kind]


def test_each_publish_event_has_one_end_event_after_server_and_worker_kill(tmp_path: Path) -> None:
    """The worker dies while it delivers one publisher's end, the node while another publisher is live."""
    server = ServerProcess(tmp_path / "var", RTMPWEB_WEBHOOK_PRIVATE="1")
    server.put_tables()
    with http_receiver() as receiver:
        server.start()
        try:
            secret = shell(server, MAKE.format(url=receiver.url))
            keys = server.create_keys(["live/cam1", "live/cam2"])

            async def until_one_is_being_told() -> None:
                first, _ = await publish(server, keys["live/cam1"]["key"])
                second, _ = await publish(server, keys["live/cam2"]["key"])
                await asyncio.to_thread(
                    wait_for, lambda: len(bodies(receiver, "publish")) == 2, timeout_s=30, what="two begins"
                )
                receiver.behaviours = [receiver.hang, answer(200)]
                await first.close()
                await asyncio.to_thread(
                    wait_for, lambda: bodies(receiver, "unpublish"), timeout_s=30, what="an end is being told"
                )
                server.process.kill()
                await second.close()

            asyncio.run(until_one_is_being_told())
            server.process.wait(20)
            assert shell(server, EXPIRE) == "1"  # A minute later.
            server.start()
            wait_for(lambda: len(bodies(receiver, "unpublish")) == 3, timeout_s=60, what="both ends are told")
            assert all(got.is_signed_with(secret) for got in receiver.got)
            told, once_more, lost = bodies(receiver, "unpublish")
            assert {body["name"]: body["end"]["reason"] for body in (told, once_more, lost)} == {
                "cam1": told["end"]["reason"],
                "cam2": "node_lost",
            }
            ids = Counter(got.headers["X-Rtmpweb-Id"] for got in receiver.got)
            assert sorted(ids.values()) == [1, 1, 1, 2]
            events = Counter(map(tuple, json.loads(shell(server, OUTBOX))))
            assert set(events.values()) == {1}
            assert len({session for _, session in events}) == 2
        finally:
            server.stop()
