"""Webhooks of the embedded server, as another service sees them: while it is killed, too."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.receivers import HttpReceiver, answer, http_receiver
from tests.rtmp_client import RtmpClient
from tests.server_process import ServerProcess, wait_for

pytestmark = [
    pytest.mark.serve,
    pytest.mark.timeout(240),
    pytest.mark.slow("the whole server starts, or ends, as processes"),
]

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
AUDIO = (b"\xaf\x00\x12\x10", b"\xaf\x01\x21\x00\x49\x90\x02\x19\x00\x23\x80")


def shell(server: ServerProcess, code: str) -> str:
    return server.manage("shell", "--no-imports", "-c", code).strip().splitlines()[-1]


def bodies(receiver: HttpReceiver, kind: str) -> list[dict[str, Any]]:
    return [body for got in receiver.got if (body := json.loads(got.body))["kind"] == kind]


async def publish(server: ServerProcess, key: str) -> RtmpClient:
    client = RtmpClient(port=int(server.rtmp.rpartition(":")[2].strip("/")))
    await client.__aenter__()
    await client.connect("live")
    stream_id = await client.publish(key)
    for time_ms, payload in enumerate(AUDIO):
        await client.send_audio(stream_id, time_ms, payload)
    return client


def test_each_begin_has_one_end_though_server_and_worker_are_killed(tmp_path: Path) -> None:
    """The worker dies while it delivers one publisher's end, the node while another publisher is live."""
    server = ServerProcess(tmp_path / "var", RTMPWEB_WEBHOOK_PRIVATE="1")
    server.put_tables()
    with http_receiver() as receiver:
        server.start()
        try:
            secret = shell(server, MAKE.format(url=receiver.url))
            keys = server.create_keys(["live/cam1", "live/cam2"])

            async def until_one_is_being_told() -> None:
                first = await publish(server, keys["live/cam1"]["key"])
                second = await publish(server, keys["live/cam2"]["key"])
                await asyncio.to_thread(
                    wait_for, lambda: len(bodies(receiver, "publish")) == 2, timeout_s=30, what="two begins"
                )
                receiver.behaviours = [receiver.hang, answer(200)]
                await first.__aexit__(None, None, None)
                await asyncio.to_thread(
                    wait_for, lambda: bodies(receiver, "unpublish"), timeout_s=30, what="an end is being told"
                )
                server.process.kill()
                await second.__aexit__(None, None, None)

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
