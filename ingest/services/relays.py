"""Where a stream is published, and by which ways another node gets it for its own players; and the token that lets it.

The lease says on which node a stream is, that node's row how it is reached: on its own machine by a socket, from others
by its URL. A node may be told to ask other nodes first (RTMPWEB_RELAY_VIA), such as one for a whole region; those ask
on. Each token names the nodes that asked for the stream before, so that none asks itself, and no chain is long: at the
end of each stands the node that has the stream, which can always be asked at once.

A URL that several nodes have told leads to any of them: one of the same machine, where workers share a port, passes the
stream on; where that can't be, it leads nowhere."""

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from django.conf import settings
from django.core import signing
from django.db.models import BigIntegerField, CharField, DateTimeField, Exists, OuterRef, QuerySet
from django.utils import timezone

from ingest.contracts import NodeFigures, RelayOrder, RelaySource, StreamSnapshot
from ingest.models import Lease, Node
from ingest.services import nodes
from ingest.services.refusals import Refused, describe
from ingest.services.sql import Given, Prepared

LIFETIME: Final = timedelta(seconds=60)
"""Of a token. A node that fails to get the stream is given others."""
SALT: Final = "ingest.relay"

MOST_HOPS: Final = 4
"""Nodes from the one that has the stream to a player's own."""
MOST_NAMES: Final = 64
"""Nodes that may share a URL."""
ASKED_AT_ONCE: Final = 500
"""Streams in one query: players may wait for any number."""

Verdict = Literal["valid", "invalid", "expired"]


@dataclass(frozen=True, slots=True)
class RelayPass:
    """What a token says: a node may play the stream for its own players."""

    stream: int
    by: str
    """The node."""
    via: tuple[str, ...] = ()
    """For which nodes it asks, the first of them last."""


def issue(relay: RelayPass, at: Collection[str], *, now: datetime | None = None) -> str:
    """`at`: the nodes of which any may be asked."""
    expires = (now or timezone.now()) + LIFETIME
    payload = {"s": relay.stream, "b": relay.by, "v": relay.via, "n": sorted(at), "x": int(expires.timestamp())}
    return signing.dumps(payload, salt=SALT)


def read(token: str, *, node: str, now: datetime | None = None) -> tuple[RelayPass | None, Verdict]:
    """Of what is presented to the node `node`. None: it is no token of this kind, or was not meant for this node."""
    try:
        payload: dict[str, Any] = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        return None, "invalid"
    if node not in payload["n"]:
        return None, "invalid"
    relay = RelayPass(payload["s"], payload["b"], tuple(payload["v"]))
    return relay, "valid" if payload["x"] > (now or timezone.now()).timestamp() else "expired"


def check_hops(relay: RelayPass, *, node: str) -> None:
    """Raises Refused: the stream would come back to a node, or pass too many."""
    if node == relay.by or node in relay.via:
        raise Refused("play", "relay_loop", stream=relay.stream, key=None, node=node)
    if len(relay.via) + 1 >= MOST_HOPS:
        raise Refused("play", "relay_too_deep", stream=relay.stream, key=None, most=MOST_HOPS)


# --- Where streams are ---


@dataclass(frozen=True, slots=True)
class Address:
    """How a node is reached. As the row has it; `process`: which one it is, and so on which machine."""

    node: str
    url: str = ""
    local: str = ""
    process: str = ""
    is_shared: bool = False
    """Another node has told the same URL."""

    @property
    def words(self) -> str:
        """By its name alone, if it has not told how it is reached and no other."""
        return f"{self.url} ({self.node})" if self.url and not self.is_shared else self.node


@dataclass(frozen=True, slots=True)
class Place:
    """A stream that is published on another node than the one that asks."""

    stream: int
    path: str
    session: str
    """The publisher's."""
    address: Address


COLUMNS: Final = (
    *("stream", "stream__application__name", "stream__name", "session"),
    *("node__name", "node__url", "node__local", "node__process", "shares_url"),
)


def _held(node: str | Given, now: datetime | Given) -> "QuerySet[Any]":
    """Each with whether another node that runs has told the same URL as its own: that of a balancer, or of workers that
    share a port."""
    others = Node.objects.filter(url=OuterRef("node__url")).exclude(pk=OuterRef("node")).exclude(state=Node.State.DOWN)
    held = Lease.objects.filter(session__isnull=False, expires_at__gt=now).exclude(node__name=node)
    return held.annotate(shares_url=Exists(others))


def _place(row: Sequence[Any]) -> Place:
    stream, app, name, session, node, url, local, process, is_shared = row
    address = Address(str(node), url or "", local or "", process or "", bool(is_shared))
    return Place(stream, f"{app}/{name}", str(session), address)


@Prepared
def _of_stream() -> "QuerySet[Any, Any]":
    """Asked for each play of what may be live."""
    held = _held(Given("node", CharField()), Given("now", DateTimeField()))
    return held.filter(stream=Given("stream", BigIntegerField())).values_list(*COLUMNS)


def place_of(*, stream: int, node: str, now: datetime) -> Place | None:
    """Where the stream is, if that is not `node`. By the clock that leases go by (`database.shared_now`)."""
    found = [_place(row) for row in _of_stream.ask(stream=stream, node=node, now=now)]
    return found[0] if found else None


