"""ASGI: the scope of a listener, what its application receives, and what that sends."""

from typing import Literal, NotRequired, TypedDict

from ingest.contracts.connection import HealthRule
from ingest.contracts.end_reasons import EndReason
from ingest.contracts.figures import NodeFigures, PlayerSample, RefusedConnections, Sample, StreamSnapshot
from ingest.contracts.relays import PullFigures, PushFigures


class NodeScope(TypedDict):
    """One for each listener."""

    type: Literal["rtmp.node"]
    asgi: dict[str, str]
    node: str
    addresses: list[tuple[str, int]]
    tls_addresses: list[tuple[str, int]]
    media_addresses: list[tuple[str, int]]
    hls_addresses: list[tuple[str, int]]  # Of a packager.
    local: str  # The Unix socket for nodes of the same machine; "": there is none.


# --- What it receives ---


class NodeTick(TypedDict):
    type: Literal["node.tick"]
    samples: list[Sample]
    streams: list[StreamSnapshot]
    players: list[PlayerSample]
    figures: NodeFigures
    refused: list[RefusedConnections]
    pushes: NotRequired[list[PushFigures]]  # Those that are ordered.
    pulls: NotRequired[list[PullFigures]]  # The same.


class NodeChange(TypedDict):
    """Its listeners are open; it takes nothing new; it takes connections again; or it has stopped in order."""

    type: Literal["node.started", "node.draining", "node.resumed", "node.stopped"]


class NodeThumbnail(TypedDict):
    """A picture of a live stream's last keyframe."""

    type: Literal["node.thumbnail"]
    path: str
    session_id: str  # Of the publisher.
    at_ms: int  # When it was taken, since the epoch; grows with each of a stream.
    image: bytes  # WebP.


# --- What it sends ---


class NodeDrop(TypedDict):
    type: Literal["node.drop"]
    session_id: str
    reason: EndReason


class NodeDrain(TypedDict):
    type: Literal["node.drain"]
    grace_s: float  # Until what is still live is ended.


class NodeRules(TypedDict):
    """The stream's own rules of health have changed."""

    type: Literal["node.rules"]
    session_id: str
    health: dict[str, HealthRule]  # As in the publish answer.


class NodeElsewhere(TypedDict):
    """These streams are published on other nodes: who waits for one here is told so, and where."""

    type: Literal["node.elsewhere"]
    streams: dict[str, str]  # By path, what players are told.


class NodeResume(TypedDict):
    type: Literal["node.resume"]


class NodeWatch(TypedDict):
    """Thumbnails of these streams are looked at, from now on until the next such message: they are made more often."""

    type: Literal["node.watch"]
    paths: list[str]
