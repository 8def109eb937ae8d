"""Where a stream is, by which ways another node gets it, and the tokens that let it."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ingest.contracts import RelayOrder
from ingest.models import Lease, Node, Stream
from ingest.services import media_urls, nodes, relays
from ingest.services.refusals import Refused
from ingest.services.relays import Neighbours, RelayPass
from tests.ingest.admitting import hold
from tests.ingest.faults import process_elsewhere
from tests.ingest.ticks import snapshot

HERE, THERE, MID = "node-a", "node-b", "node-m"


def publish_there(stream: Stream, **node: str) -> Lease:
    Node.objects.create(name=THERE, **node)
    now = timezone.now()
    hold(stream, THERE, started_at=now, expires_at=now + timedelta(seconds=10))
    return Lease.objects.get()


def ways(stream: Stream, via: tuple[str, ...] = ()) -> list[str]:
    """The URLs, in order."""
    found = order(stream, via)
    return [source["url"] for source in found["sources"]] if found else []


def order(stream: Stream, via: tuple[str, ...] = ()) -> RelayOrder | None:
    place = relays.place_of(stream=stream.pk, node=HERE, now=timezone.now())
    assert place is not None
    return relays.order(place, relays.neighbours(node=HERE), via)


# --- Where it is ---


def test_places_lists_only_streams_published_on_other_nodes(stream: Stream) -> None:
    Stream.objects.create(application=stream.application, name="cam2")
    lease = publish_there(stream, url="rtmp://b.example.net")
    now, paths = timezone.now(), {"live/cam1", "live/cam2", "other/cam1", "live/never"}
    (place,) = relays.places(paths=paths, node=HERE, now=now).values()
    assert (place.path, place.address.node, place.session) == ("live/cam1", THERE, str(lease.session_id))
    assert relays.place_of(stream=stream.pk, node=HERE, now=now) == place
    assert relays.places(paths=paths, node=THERE, now=now) == {}
    assert relays.place_of(stream=stream.pk, node=THERE, now=now) is None
    assert relays.places(paths=paths, node=HERE, now=now + timedelta(seconds=10)) == {}, "its node is gone"


def test_places_finds_a_stream_among_more_paths_than_one_query_takes(stream: Stream) -> None:
    publish_there(stream)
    paths = {"live/cam1", *(f"live/other{number}" for number in range(relays.ASKED_AT_ONCE + 1))}
    assert relays.places(paths=paths, node=HERE, now=timezone.now()).keys() == {"live/cam1"}


def test_places_come_from_node_snapshots_while_the_database_is_away(stream: Stream) -> None:
    address = {"url": "rtmp://b.example.net", "local": "", "process": process_elsewhere()}
    shown: list[Any] = [
        snapshot(stream.pk, "session-1", node=THERE, app="live", name="cam1"),
        snapshot(8, None, node=THERE, app="live", name="cam2"),
        snapshot(9, "session-2", node=HERE, app="live", name="cam3"),
        snapshot(10, "session-3", node="node-c", app="live", name="cam4"),
    ]
    figures: list[Any] = [{"node": THERE, "address": address}, {"node": HERE, "address": address | {"url": ""}}]
    paths = {"live/cam1", "live/cam2", "live/cam3", "live/cam4"}
    (place,) = relays.shown_places(paths=paths, node=HERE, streams=shown, figures=figures).values()
    assert (place.path, place.session, place.address.url) == ("live/cam1", "session-1", "rtmp://b.example.net")
    figures.append({"node": "node-d", "address": address})
    (place,) = relays.shown_places(paths=paths, node=HERE, streams=shown, figures=figures).values()
    assert place.address.is_shared


# --- The ways there ---


def test_relay_way_to_another_machine_is_its_url(stream: Stream) -> None:
    publish_there(stream, url="rtmp://b.example.net", process=process_elsewhere(), local="/run/b.sock")
    assert ways(stream) == ["rtmp://b.example.net"]


def test_relay_way_on_the_same_machine_is_the_socket_first(stream: Stream) -> None:
    own = str(nodes.own_process())
    publish_there(stream, url="rtmp://b.example.net", process=own, local="/run/b.sock")
    Node.objects.create(name=HERE, process=own, url="rtmp://b.example.net")
    assert ways(stream) == ["unix:/run/b.sock"], "workers share a URL"
    Node.objects.filter(name=HERE).update(url="rtmp://a.example.net")
    assert ways(stream) == ["unix:/run/b.sock", "rtmp://b.example.net"]


def test_a_url_that_leads_back_is_no_way(stream: Stream) -> None:
    publish_there(stream, url="rtmp://balancer.example.net")
    Node.objects.create(name=HERE, url="rtmp://balancer.example.net")
    place = relays.place_of(stream=stream.pk, node=HERE, now=timezone.now())
    assert place is not None
    assert ways(stream) == []
    assert relays.no_way(place).endswith("Play it from node-b.")
    Node.objects.filter(name=HERE).update(url="rtmp://a.example.net")
    assert ways(stream) == ["rtmp://balancer.example.net"]
    Node.objects.update(url="")
    assert ways(stream) == []


def test_relay_token_is_valid_at_all_running_workers_sharing_the_url(stream: Stream) -> None:
    publish_there(stream, url="rtmp://b.example.net")
    Node.objects.create(name="node-b-2", url="rtmp://b.example.net")
    Node.objects.create(name="node-b-3", url="rtmp://b.example.net", state=Node.State.DOWN)
    found = order(stream)
    assert found is not None
    token = found["sources"][0]["token"]
    assert [node for node in (THERE, "node-b-2", "node-b-3", HERE) if relays.read(token, node=node)[0]] == [
        THERE,
        "node-b-2",
    ]


def test_relay_via_setting_puts_other_running_nodes_first(stream: Stream, settings: Any) -> None:
    settings.RELAY_VIA = [HERE, "gone", MID]
    publish_there(stream, url="rtmp://b.example.net")
    middle = Node.objects.create(name=MID, url="rtmp://m.example.net")
    assert ways(stream) == ["rtmp://m.example.net", "rtmp://b.example.net"]
    assert ways(stream, via=(MID,)) == ["rtmp://b.example.net"], "it asks itself"
    Node.objects.filter(pk=middle.pk).update(state=Node.State.DOWN)
    assert ways(stream) == ["rtmp://b.example.net"]
    settings.RELAY_VIA = [THERE]
    assert ways(stream) == ["rtmp://b.example.net"]


def test_a_long_chain_ends_at_the_node_that_has_it(stream: Stream, settings: Any) -> None:
    settings.RELAY_VIA = [MID]
    publish_there(stream, url="rtmp://b.example.net")
    Node.objects.create(name=MID, url="rtmp://m.example.net")
    assert len(ways(stream, via=("one",))) == 2
    assert ways(stream, via=("one", "two")) == ["rtmp://b.example.net"]


# --- Tokens ---


def test_a_token_is_for_a_stream_and_a_node() -> None:
    now = timezone.now()
    token = relays.issue(RelayPass(7, HERE, ("node-x",)), {THERE}, now=now)
    assert relays.read(token, node=THERE, now=now) == (RelayPass(7, HERE, ("node-x",)), "valid")
    assert relays.read(token, node=HERE, now=now) == (None, "invalid")
    assert relays.read(token[:-1] + ("A" if token[-1] != "A" else "B"), node=THERE, now=now) == (None, "invalid")
    later = now + relays.LIFETIME
    assert relays.read(token, node=THERE, now=later) == (RelayPass(7, HERE, ("node-x",)), "expired")


@pytest.mark.parametrize(
    ("by", "via", "reason"),
    [
        (HERE, ("one", "two", "three"), "relay_too_deep"),
        (THERE, (), "relay_loop"),
        (HERE, ("one", THERE), "relay_loop"),
    ],
)
def test_no_circles_and_no_long_chains(by: str, via: tuple[str, ...], reason: str) -> None:
    relays.check_hops(RelayPass(7, HERE, ("one", "two")), node=THERE)
    with pytest.raises(Refused, match=reason):
        relays.check_hops(RelayPass(7, by, via), node=THERE)


def test_play_of_a_stream_elsewhere_gets_its_relay_source_or_is_refused(stream: Stream) -> None:
    publish_there(stream, url="rtmp://b.example.net")
    now = timezone.now()
    found = relays.source(stream=stream.pk, node=HERE, now=now)
    assert found is not None
    assert found["labels"] == {"stream": stream.pk, "key": None}
    assert relays.source(stream=stream.pk, node=THERE, now=now) is None
    Node.objects.update(url="")
    relays._recent.clear()
    with pytest.raises(Refused, match="elsewhere"):
        relays.source(stream=stream.pk, node=HERE, now=now)


def test_neighbours_are_determined_without_any_node_row(db: None) -> None:
    assert isinstance(relays.neighbours(node=HERE), Neighbours)


@pytest.mark.parametrize(
    ("node_url", "database", "plain", "tls", "found"),
    [
        ("rtmp://b.example.net:1940", "", [("0.0.0.0", 1935)], [], "rtmp://b.example.net:1940"),
        ("", "", [("192.0.2.7", 1935)], [], "rtmp://192.0.2.7"),
        ("", "", [("0.0.0.0", 1936)], [("::", 1936)], "rtmp://127.0.0.1:1936"),
        ("", "127.0.0.1", [("0.0.0.0", 1935)], [], "rtmp://127.0.0.1"),
        ("", "/var/run/postgresql", [("0.0.0.0", 1935)], [], "rtmp://127.0.0.1"),
        ("", "", [], [("0.0.0.0", 443)], "rtmps://127.0.0.1"),
        ("", "", [], [], ""),
    ],
)
def test_node_url_is_derived_from_setting_and_listeners(
    settings: Any, monkeypatch: pytest.MonkeyPatch, node_url: str, database: str, plain: Any, tls: Any, found: str
) -> None:
    settings.NODE_URL, settings.RTMP_HOST, settings.REDIS_URL = node_url, "live.example.net", ""
    monkeypatch.setitem(settings.DATABASES["default"], "HOST", database)
    assert media_urls.node_url(plain, tls) == found