def places(*, paths: Collection[str], node: str, now: datetime) -> dict[str, Place]:
    """The same of several streams, by their paths; without those that nobody publishes elsewhere."""
    ordered, found = sorted(paths), dict[str, Place]()
    for start in range(0, len(ordered), ASKED_AT_ONCE):
        names = {path.partition("/")[2] for path in ordered[start : start + ASKED_AT_ONCE]}
        for row in _held(node, now).filter(stream__name__in=names).values_list(*COLUMNS):
            if (place := _place(row)).path in paths:
                found[place.path] = place
    return found


def shown_places(
    *, paths: Collection[str], node: str, streams: Iterable[StreamSnapshot], figures: Iterable[NodeFigures]
) -> dict[str, Place]:
    """The same as nodes have told the LiveStore of late, for while the database is away."""
    addresses = {each["node"]: address for each in figures if (address := each.get("address")) is not None}
    urls = [address["url"] for address in addresses.values()]
    found = dict[str, Place]()
    for each in streams:
        path, address = f"{each['app']}/{each['name']}", addresses.get(each["node"])
        if path in paths and each["node"] != node and each["session_id"] and address is not None:
            is_shared = urls.count(address["url"]) > 1
            reached = Address(each["node"], address["url"], address["local"], address["process"], is_shared)
            found[path] = Place(each["id"], path, each["session_id"], reached)
    return found


# --- The ways there ---


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What a node knows of those that it may ask: its own address, and the nodes that it is to ask first."""

    own: Address
    first: tuple[Address, ...] = ()
    sharing: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By URL: the nodes that have told it, where there are several."""


def neighbours(*, node: str) -> Neighbours:
    up = Node.objects.exclude(state=Node.State.DOWN).order_by("name")
    rows = {row.name: row for row in up.only("name", "url", "local", "process")}
    by_url: dict[str, set[str]] = {}
    for row in rows.values():
        if row.url:
            by_url.setdefault(row.url, set()).add(row.name)
    sharing = {url: frozenset(names) for url, names in by_url.items() if len(names) > 1}

    def address(name: str) -> Address:
        row = rows[name]
        return Address(name, row.url, row.local, row.process, row.url in sharing)

    own = address(node) if node in rows else Address(node, process=str(nodes.own_process()))
    first = tuple(address(name) for name in settings.RELAY_VIA if name in rows and name != node)
    return Neighbours(own, first, sharing)


RECENT_S: Final = 1.0
_recent: dict[str, tuple[float, Neighbours]] = {}


def recent_neighbours(*, node: str) -> Neighbours:
    """As of a second ago at most: of a crowd that asks a node for streams, one asks for this."""
    at, found = _recent.get(node, (-math.inf, None))
    if found is None or time.monotonic() - at > RECENT_S:
        found = neighbours(node=node)
        _recent[node] = time.monotonic(), found
    return found


def order(
    place: Place, around: Neighbours, via: tuple[str, ...] = (), *, served: Collection[str] = ()
) -> RelayOrder | None:
    """How the node gets the stream, by token for each way. None: there is no way. `via`: for which nodes it asks;
    `served`: those that have the stream by it, and can't give it."""
    relay = RelayPass(place.stream, around.own.node, via)
    asked = {around.own.node, *via, *served}
    sources: list[RelaySource] = []
    if _is_near(place.address, around.own):
        sources.append(_source(relay, place.address, f"unix:{place.address.local}", {place.address.node}))
    elif len(via) + 1 < MOST_HOPS - 1:
        ways = [each for each in around.first if each.node not in asked and each.node != place.address.node]
        sources += [source for each in ways if (source := _way(relay, each, around)) is not None]
    if (source := _way(relay, place.address, around)) is not None:
        sources.append(source)
    if not sources:
        return None
    return {"labels": {"stream": place.stream, "key": None}, "session_id": place.session, "sources": sources}


def _is_near(address: Address, own: Address) -> bool:
    """Whether it is reached by its socket."""
    theirs, ours = nodes.parse_process(address.process), nodes.parse_process(own.process)
    return bool(address.local and theirs and ours and theirs.place == ours.place)


def _way(relay: RelayPass, address: Address, around: Neighbours) -> RelaySource | None:
    """By its URL. One that is our own, too, leads back here."""
    if not address.url or address.url == around.own.url:
        return None
    sharing = sorted(around.sharing.get(address.url, ()))[:MOST_NAMES]
    return _source(relay, address, address.url, {address.node, *sharing})


def _source(relay: RelayPass, address: Address, url: str, at: Collection[str]) -> RelaySource:
    return {"node": address.node, "url": url, "token": issue(relay, at)}


def no_way(place: Place) -> str:
    """What players are told that wait in vain."""
    return describe("elsewhere", where=place.address.words)


def source(*, stream: int, node: str, now: datetime, via: tuple[str, ...] = ()) -> RelayOrder | None:
    """How the node gets a stream that somebody asks it for; None: nobody publishes it elsewhere. Raises Refused where
    there is no way."""
    place = place_of(stream=stream, node=node, now=now)
    if place is None:
        return None
    found = order(place, recent_neighbours(node=node), via)
    if found is None:
        raise Refused("play", "elsewhere", stream=stream, key=None, where=place.address.words)
    return found
