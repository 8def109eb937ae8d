"""What a node has telemetry write to the lake."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import duckdb
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.models import Lease, Node, Session, StatusEvent, Stream
from ingest.services import keys
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.control import NODE, Connection, NodeApp
from tests.ingest.others import ended_process
from tests.ingest.telemetry.records import NOON
from tests.ingest.ticks import SAMPLE, is_up, published

pytestmark = pytest.mark.django_db(transaction=True)


async def test_samples_and_events_reach_the_lake(
    node: NodeApp, process: HistoryWriter, key: NewKey, settings: Any
) -> None:
    encoder, session_id = await published(key)
    wrong = Connection(address="198.51.100.9")
    await wrong.connect()
    await wrong.publish(keys.generate())
    await wrong.disconnect("rejected")
    await node.tick(samples=[replace(SAMPLE, session=session_id, at_us=NOON)])
    await encoder.unpublish(session_id)
    await encoder.disconnect()
    await node.stop()
    samples = duckdb.read_parquet(f"{settings.LAKE_DIR}/samples/**/*.parquet", union_by_name=True)
    assert samples.project("session, video_bytes").fetchall() == [(session_id, 312_500)]
    events = duckdb.read_parquet(f"{settings.LAKE_DIR}/events/**/*.parquet", union_by_name=True)
    assert sorted(events.project("kind, sequence, reason, bytes_in").fetchall()) == [
        ("attempt", 0, "key_unknown", 0),
        ("session.ended", 2, "client_unpublish", 1000),
        ("session.started", 1, "", 0),
    ]
    hashes = events.project("address_hash").distinct().fetchall()
    assert len(hashes) == 2
    assert not [found for (found,) in hashes if "192.0.2" in found]


async def test_an_imported_key_does_not_reach_the_lake(
    node: NodeApp, process: HistoryWriter, stream: Stream, settings: Any
) -> None:
    """Nothing tells such a key from a name but its look-up: so no name that isn't a stream's is written."""
    imported = await sync_to_async(keys.create)(stream=stream, secret="oldserver-key-1")
    other = await sync_to_async(keys.create)(stream=stream)
    client = Connection()
    await client.connect()
    assert (await client.play(imported.secret))["type"] == "rtmp.play.reject"
    assert (await client.publish(other.secret, name=imported.secret))["type"] == "rtmp.publish.reject"
    await client.disconnect("rejected")
    await node.stop()
    events = duckdb.read_parquet(f"{settings.LAKE_DIR}/events/**/*.parquet", union_by_name=True)
    assert sorted(events.project("session_kind, reason").fetchall()) == [
        ("play", "stream_unknown"),
        ("publish", "key_other_stream"),
    ]
    assert imported.secret not in str(events.fetchall())


async def test_an_end_that_a_dead_process_could_not_record_is_recorded(
    process: HistoryWriter, stream: Stream, key: NewKey, settings: Any
) -> None:
    """By its successor, or by whoever takes over the lease of a node that never came back."""
    now = timezone.now()
    seen = now - timedelta(minutes=1)
    own = await Node.objects.acreate(name=NODE, state="up", seen_at=seen, process=ended_process())
    other = await Node.objects.acreate(name="node-b", state="up", seen_at=now - timedelta(seconds=20))
    began = now - timedelta(hours=1)
    fields = {"app": "live", "name": "cam1", "stream": stream, "address": "192.0.2.7", "started_at": began}
    player = await Session.objects.acreate(kind="play", node=own, **fields)
    publisher = await Session.objects.acreate(kind="publish", node=other, key=key.key, **fields)
    await StatusEvent.objects.acreate(session=player, sequence=1, kind="session.started")
    await Lease.objects.acreate(stream=stream, session=publisher, node=other, expires_at=now - timedelta(seconds=9))
    node = NodeApp()
    await node.tell("node.started")
    await is_up()
    encoder, _ = await published(key)
    await encoder.disconnect()
    await node.stop()
    found = {
        event.session_id: (event.code, event.at)
        async for event in StatusEvent.objects.filter(kind="session.ended", code="node_lost")
    }
    rows = {session.pk: session async for session in Session.objects.filter(pk__in=[player.pk, publisher.pk])}
    assert found == {pk: ("node_lost", session.ended_at) for pk, session in rows.items()}
    assert rows[player.pk].ended_at == own.seen_at
    lake = duckdb.read_parquet(f"{settings.LAKE_DIR}/events/**/*.parquet", union_by_name=True).filter(
        "reason = 'node_lost'"
    )
    assert sorted(lake.project("session, kind, session_kind, node, stream").fetchall()) == sorted(
        [
            (str(player.pk), "session.ended", "play", NODE, stream.pk),
            (str(publisher.pk), "session.ended", "publish", "node-b", stream.pk),
        ]
    )
