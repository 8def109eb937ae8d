"""Streams that dropped: which are bad until somebody has seen it, and where that is counted."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.utils import timezone

from dashboard.streams import actions as streams_actions
from dashboard.streams.drops import known_drops, open_drops
from dashboard.system.watch import Watch
from ingest.contracts import ENDS
from ingest.models import Session, Stream
from ingest.services.audit import Actor
from tests.dashboard.conftest import make_session, make_stream, put_node, snapshot
from tests.dashboard.sockets import opened, said

pytestmark = pytest.mark.django_db(transaction=True)


def dropped(stream: Stream, ago_s: float = 60, reason: str = "tcp_reset", **fields: Any) -> Session:
    return make_session(stream, age_s=ago_s + 600, ended_ago_s=ago_s, end_reason=reason, **fields)


@pytest.mark.both_forms
def test_dropped_stream_is_an_open_drop_until_it_is_back(stream: Stream) -> None:
    session = dropped(stream)
    (drop,) = known_drops()
    assert (drop["id"], drop["stream"], drop["app"], drop["name"]) == (str(session.pk), stream.pk, "live", "cam-1")
    assert (drop["words"], drop["back"], drop["seen"], drop["node"]) == ("Connection reset", None, False, "n1")
    assert drop["advice"]
    assert open_drops() == {stream.pk}
    back = make_session(stream, age_s=20)
    assert open_drops() == set()
    (drop,) = known_drops()
    assert drop["back"] == pytest.approx(back.started_at.timestamp(), abs=0.01)


@pytest.mark.both_forms
def test_an_end_that_somebody_has_seen_is_bad_no_more(stream: Stream) -> None:
    session = dropped(stream)
    streams_actions.acknowledge_end(session, Actor("vera"))
    assert open_drops() == set()
    assert [drop["seen"] for drop in known_drops()] == [True]


@pytest.mark.parametrize("reason", [reason for reason, end in ENDS.items() if end.is_expected])
def test_an_end_that_was_meant_is_no_drop(stream: Stream, reason: str) -> None:
    dropped(stream, reason=reason)
    assert known_drops() == []
    assert open_drops() == set()


def test_drops_exclude_test_sessions_players_and_older_than_a_day(stream: Stream) -> None:
    dropped(stream, is_test=True)
    dropped(stream, kind="play")
    dropped(stream, ago_s=25 * 3600)
    assert known_drops() == []
    assert open_drops() == set()


def test_drop_followed_by_an_intended_stop_is_not_open(stream: Stream) -> None:
    dropped(stream, ago_s=300)
    make_session(stream, age_s=200, ended_ago_s=10, end_reason="client_unpublish")
    assert open_drops() == set()
    assert [drop["back"] is not None for drop in known_drops()] == [True]


@pytest.mark.both_forms
def test_flapping_stream_is_one_drop_and_hides_no_other(stream: Stream) -> None:
    for number in range(60):
        make_session(stream, age_s=600 - number, ended_ago_s=599.5 - number, end_reason="tcp_reset")
    other = make_stream("other")
    dropped(other, ago_s=800)
    assert sorted(drop["name"] for drop in known_drops()) == ["cam-1", "other"]
    assert open_drops() == {stream.pk, other.pk}


def test_drop_queries_are_constant_for_many_streams(stream: Stream, django_assert_num_queries: Any) -> None:
    for number in range(20):
        dropped(make_stream(f"s{number}"), ago_s=60 + number)
    with django_assert_num_queries(3):
        assert len(known_drops()) == 20
    with django_assert_num_queries(2):
        assert len(open_drops()) == 20


def test_open_drop_counts_as_a_bad_stream_once(stream: Stream, viewer: Client) -> None:
    session = dropped(stream)
    other = make_stream("other")
    put_node(snapshot(other, health="bad"))
    assert Watch().report().bad_streams == 2
    put_node(snapshot(other, health="bad"), snapshot(stream, health="bad"))
    assert Watch().report().bad_streams == 2, "it is back, and bad: one stream"
    put_node(snapshot(other, health="bad"))
    streams_actions.acknowledge_end(session, Actor("vera"))
    assert Watch().report().bad_streams == 1


@pytest.mark.both_forms
async def test_wall_receives_drops_and_their_acknowledgement(viewer: Client, stream: Stream) -> None:
    session = await sync_to_async(dropped)(stream)
    async with opened("/ws/live/", viewer) as wall:
        (drop,) = (await said(wall))["drops"]
        assert (drop["id"], drop["seen"]) == (str(session.pk), False)
        await sync_to_async(streams_actions.acknowledge_end)(session, Actor("vera"))
        (drop,) = (await said(wall))["drops"]
        assert (drop["id"], drop["seen"]) == (str(session.pk), True)


def test_refused_attempts_are_counted_in_the_menu_until_seen(viewer: Client) -> None:
    now = timezone.now().timestamp()
    group = {"reason": "key_unknown", "words": "Wrong key", "app": "live", "name": "…", "address": "203.0.113.7"}
    put_node(
        refused=[group | {"count": 8, "since": now - 40, "at": now}, group | {"count": 2, "since": now, "at": now}]
    )
    assert Watch().report().refused_since(0) == 10
    assert Watch().report().refused_since(now - 20) == 2
    assert viewer.get("/system/alarms").json()["refused"] == 10
    viewer.cookies["refused_seen"] = str(round(now - 20))
    assert viewer.get("/system/alarms").json()["refused"] == 2
    for nonsense in ("", "x", "-1", "9" * 400, "1e5", "²"):
        viewer.cookies["refused_seen"] = nonsense
        assert viewer.get("/system/alarms").status_code == 200
    page = viewer.get("/").content.decode()
    assert "data-refused-count" in page


def test_drop_is_no_longer_open_after_a_day(stream: Stream) -> None:
    dropped(stream)
    assert open_drops(timezone.now() + timedelta(hours=25)) == set()
