"""Pushes, as a node's application has them: what it orders of the server, and what becomes of what that tells."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.models import PushTarget, Session, StatusEvent, Stream
from ingest.pages import stream_group
from ingest.services import push_targets
from ingest.services.audit import Actor
from ingest.services.keys import NewKey
from tests.ingest.conftest import Rounds
from tests.ingest.control import Connection, NodeApp, flush
from tests.ingest.ticks import drop_after_ticks, is_up, published, snapshot, tick_until, until, watch

pytestmark = [pytest.mark.usefixtures("process"), pytest.mark.django_db(transaction=True)]

ACTOR = Actor("test")
SERVER = "rtmp://a.rtmp.example.org/live2"
SECRET = "abcd-efgh-1234"


def add(stream: Stream, label: str = "YouTube", **values: Any) -> PushTarget:
    target = PushTarget(stream=stream)
    push_targets.save(ACTOR, target, {"label": label, "url": SERVER, "key": SECRET} | values)
    return target


@pytest.fixture
async def live(node: NodeApp, key: NewKey) -> AsyncIterator[str]:
    """The session of a publisher."""
    await is_up()
    encoder, session = await published(key)
    yield session
    await encoder.disconnect()


async def ordered(node: NodeApp) -> Any:
    """The next order of pushes."""
    async with asyncio.timeout(20):
        while (message := await drop_after_ticks(node))["type"] != "node.push":
            pass
    return message


def order(target: PushTarget, name: str = SECRET) -> dict[str, Any]:
    return {"target": target.pk, "url": target.url, "name": name, "private_allowed": False}


async def change(node: NodeApp, target: PushTarget, session: str, state: str, **fields: Any) -> None:
    told = {"target": target.pk, "session_id": session, "stream": target.stream_id, "state": state}
    await node.tell("node.pushed", **(told | {"code": "", "description": ""} | fields))


def figures(target: PushTarget, session: str, state: str = "live", **fields: Any) -> dict[str, Any]:
    base = {
        "target": target.pk,
        "session_id": session,
        "stream": target.stream_id,
        "state": state,
        "since": 1_800_000_000.0,
        "kbps": 2600.0,
        "sent_bytes": 1000,
        "dropped_frames": 0,
        "behind_ms": 0,
        "rtt_ms": 12.0,
        "tries": 0,
        "retry_at": None,
    }
    return base | fields


def state(target: PushTarget) -> tuple[str, str, str, str]:
    target.refresh_from_db()
    return target.state, target.failure, target.code, target.description


async def states(target: PushTarget, expected: tuple[str, str, str, str]) -> None:
    await until(lambda: state(target) == expected)


adding: Callable[..., Awaitable[PushTarget]] = sync_to_async(add)


async def test_a_publisher_is_pushed_to_the_targets_that_start_with_the_stream(
    node: NodeApp, key: NewKey, cam2: Stream
) -> None:
    first = await adding(key.key.stream)
    await adding(key.key.stream, "Later", starts="hand")
    await adding(key.key.stream, "Off", enabled=False)
    await adding(cam2, "Of another stream")
    await is_up()
    encoder, session = await published(key)
    assert await ordered(node) == {"type": "node.push", "session_id": session, "targets": [order(first)]}
    await encoder.disconnect()


async def test_push_order_is_sent_again_only_when_targets_change(node: NodeApp, live: str, stream: Stream) -> None:
    first = await adding(stream)
    assert (await ordered(node))["targets"] == [order(first)]
    second = await adding(stream, "Twitch", key="other-key-5678")
    assert (await ordered(node))["targets"] == [order(first), order(second, "other-key-5678")]
    await first.adelete()
    assert (await ordered(node))["targets"] == [order(second, "other-key-5678")]
    await second.adelete()
    assert (await ordered(node))["targets"] == []


async def test_push_target_with_a_changed_key_is_stopped_before_its_restart(
    node: NodeApp, live: str, stream: Stream
) -> None:
    first = await adding(stream)
    await ordered(node)
    await sync_to_async(push_targets.save)(ACTOR, first, {"key": "another-key-1"})
    assert (await ordered(node))["targets"] == []
    assert (await ordered(node))["targets"] == [order(first, "another-key-1")]


async def test_manual_push_target_starts_and_stops_on_request(node: NodeApp, live: str, stream: Stream) -> None:
    target = await adding(stream, starts="hand")
    await sync_to_async(push_targets.start)(ACTOR, target)
    assert (await ordered(node))["targets"] == [order(target)]
    await change(node, target, live, "live")
    await states(target, ("live", "", "", ""))
    await sync_to_async(push_targets.stop)(ACTOR, target)
    assert (await ordered(node))["targets"] == []
    await change(node, target, live, "retrying", failure="lost", description="Late.")
    await until(lambda: StatusEvent.objects.filter(kind="push.stopped").exists())
    assert await sync_to_async(state)(target) == ("stopped", "", "", "")


async def test_start_request_retries_a_refused_push_target(node: NodeApp, live: str, stream: Stream) -> None:
    target = await adding(stream)
    await ordered(node)
    refused = {"failure": "refused", "code": "NetStream.Publish.BadName", "description": f"{SECRET} is in use."}
    await change(node, target, live, "stopped", **refused)
    await states(target, ("stopped", "refused", "NetStream.Publish.BadName", "… is in use."))
    await sync_to_async(push_targets.start)(ACTOR, target)
    assert (await ordered(node))["targets"] == []
    await change(node, target, live, "stopped")  # The end of the former one changes nothing.
    assert (await ordered(node))["targets"] == [order(target)]
    assert (await sync_to_async(state)(target))[0] == "connecting"
    event = await StatusEvent.objects.aget(kind="push.failed")
    assert (event.level, event.code) == ("error", "NetStream.Publish.BadName")
    assert event.description == "YouTube: the key is in use already, or wrong."
    assert event.detail["answer"] == "… is in use."
    assert not await StatusEvent.objects.filter(kind="push.stopped").aexists()


async def test_manual_push_start_and_stop_outlast_a_short_encoder_absence(
    node: NodeApp, key: NewKey, stream: Stream
) -> None:
    by_hand, with_it = await adding(stream, "A", starts="hand"), await adding(stream, "B")
    await is_up()
    encoder, _ = await published(key)
    await sync_to_async(push_targets.start)(ACTOR, by_hand)
    await sync_to_async(push_targets.stop)(ACTOR, with_it)
    while [each["target"] for each in (await ordered(node))["targets"]] != [by_hand.pk]:
        pass
    await encoder.disconnect()
    again, session = await published(key)
    message = await ordered(node)
    while message["session_id"] != session or not message["targets"]:
        message = await ordered(node)
    assert message["targets"] == [order(by_hand)]
    await again.disconnect()


async def test_manual_push_start_and_stop_lapse_after_a_longer_encoder_absence(
    node: NodeApp, key: NewKey, stream: Stream
) -> None:
    by_hand, with_it = await adding(stream, "A", starts="hand"), await adding(stream, "B")
    await is_up()
    former = await Session.objects.acreate(
        kind="publish",
        app="live",
        name="cam1",
        stream=stream,
        address="192.0.2.7",
        started_at=timezone.now() - timedelta(hours=1),
        ended_at=timezone.now() - timedelta(minutes=1),
    )
    await PushTarget.objects.filter(pk=by_hand.pk).aupdate(asked="start", asked_for=former.pk)
    await PushTarget.objects.filter(pk=with_it.pk).aupdate(asked="stop", asked_for=former.pk)
    encoder, session = await published(key)
    message = await ordered(node)
    while not message["targets"]:
        message = await ordered(node)
    assert message == {"type": "node.push", "session_id": session, "targets": [order(with_it)]}
    await encoder.disconnect()


async def test_push_state_reaches_row_history_and_pages_with_secrets_masked(
    node: NodeApp, live: str, stream: Stream
) -> None:
    target = await adding(stream)
    await ordered(node)
    told = await watch(stream_group(stream.pk))
    await change(node, target, live, "connecting")
    await states(target, ("connecting", "", "", ""))
    lost = {"failure": "lost", "code": "", "description": f"Closed: {SECRET}."}
    await change(node, target, live, "retrying", **lost)
    await states(target, ("retrying", "lost", "", "Closed: …."))
    assert target.failing_since is not None
    assert target.state_session == uuid.UUID(live)
    message: dict[str, Any] = {}
    while message.get("kind") != "event":
        message = await told()
    assert message["event"]["kind"] == "push.failed"
    retry = figures(target, live, "retrying", kbps=0.0, tries=1, retry_at=1_800_000_005.0)

    async def sample(state: str) -> dict[str, Any]:
        while True:
            found = (await told()).get("stream") or {}
            if [each["state"] for each in found.get("pushes", ())] == [state]:
                return found

    async def seen(push: dict[str, Any]) -> dict[str, Any]:
        """The page's sample with this push; a node misses a tick that comes while it shows another."""
        found = asyncio.create_task(sample(push["state"]))
        await tick_until(node, found.done, streams=[snapshot(stream.pk, live)], pushes=[push])
        return found.result()

    page = await seen(retry)
    assert page["pushing"] == {"live": 0, "failing": 1}
    (view,) = page["pushes"]
    assert (view["state"], view["failure"], view["words"]) == ("retrying", "lost", "the connection broke")
    assert view["description"] == "Closed: …."
    assert SECRET not in json.dumps(page)
    await change(node, target, live, "live")
    await states(target, ("live", "", "", ""))
    assert target.failing_since is None
    page = await seen(figures(target, live))
    assert page["pushing"] == {"live": 1, "failing": 0}
    assert (page["pushes"][0]["kbps"], page["pushes"][0]["failure"]) == (2600.0, "")
    await sync_to_async(flush)()
    kinds = [event.kind async for event in StatusEvent.objects.filter(kind__startswith="push.").order_by("sequence")]
    assert kinds == ["push.failed", "push.live"]


