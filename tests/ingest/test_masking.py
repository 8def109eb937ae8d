"""Keys are nowhere, and what a peer says is bounded."""

import logging
from typing import Any

import duckdb
import pytest
from asgiref.sync import sync_to_async

from ingest.models import Application, Attempt, Lease, Session, StatusEvent, Stream
from ingest.services import keys
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from ingest.telemetry import TelemetryWriter, set_writer
from tests.ingest.control import Connection
from tests.ingest.faults import missing_table

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_key_is_nowhere(
    encoder: Connection, process: HistoryWriter, key: NewKey, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = keys.generate()
    answers = [await encoder.publish(key.secret), await encoder.publish(wrong, stream_id=2)]
    with missing_table("ingest_streamkey"):
        answers.append(await encoder.publish(key.secret, stream_id=3))
    await encoder.disconnect()
    assert process.flush(5)
    rows = [
        str(row)
        for model in (Application, Stream, Session, StatusEvent, Attempt, Lease)
        async for row in model.objects.values()
    ]
    for secret in (key.secret, wrong):
        assert secret not in "\n".join(rows)
        assert secret not in caplog.text
        assert secret not in str(answers)


@pytest.mark.parametrize("app", ["live/{}", "{}", "live/{}/x", "other/{}"])
async def test_an_imported_key_in_the_applications_place_is_nowhere(
    process: HistoryWriter, stream: Stream, settings: Any, app: str
) -> None:
    """An encoder that takes the key for a part of the server's URL, or breaks off before an answer."""
    imported = await sync_to_async(keys.create)(stream=stream, secret="oldserver-key-1")
    writer = TelemetryWriter(settings.LAKE_DIR, "node-a")
    writer.start()
    set_writer(writer)
    try:
        refused, broken = (Connection(app=app.format(imported.secret)) for _ in range(2))
        assert (await refused.connect())["code"] == "NetConnection.Connect.InvalidApp"
        await refused.disconnect("rejected")
        await broken.disconnect("idle_timeout")
    finally:
        set_writer(None)
        writer.close()
    assert process.flush(5)
    attempts = [str(row) async for row in Attempt.objects.values()]
    lake = duckdb.read_parquet(f"{settings.LAKE_DIR}/events/**/*.parquet", union_by_name=True).fetchall()
    assert len(attempts) == len(lake) == 2
    assert imported.secret not in str(attempts)
    assert imported.secret not in str(lake)


@pytest.mark.usefixtures("application")
async def test_what_follows_an_unknown_applications_name_is_not_kept(process: HistoryWriter) -> None:
    """It may be a key that this server doesn't know; the first part tells the operator enough."""
    encoder = Connection(app="live/oldserver-key-1")
    await encoder.connect()
    await encoder.disconnect("rejected")
    assert process.flush(5)
    assert (await Attempt.objects.aget()).app == "live/…"


async def test_a_peer_cannot_cause_events_without_bound(
    encoder: Connection, process: HistoryWriter, key: NewKey
) -> None:
    await encoder.publish(key.secret)
    for _ in range(2100):
        await encoder.status("NetStream.Seek.Failed", level="error")
    await encoder.disconnect()
    assert process.flush(10)
    assert await StatusEvent.objects.acount() == 2001
    assert (await StatusEvent.objects.order_by("-sequence").afirst()).kind == "session.ended"  # type: ignore[union-attr]
