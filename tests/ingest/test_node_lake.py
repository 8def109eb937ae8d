"""What a node has telemetry write to the lake; and sessions whose node died: they get what their samples there add up
to, and until then nobody claims to know it."""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.consumers import recordings as consumer
from ingest.contracts import Totals
from ingest.models import Lease, Node, OutboxEvent, Session, StatusEvent, Stream
from ingest.services import keys, sessions
from ingest.services.keys import NewKey
from ingest.telemetry import Rotation, TelemetryWriter, reading
from ingest.telemetry.reading import Sampled
from tests.ingest.control import NODE, TOTALS, Connection, NodeApp
from tests.ingest.faults import ended_process
from tests.ingest.telemetry import records
from tests.ingest.telemetry.records import NOON
from tests.ingest.ticks import SAMPLE, is_up, published, tick_until

pytestmark = pytest.mark.usefixtures("process")


async def test_samples_and_events_reach_the_lake(node: NodeApp, key: NewKey, settings: Any) -> None:
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


async def test_an_imported_key_does_not_reach_the_lake(node: NodeApp, stream: Stream, settings: Any) -> None:
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
    stream: Stream, key: NewKey, settings: Any
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


def left(stream: Stream, **fields: Any) -> Session:
    """A session that a killed node had open, five minutes old."""
    name = fields.pop("node", NODE)
    node, _ = Node.objects.get_or_create(name=name, defaults={"process": ended_process()})
    given = {"kind": "publish", "started_at": timezone.now() - timedelta(minutes=5)} | fields
    return Session.objects.create(app="live", name="cam1", stream=stream, node=node, address="192.0.2.7", **given)


async def starts_until(condition: Callable[[], Any]) -> None:
    """A node starts, and stops when the condition holds."""
    node = NodeApp()
    await node.tell("node.started")
    await tick_until(node, condition)
    await node.stop()


def sampled(
    lake: Path, session: Session, seconds: int, node: str = NODE, *, first: int = 1, began: datetime | None = None
) -> None:
    """A sample a second since the session, or what is given, `began`; the number of the first one."""
    writer = TelemetryWriter(lake, node, rotation=Rotation(flush_s=0.01))
    writer.start()
    began_us = int((began or session.started_at).timestamp() * 1e6)
    of_session = replace(records.SAMPLE, session=str(session.pk), node=node)
    writer.samples(
        [
            replace(of_session, sequence=first + number, at_us=began_us + (number + 1) * 1_000_000)
            for number in range(seconds)
        ]
    )
    writer.close()


@pytest.mark.both_forms
async def test_next_start_fills_in_totals_of_lost_sessions_from_their_samples(stream: Stream, settings: Any) -> None:
    session = await sync_to_async(left)(stream)
    player = await sync_to_async(left)(stream, kind="play")
    other = await sync_to_async(left)(stream, node="node-z", end_reason="node_lost", ended_at=timezone.now())
    await asyncio.to_thread(sampled, settings.LAKE_DIR, session, 60)
    await asyncio.to_thread(sampled, settings.LAKE_DIR, other, 30, "node-z")
    filled = Session.objects.filter(end_reason="node_lost", bytes_in__gt=0)
    await starts_until(lambda: filled.count() == 2)
    row = await Session.objects.aget(pk=session.pk)
    assert (row.bytes_in, row.bytes_out, row.video_frames, row.audio_frames, row.keyframes) == (
        60 * 266_000, 60 * 500_000, 60 * 30, 60 * 43, 60
    )  # fmt: skip
    assert row.summary == {"dropped_frames": 0, "duration_ms": 60_000, "from_samples": True}
    assert row.ended_at is not None
    assert (row.ended_at - session.started_at).total_seconds() == pytest.approx(60, abs=0.01)
    assert not row.is_uncounted
    assert (await Session.objects.aget(pk=other.pk)).video_frames == 30 * 30
    unknown = await Session.objects.aget(pk=player.pk)
    assert (unknown.end_reason, unknown.is_uncounted, unknown.total("bytes_out")) == ("node_lost", True, None)


async def test_lost_session_of_weeks_is_filled_in_only_if_no_sample_is_missing(stream: Stream, settings: Any) -> None:
    """It counts when it ended. Of another, retention has removed what was measured at first."""
    now = timezone.now()
    began, ended = now - timedelta(days=20), now - timedelta(minutes=5)
    lost = {"end_reason": "node_lost", "ended_at": ended}
    whole = await sync_to_async(left)(stream, started_at=began, **lost)
    part = await sync_to_async(left)(stream, started_at=began + timedelta(seconds=1), **lost)  # Looked at before it.
    await asyncio.to_thread(sampled, settings.LAKE_DIR, whole, 60)
    for session, first in ((whole, 61), (part, 1_000_000)):
        await asyncio.to_thread(
            sampled, settings.LAKE_DIR, session, 60, first=first, began=ended - timedelta(minutes=2)
        )
    await starts_until(Session.objects.filter(pk=whole.pk, summary__from_samples=True).exists)
    row = await Session.objects.aget(pk=whole.pk)
    assert (row.video_frames, row.summary["duration_ms"]) == (120 * 30, 120_000)
    assert row.ended_at is not None
    assert (ended - row.ended_at).total_seconds() == pytest.approx(60, abs=0.01)
    row = await Session.objects.aget(pk=part.pk)
    assert (row.is_uncounted, row.total("bytes_in"), row.ended_at) == (True, None, ended)


