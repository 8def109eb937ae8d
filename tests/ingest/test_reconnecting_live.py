"""Publishers that reconnect at random leave nothing in the process (see tests/production/test_reconnecting.py)."""

import asyncio
import random

import pytest
from asgiref.sync import sync_to_async

from ingest.consumers.active import ACTIVE
from ingest.models import Application, Lease, Node, Session, Stream
from ingest.services import keys
from ingest.services.history_writer import HistoryWriter
from tests.ingest.listener import listening
from tests.ingest.ticks import until
from tests.production.reconnecting import Publisher

pytestmark = pytest.mark.django_db(transaction=True)

PUBLISHERS = 8
SECONDS = 6


def make_keys(application: Application) -> list[str]:
    streams = [Stream.objects.create(application=application, name=f"cam{number}") for number in range(PUBLISHERS)]
    return [keys.create(stream=stream).secret for stream in streams]


async def test_no_task_and_no_session_is_left(process: HistoryWriter, application: Application) -> None:
    secrets = await sync_to_async(make_keys)(application)
    async with listening() as port:
        await until(Node.objects.filter(state="up").exists)
        before = len(asyncio.all_tasks())
        over = asyncio.Event()
        ends_at = asyncio.get_running_loop().time() + SECONDS
        publishers = [Publisher(port, secret, random.Random(secret), until=ends_at) for secret in secrets]
        running = [asyncio.create_task(publisher.run(over)) for publisher in publishers]
        async with asyncio.timeout(SECONDS + 30):
            while not all(publisher.stays for publisher in publishers):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await until(lambda: Session.objects.filter(ended_at=None).count() == len(ACTIVE) == PUBLISHERS)
        over.set()
        await asyncio.gather(*running)
        await until(lambda: not Lease.objects.filter(session__isnull=False).exists())
        await until(lambda: not Session.objects.filter(ended_at=None).exists())
        async with asyncio.timeout(15):
            while len(asyncio.all_tasks()) > before or ACTIVE:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    # A busy machine may not check all of them in time, which is told as something that passes.
    assert all("Try again" in text for publisher in publishers for text in publisher.refused)
    assert sum(publisher.ends.total() for publisher in publishers) >= PUBLISHERS
