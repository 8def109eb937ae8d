"""Pulls, as a node's application has them: which streams it has the server fetch, and that a pull is a publisher."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import ValidationError
from django.utils import timezone

from ingest.consumers import pulls as pulls_consumer
from ingest.models import Attempt, Lease, Node, PullSource, Session, Stream
from ingest.services import database, pulls
from ingest.services.audit import Actor
from ingest.services.keys import NewKey
from tests.ingest.conftest import Rounds
from tests.ingest.control import NODE, Connection, NodeApp, flush
from tests.ingest.ticks import is_up, published, snapshot, tick_until, until

pytestmark = [pytest.mark.usefixtures("process"), pytest.mark.django_db(transaction=True)]

ACTOR = Actor("test")
URL = "rtmp://bob:hunter2@origin.example.org/app/cam1?token=abcdefgh"
SHOWN = "rtmp://…@origin.example.org/app/cam1?…"


def add(stream: Stream, **values: Any) -> PullSource:
    source = PullSource(stream=stream)
    pulls.save(ACTOR, source, {"url": URL} | values)
    return source


adding = sync_to_async(add)


async def ordered(node: NodeApp, **tick: Any) -> list[dict[str, Any]]:
    """The sources of the next order of pulls."""
    async with asyncio.timeout(20):
        while True:
            while node.app.output_queue.empty():
                await node.tick(**tick)
                await asyncio.sleep(0.05)
            message = await node.app.receive_output()
            if message["type"] == "node.pull":
                found: list[dict[str, Any]] = message["sources"]
                return found


async def pulling(source: PullSource, credential: str, **fields: Any) -> tuple[Connection, dict[str, Any]]:
    """The connection that the server makes of an order, and what it is answered."""
    connection = Connection()
    await connection.connect()
    return connection, await connection.publish(credential, name=source.stream.name, **fields)


async def test_an_origin_pulls_what_nobody_publishes(node: NodeApp, stream: Stream) -> None:
    source = await adding(stream)
    (order,) = await ordered(node)
    assert order | {"credential": ""} == {
        "source": source.pk,
        "path": "live/cam1",
        "url": "rtmp://bob:hunter2@origin.example.org/app",
        "name": "cam1?token=abcdefgh",
        "credential": "",
        "private_allowed": False,
    }
    await source.adelete()
    assert await ordered(node) == []


async def test_a_pull_is_a_publisher_without_a_key(node: NodeApp, stream: Stream, rounds: Rounds) -> None:
    source = await adding(stream)
    (order,) = await ordered(node)
    puller, answer = await pulling(source, order["credential"])
    assert (answer["type"], answer["path"]) == ("rtmp.publish.accept", "live/cam1")
    assert answer["labels"] == {"stream": stream.pk, "key": None}
    session = await Session.objects.aget(pk=answer["session_id"])
    assert (session.key_id, session.encoder, session.stream_id) == (None, f"Pull: {SHOWN}", stream.pk)
    metadata = {"encoder": "obs-output module"}
    await puller.tell({"type": "rtmp.metadata", "stream_id": 1, "metadata": metadata, "media": {}})
    # Its lease is its own: it stays ordered, and nothing is said again.
    await rounds.pass_by(node, "pulls", streams=[snapshot(stream.pk, answer["session_id"])])
    assert node.app.output_queue.empty()
    await sync_to_async(flush)()
    await session.arefresh_from_db()
    assert session.encoder == f"Pull: {SHOWN}"
    await puller.disconnect()


async def test_while_an_encoder_publishes_nothing_is_pulled(
    node: NodeApp, key: NewKey, stream: Stream, rounds: Rounds
) -> None:
    await is_up()
    encoder, _ = await published(key)
    await adding(stream)
    await rounds.pass_by(node, "pulls")
    assert node.app.output_queue.empty()
    await encoder.disconnect()
    assert len(await ordered(node)) == 1


async def test_an_encoder_takes_the_stream_over_as_its_settings_say(node: NodeApp, key: NewKey, stream: Stream) -> None:
    source = await adding(stream)
    (order,) = await ordered(node)
    puller, answer = await pulling(source, order["credential"])
    encoder = Connection()
    await encoder.connect()
    assert (await encoder.publish(key.secret))["type"] == "rtmp.publish.reject"
    stream.takeover = Stream.Takeover.REPLACE
    await stream.asave()
    assert (await encoder.publish(key.secret))["type"] == "rtmp.publish.accept"
    assert await ordered(node) == []
    assert answer["type"] == "rtmp.publish.accept"
    again, refused = await pulling(source, order["credential"])  # One that was under way displaces nobody.
    assert refused["type"] == "rtmp.publish.reject"
    for each in (puller, encoder, again):
        await each.disconnect()


async def test_an_edge_and_a_drained_node_pull_nothing(node: NodeApp, stream: Stream) -> None:
    await adding(stream)
    assert len(await ordered(node)) == 1
    await Node.objects.filter(name=NODE).aupdate(role=Node.Role.EDGE)
    assert await ordered(node) == []
    await Node.objects.filter(name=NODE).aupdate(role=Node.Role.ORIGIN)
    assert len(await ordered(node)) == 1
    await node.tell("node.draining")
    assert await ordered(node) == []
    await node.tell("node.resumed")


async def test_stream_published_on_another_node_is_not_pulled(node: NodeApp, stream: Stream, rounds: Rounds) -> None:
    await is_up()
    other = await Node.objects.acreate(name="node-b")
    there = {"kind": "publish", "app": "live", "name": "cam1", "stream": stream, "node": other, "address": "192.0.2.1"}
    session = await Session.objects.acreate(**there)
    expires = timezone.now() + timedelta(minutes=1)
    await Lease.objects.acreate(stream=stream, session=session, node=other, expires_at=expires)
    await adding(stream)
    await rounds.pass_by(node, "pulls")
    assert node.app.output_queue.empty()
    await Lease.objects.filter(stream=stream).aupdate(expires_at=timezone.now() - timedelta(seconds=1))
    assert len(await ordered(node)) == 1


async def test_on_demand_pull_starts_for_waiting_players_and_ends_after_they_left(
    node: NodeApp, stream: Stream, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_s = 0.3
    monkeypatch.setattr(pulls_consumer, "LEFT_S", left_s)
    await is_up()
    source = await adding(stream, when="demand")
    await rounds.pass_by(node, "pulls")
    assert node.app.output_queue.empty()
    waiting = snapshot(stream.pk, None, state="waiting", players=1)
    (order,) = await ordered(node, streams=[waiting])
    puller, answer = await pulling(source, order["credential"])
    on_air = snapshot(stream.pk, answer["session_id"], players=1)
    loop = asyncio.get_running_loop()
    watched_until = loop.time() + 2 * left_s
    await tick_until(node, lambda: loop.time() > watched_until, streams=[on_air])
    assert node.app.output_queue.empty()
    left = loop.time()
    assert await ordered(node, streams=[on_air | {"players": 0}]) == []
    assert loop.time() - left >= left_s
    await puller.disconnect()


async def test_on_demand_pull_runs_while_viewers_wait_at_a_packager(
    node: NodeApp, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until one of them watches it, which its players tell."""
    monkeypatch.setattr(pulls_consumer, "LEFT_S", 0.1)
    monkeypatch.setattr(pulls, "WANTED", timedelta(seconds=1))
    await is_up()
    source = await adding(stream, when="demand")
    want = sync_to_async(lambda: pulls.want(source.pk, now=database.read_shared_clock()))
    asked = asyncio.get_running_loop().time()
    await want()
    (order,) = await ordered(node)
    puller, answer = await pulling(source, order["credential"])
    on_air = snapshot(stream.pk, answer["session_id"], players=0)
    assert await ordered(node, streams=[on_air]) == []
    assert asyncio.get_running_loop().time() - asked >= 1.0
    await puller.disconnect()