async def test_repeated_push_failure_is_recorded_once(node: NodeApp, live: str, stream: Stream) -> None:
    target = await adding(stream)
    await ordered(node)
    for _ in range(3):
        await change(node, target, live, "connecting")
        await change(node, target, live, "retrying", failure="connect", description="Nobody answers.")
    await change(node, target, live, "live")
    await states(target, ("live", "", "", ""))
    assert await StatusEvent.objects.filter(kind="push.failed").acount() == 1


async def test_a_node_orders_no_more_than_it_may(node: NodeApp, live: str, stream: Stream, settings: Any) -> None:
    settings.MAX_PUSHES = 1
    first = await adding(stream, "A")
    assert [each["target"] for each in (await ordered(node))["targets"]] == [first.pk]
    second = await adding(stream, "B")
    told = ("stopped", "limit", "", "This node pushes as much as it may.")
    await tick_until(node, lambda: state(second) == told)
    await first.adelete()
    while [each["target"] for each in (await ordered(node))["targets"]] != [second.pk]:
        pass


async def test_a_key_of_another_pepper_is_said_once_and_not_ordered(
    node: NodeApp, live: str, stream: Stream, settings: Any
) -> None:
    target = await adding(stream)
    settings.KEY_PEPPER = "another"
    await tick_until(node, lambda: state(target)[:3] == ("stopped", "refused", "key.unreadable"))
    assert "enter it again" in target.description
    await sync_to_async(flush)()
    assert await StatusEvent.objects.filter(kind="push.failed").acount() == 1


async def test_a_test_of_a_key_is_pushed_nowhere(node: NodeApp, key: NewKey, stream: Stream, rounds: Rounds) -> None:
    await adding(stream)
    key.key.test_only = True
    await key.key.asave()
    await is_up()
    tester = Connection()
    await tester.connect()
    assert (await tester.publish(key.secret))["type"] == "rtmp.publish.accept"
    await rounds.pass_by(node, "pushes")
    assert node.app.output_queue.empty()
    await tester.disconnect()
