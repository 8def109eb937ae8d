"""A node's orderly stop while something holds it up: real listeners with the project's consumers."""

import asyncio
import time
from contextlib import ExitStack

import pytest

from ingest.consumers import login
from ingest.consumers import node as node_consumer
from ingest.consumers.decisions import READ
from ingest.models import Application, Attempt
from ingest.server import Deadlines
from ingest.services import keys
from ingest.services.bans import get_guard
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.control import Connection
from tests.ingest.faults import held, limited, locked_database
from tests.ingest.listener import listening
from tests.ingest.ticks import until
from tests.rtmp_client import RtmpClient

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.both_forms
async def test_a_stop_without_the_database_says_what_was_not_written(
    process: HistoryWriter, key: NewKey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However short a time connections are given."""
    monkeypatch.setattr(node_consumer, "STOP_S", 4.5)
    with ExitStack() as later:  # Longer than the listener.
        async with listening() as port, RtmpClient(port=port) as encoder:
            await encoder.connect("live")
            await encoder.publish(key.secret)
            later.enter_context(limited(2))
            later.enter_context(locked_database())
    assert "The database did not take the last" in caplog.text
    assert "did not return" not in caplog.text


async def test_a_stop_waits_for_no_answer_that_is_held_back(
    process: HistoryWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login._random, "uniform", lambda _least, _most: 3600.0)
    await Application.objects.acreate(name="live")
    loop = asyncio.get_running_loop()
    patient = Deadlines(decision_s=60, application_s=60)
    async with listening(grace_s=60, deadlines=patient) as port, RtmpClient(port=port) as guesser:
        await guesser.connect("live")
        stream_id = await guesser.create_stream()
        guesser.protocol.publish(stream_id, keys.generate(), "live")
        await guesser.flush()
        await until(Attempt.objects.exists)
        stops = loop.time()
    assert loop.time() - stops < 20


async def test_who_is_banned_takes_no_place_at_the_database(process: HistoryWriter, key: NewKey) -> None:
    banned = Connection()
    await banned.connect()
    for number in range(10):
        get_guard().wrong("192.0.2.7", f"guess-{number}", time.time())
    with held(READ):
        refused = await banned.ask(banned.publish_event(key.secret))
        assert refused["description"].startswith("Too many wrong keys")
        again = Connection()
        connect = {"type": "rtmp.connect", "credential": key.secret, "login": None}
        assert (await again.ask(connect))["type"] == "rtmp.reject"
    for each in (banned, again):
        await each.disconnect("rejected")
