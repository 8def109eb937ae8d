"""Media between servers: what a node's application orders of relays, pushes and pulls, and what it is told of them.

Orders are declarations: each names all that is wanted of its kind, so that one that is sent again changes nothing, and
what an order leaves out is ended."""

from typing import Literal, NotRequired, TypedDict

from ingest.contracts.figures import Labels

# --- Relays: a stream that lives on another node of this installation ---


class RelaySource(TypedDict):
    """A node that has the stream, or gets it. Several are tried in order."""

    node: str
    url: str  # rtmp[s]://host[:port], or unix:/path of a node on this machine.
    token: str  # Lets this node play the stream there, for a short while.


class RelayOrder(TypedDict):
    labels: Labels
    session_id: str  # Of the publisher: another one means that the stream has moved.
    sources: list[RelaySource]


class NodeRelay(TypedDict):
    """Where the streams (by path) are that players wait for here, or are relayed here already. None: nobody publishes
    it any more."""

    type: Literal["node.relay"]
    streams: dict[str, RelayOrder | None]


# --- Pushes: a stream that is published on another server as well ---

PushState = Literal["connecting", "live", "retrying", "stopped"]
"""`retrying`: the last try failed, and the next waits for its time. `stopped`: it is not tried again by itself."""

PushFailure = Literal[
    "address",  # Its name can't be looked up, or it leads to a private network, or to this server itself.
    "connect",  # Nobody answers, or the connection is refused.
    "tls",  # The certificate is not valid for the name, or there is no TLS.
    "protocol",  # What answers is no RTMP server, or one that breaks the protocol.
    "refused",  # The server refused connect or publish: most often the key.
    "lost",  # It was live, and the connection broke or the server closed it.
    "slow",  # It took less than it was sent, for too long.
    "limit",  # The node pushes as much as it may.
]


class PushOrder(TypedDict):
    target: int  # The PushTarget row's id.
    url: str  # rtmp[s]://host[:port]/app: the connection's tcUrl.
    name: str  # What is published there, a secret: most often a stream key.
    private_allowed: bool  # Addresses of private networks and of this machine.


class NodePush(TypedDict):
    """To where the stream of a publisher here is pushed: all of its targets."""

    type: Literal["node.push"]
    session_id: str
    targets: list[PushOrder]


class PushFigures(TypedDict):
    """Of one push in the last second; in `node.tick`, for as long as it is ordered."""

    target: int
    session_id: str
    stream: int
    state: PushState
    since: float  # When it began to be in this state, seconds since the epoch.
    kbps: float
    sent_bytes: int  # Since the order.
    dropped_frames: int  # The same: the target was too slow for them.
    behind_ms: int  # How much waits for the target.
    rtt_ms: float | None
    tries: int  # Since it was last live.
    retry_at: float | None  # Of `retrying`: when, seconds since the epoch.


class PushChange(TypedDict):
    """A push has changed its state. To the node's application, as it happens."""

    type: Literal["node.pushed"]
    target: int
    session_id: str
    stream: int
    state: PushState
    failure: NotRequired[PushFailure]  # Of `retrying` and `stopped`: why.
    code: str  # The target's own status code, such as NetStream.Publish.BadName; "": it gave none.
    description: str  # What it said, or what happened, as a sentence without secrets.


# --- Pulls: a stream that is fetched from another server, and published here ---


class PullOrder(TypedDict):
    """The session that results is a publisher's as any other: its application is asked by `rtmp.publish` with
    `credential`, as an encoder would be."""

    source: int  # The PullSource row's id.
    path: str  # app/name: where it is published here.
    url: str  # rtmp[s]://host[:port]/app: the connection's tcUrl, with credentials if it has any.
    name: str  # What is played there.
    credential: str  # Permits to publish it here.
    private_allowed: bool


class NodePull(TypedDict):
    """All that this node is to pull."""

    type: Literal["node.pull"]
    sources: list[PullOrder]


class PullFigures(TypedDict):
    """One that is ordered, as of the last second."""

    source: int
    state: PushState
    since: float
    tries: int
    retry_at: float | None
    failure: PushFailure | None
    code: str
    description: str