def test_only_uncounted_lost_sessions_are_filled_in_and_only_once(stream: Stream) -> None:
    now = timezone.now()
    session = left(stream)
    assert sessions.end(session=session.pk, reason="client_unpublish")
    other = left(stream)
    assert sessions.end(session=other.pk, reason="node_lost")
    test = left(stream, is_test=True)
    assert sessions.end(session=test.pk, reason="node_lost")
    assert [row.pk for row in sessions.uncounted(now=now, besides=())] == [other.pk]
    assert sessions.uncounted(now=now, besides=[other.pk]) == []
    assert sessions.uncounted(now=now + timedelta(days=8), besides=()) == []
    doubled: Totals = {**TOTALS, "bytes_in": 2000}
    assert sessions.fill_in(session=other.pk, totals=TOTALS, last_at=now - timedelta(hours=1), now=now)
    assert not sessions.fill_in(session=other.pk, totals=doubled, last_at=now, now=now)
    assert not sessions.fill_in(session=session.pk, totals=doubled, last_at=now, now=now)
    assert not sessions.fill_in(session=uuid.uuid4(), totals=TOTALS, last_at=now, now=now)
    other.refresh_from_db()
    assert (other.bytes_in, other.ended_at) == (1000, other.started_at), "no session ends before it began"


def test_an_end_without_totals_says_that_they_are_not_known(stream: Stream) -> None:
    session = left(stream)
    OutboxEvent.objects.create(kind="publish", once=f"publish:{session.pk}", stream=stream, session=session)
    assert sessions.end(session=session.pk, reason="node_lost")
    end = OutboxEvent.objects.get(kind="unpublish").payload["end"]
    names = ("bytes_in", "video_frames", "audio_frames", "keyframes")
    assert {name: end[name] for name in names} == dict.fromkeys(names)


async def test_many_lost_sessions_are_filled_in_in_one_round_own_node_first(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's own first, and of one that was lost days ago not what was measured since."""
    now, looked = timezone.now(), list[tuple[str, float, float]]()

    def read_totals(lake: Path, session: str, since_us: int, until_us: int, *, node: str, budget_s: float) -> Sampled:
        looked.append((node, since_us / 1e6, until_us / 1e6))
        return Sampled(TOTALS, since_us / 1e6 + 60)

    monkeypatch.setattr(reading, "read_totals", read_totals)
    count = sessions.AT_ONCE + 5
    for number in range(count):
        began = now - timedelta(days=2, hours=number)
        where = NODE if number == count - 1 else "node-z"
        ended = began + timedelta(minutes=1)
        await sync_to_async(left)(stream, node=where, end_reason="node_lost", started_at=began, ended_at=ended)
    await starts_until(lambda: Session.objects.filter(summary__from_samples=True).count() == count)
    assert looked[0][0] == NODE
    assert len(looked) == count
    assert all(until - since < 600 for _, since, until in looked)


@pytest.mark.parametrize("seconds", [60, 400])
async def test_lost_session_that_outlived_a_database_outage_gets_all_its_samples(
    stream: Stream, settings: Any, seconds: int
) -> None:
    """Its end is then that of the database's first absence."""
    began = timezone.now() - timedelta(hours=3)
    ended = began + timedelta(seconds=30)
    session = await sync_to_async(left)(stream, end_reason="node_lost", started_at=began, ended_at=ended)
    await asyncio.to_thread(sampled, settings.LAKE_DIR, session, seconds)
    await starts_until(lambda: Session.objects.filter(summary__from_samples=True).exists())
    row = await Session.objects.aget(pk=session.pk)
    assert row.video_frames == seconds * 30
    assert row.ended_at is not None
    assert (row.ended_at - began).total_seconds() == pytest.approx(seconds, abs=0.01)


async def test_missing_samples_of_a_lost_session_are_looked_up_a_few_times_only(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(consumer, "TIDY_S", 0.0)
    monkeypatch.setattr(reading, "read_totals", lambda lake, session, *rest, **how: looked.append(session))
    first, second = [
        await sync_to_async(left)(stream, end_reason="node_lost", ended_at=timezone.now()) for _ in range(2)
    ]
    await Session.objects.filter(pk=second.pk).aupdate(end_reason="")
    node = NodeApp()
    await node.tell("node.started")
    await tick_until(node, lambda: len(looked) == consumer.MOST_TRIES)
    await Session.objects.filter(pk=second.pk).aupdate(end_reason="node_lost")
    await tick_until(node, lambda: looked.count(str(second.pk)) == consumer.MOST_TRIES)
    await node.stop()
    assert looked.count(str(first.pk)) == consumer.MOST_TRIES