async def test_a_node_pulls_no_more_than_it_may(node: NodeApp, stream: Stream, cam2: Stream, settings: Any) -> None:
    settings.MAX_PULLS = 1
    first, second = await adding(stream), await adding(cam2)
    assert [each["source"] for each in await ordered(node)] == [first.pk]
    await first.adelete()
    assert [each["source"] for each in await ordered(node)] == [second.pk]


async def test_a_credential_is_renewed_before_it_expires(
    node: NodeApp, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls_consumer, "RENEWED", pulls.LIFETIME - timedelta(seconds=0.5))
    await adding(stream)
    (first,) = await ordered(node)
    (second,) = await ordered(node)
    assert first["credential"] != second["credential"]
    assert first | {"credential": ""} == second | {"credential": ""}


async def test_pull_state_is_stored_with_its_secrets_masked(node: NodeApp, stream: Stream) -> None:
    source = await adding(stream)
    await ordered(node)
    figures = {
        "source": source.pk,
        "state": "retrying",
        "since": 1_800_000_000.0,
        "tries": 1,
        "retry_at": 1_800_000_005.0,
        "failure": "refused",
        "code": "NetStream.Play.StreamNotFound",
        "description": "No cam1?token=abcdefgh for bob:hunter2.",
    }

    def told() -> bool:
        source.refresh_from_db()
        return (source.state, source.failure, source.node) == ("retrying", "refused", NODE)

    await node.tick(pulls=[figures])
    await until(told)
    assert "abcdefgh" not in source.description
    assert "hunter2" not in source.description
    assert source.code == "NetStream.Play.StreamNotFound"


@pytest.mark.parametrize("case", ["expired", "other stream", "off", "stream off", "made up", "removed"])
async def test_pull_with_an_expired_forged_or_foreign_credential_is_refused(
    stream: Stream, cam2: Stream, case: str
) -> None:
    source = await adding(stream)
    made = timezone.now() - timedelta(hours=1) if case == "expired" else None
    credential = pulls.credential(source.pk, stream.pk, now=made)
    match case:
        case "other stream":
            await PullSource.objects.aupdate(stream=cam2)
        case "off":
            await PullSource.objects.aupdate(enabled=False)
        case "stream off":
            await Stream.objects.aupdate(enabled=False)
        case "made up":
            credential = f"{credential[:-3]}xyz"
        case "removed":
            await PullSource.objects.all().adelete()
    puller, answer = await pulling(source, credential)
    assert answer["type"] == "rtmp.publish.reject"
    await sync_to_async(flush)()
    attempt = await Attempt.objects.aget()
    reasons = {"made up": "key_unknown", "stream off": "stream_disabled"}
    assert attempt.reason == reasons.get(case, "pull_refused")
    assert credential[:20] not in f"{attempt.name} {attempt.description}"
    await puller.disconnect()


def test_pull_source_url_is_kept_if_left_empty_or_replaced_by_a_valid_one(stream: Stream) -> None:
    source = add(stream)
    sealed = source.sealed
    assert "hunter2" not in sealed + source.shown
    pulls.save(ACTOR, source, {"url": "", "when": "demand", "enabled": True})
    assert (source.sealed, source.when, source.shown) == (sealed, "demand", SHOWN)
    pulls.save(ACTOR, source, {"url": "rtmp://b.example.org/app/cam9"})
    assert source.shown == "rtmp://b.example.org/app/cam9"
    with pytest.raises(ValidationError, match="rtmp://host/app/name"):
        pulls.save(ACTOR, source, {"url": "rtmp://b.example.org/app"})
    with pytest.raises(ValidationError, match="already exists"):
        add(stream)
