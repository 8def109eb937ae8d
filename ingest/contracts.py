"""The payloads that cross a border: server to application (ASGI), node to dashboard (snapshots), node to lake (rows).

Plain data only: this module imports nothing of the project, so that the protocol server, the Django application and the
Spark jobs (by a test that compares schemas) can all hold to it. `docs/rtmp-asgi.md` explains each ASGI message.

Units: `_ms` milliseconds, `_us` microseconds since the Unix epoch (UTC), `_kbps` kilobits a second, `_bytes` bytes;
`at` is seconds since the Unix epoch as a float.
"""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

# --- Vocabulary ---

EndReason = Literal[
    "client_unpublish",  # The client said so: FCUnpublish, deleteStream, closeStream.
    "tcp_reset",  # The peer closed or lost the connection without saying so.
    "idle_timeout",  # A deadline passed: no media, no bytes, or a write that did not progress.
    "kicked",  # By an operator.
    "key_revoked",  # The key was revoked, disabled or expired, or its stream or application disabled.
    "replaced",  # Another publisher took the stream over.
    "protocol_error",  # The peer broke the protocol or went over a limit of it.
    "over_limit",  # The publisher stayed over its key's bitrate limit.
    "node_shutdown",  # The node stopped in order.
    "node_lost",  # The node died; found by its successor or by the sweep of expired leases.
    "lease_lost",  # The node could not keep the publisher's lease.
]
END_REASONS: tuple[EndReason, ...] = EndReason.__args__  # type: ignore[attr-defined]

StreamState = Literal["live", "waiting", "offline"]
Health = Literal["good", "warning", "bad", "none"]


# --- ASGI scopes ---


class RtmpScope(TypedDict):
    """One for each RTMP connection, made when `connect` arrives. Every text in it has its secrets masked."""

    type: Literal["rtmp"]
    asgi: dict[str, str]
    scheme: Literal["rtmp", "rtmps"]
    client: tuple[str, int]
    server: tuple[str, int]
    app: str
    tc_url: str
    query: dict[str, str]
    flash_ver: str
    connect: dict[str, Any]
    capabilities: dict[str, Any]
    node: str


class NodeScope(TypedDict):
    """One for each listener."""

    type: Literal["rtmp.node"]
    asgi: dict[str, str]
    node: str
    addresses: list[tuple[str, int]]
    tls_addresses: list[tuple[str, int]]


# --- ASGI: what a connection's application receives ---


class ConnectEvent(TypedDict):
    type: Literal["rtmp.connect"]
    credential: str  # The `key` of the app's query, unmasked, or "".


class PublishEvent(TypedDict):
    """`name` is the public name, or the masked credential when the client published under its key."""

    type: Literal["rtmp.publish"]
    request_id: int
    stream_id: int
    name: str
    credential: str
    credential_is_name: bool  # The credential was the publishing name: it may be a key, or a name under an open policy.
    query: dict[str, str]
    publish_type: Literal["live", "record", "append"]


class PlayEvent(TypedDict):
    type: Literal["rtmp.play"]
    request_id: int
    stream_id: int
    name: str
    credential: str
    query: dict[str, str]
    start: float
    duration: float
    reset: bool


class StatusEventMessage(TypedDict):
    """An onStatus (or a connect's answer) that was sent to the client."""

    type: Literal["rtmp.status"]
    stream_id: int
    level: str
    code: str
    description: str


class MetadataEvent(TypedDict):
    """onMetaData as the publisher claims it, and what the sequence headers say; sent when either changes."""

    type: Literal["rtmp.metadata"]
    stream_id: int
    metadata: dict[str, Any]
    media: "MediaInfo"


class Totals(TypedDict):
    bytes_in: int
    bytes_out: int
    video_frames: int
    audio_frames: int
    keyframes: int
    dropped_frames: int
    duration_ms: int


class UnpublishEvent(TypedDict):
    type: Literal["rtmp.unpublish"]
    stream_id: int
    session_id: str
    reason: EndReason
    description: str
    totals: Totals


class StopEvent(TypedDict):
    type: Literal["rtmp.stop"]
    stream_id: int
    session_id: str
    reason: EndReason
    description: str
    totals: Totals


class DisconnectEvent(TypedDict):
    """The last event of a connection. Without a `connect` before it, its scope has an empty app."""

    type: Literal["rtmp.disconnect"]
    reason: EndReason | Literal["rejected"]  # "rejected": the server closed it after a refused request.
    description: str


# --- ASGI: what a connection's application sends ---


class MediaInfo(TypedDict, total=False):
    """Measured from the sequence headers; absent while unknown."""

    video_codec: str
    audio_codec: str
    width: int
    height: int
    profile: str
    sample_rate: int
    channels: int


class Labels(TypedDict):
    """Opaque to the server; copied into each sample and snapshot of the stream."""

    stream: int  # The Stream row's id.
    key: int | None  # The StreamKey row's id.


class PublishLimits(TypedDict):
    max_kbps: int | None
    over_limit: Literal["warn", "close"]  # What follows a bitrate that stays over max_kbps.
    idle_timeout_s: float
    target_kbps: int | None
    expect_audio: bool
    expect_video: bool


class Accept(TypedDict):
    type: Literal["rtmp.accept"]


class Reject(TypedDict):
    """The server answers `_error` with the code and closes. Also `rtmp.challenge`, for encoder log-in."""

    type: Literal["rtmp.reject"]
    code: str
    description: str


class PublishAccept(TypedDict):
    type: Literal["rtmp.publish.accept"]
    request_id: int
    path: str  # "app/name": the live stream's public path.
    session_id: str
    labels: Labels
    limits: PublishLimits
    record: bool


class PublishReject(TypedDict):
    type: Literal["rtmp.publish.reject"]
    request_id: int
    code: str
    description: str


class PlayAccept(TypedDict):
    type: Literal["rtmp.play.accept"]
    request_id: int
    path: str
    session_id: str
    labels: Labels


class PlayReject(TypedDict):
    type: Literal["rtmp.play.reject"]
    request_id: int
    code: str
    description: str


class Close(TypedDict):
    """End the whole connection: each of its sessions ends with the reason."""

    type: Literal["rtmp.close"]
    reason: EndReason


class StreamStop(TypedDict):
    """End one message stream's publishing or playing."""

    type: Literal["rtmp.stream.stop"]
    stream_id: int
    reason: EndReason


class StatusSend(TypedDict):
    type: Literal["rtmp.status.send"]
    stream_id: int
    level: Literal["status", "warning", "error"]
    code: str
    description: str


# --- ASGI: the node ---


@dataclass(frozen=True, slots=True)
class Sample:
    """One second of one publishing session. (session, sequence) identifies it; the lake keeps it as it is.

    Rates are over `elapsed_ms`; `fps`, `fps_media` over the last 5 s. None: not measured (yet).
    """

    session: str
    sequence: int
    at_us: int
    elapsed_ms: int
    node: str
    app: str
    name: str
    stream: int
    key: int | None
    video_bytes: int
    audio_bytes: int
    data_bytes: int
    wire_bytes: int
    video_kbps: float
    audio_kbps: float
    wire_kbps: float
    video_frames: int
    audio_frames: int
    keyframes: int
    fps: float | None
    fps_media: float | None
    keyframe_interval: float | None  # Seconds of DTS between the last two keyframes.
    keyframe_interval_max: float | None  # The largest of the last 5.
    open_gop_age: float | None  # Seconds of wall time since the last keyframe, or since the first video.
    drift: float | None  # ms: (wall - wall0) - (dts - dts0).
    drift_dev: float | None  # ms: drift less its 60 s mean.
    av_skew: float | None  # ms: latest video DTS - latest audio DTS.
    ts_gap: int
    ts_regress: int
    missing_frames_est: int
    idle_ms: int
    rtt_ms: float | None
    retrans: int | None
    players: int
    out_bytes: int
    out_kbps: float
    slow_players: int
    dropped_frames: int
    health: Health


class Issue(TypedDict):
    """An open health issue."""

    check: str
    level: Literal["warning", "bad"]
    since: float
    actual: str
    expected: str
    title: str
    advice: str


class StreamSnapshot(TypedDict):
    """What a wall's card shows, and the API's stream: bitrates and fps are 5 s means. Metrics are null unless live."""

    id: int  # The Stream row's id.
    app: str
    name: str
    state: StreamState
    health: Health
    issues: list[Issue]
    players: int
    session_id: str | None
    node: str
    since: float | None  # When the session began, seconds since the epoch.
    address: str
    encoder: str
    target_kbps: int | None
    video_kbps: float | None
    audio_kbps: float | None
    wire_kbps: float | None
    out_kbps: float | None
    fps: float | None
    fps_media: float | None
    keyframe_interval: float | None
    open_gop_age: float | None
    drift: float | None
    drift_dev: float | None
    av_skew: float | None
    idle_ms: int | None
    rtt_ms: float | None
    retrans: int | None
    ts_gap: int | None
    ts_regress: int | None
    missing_frames_est: int | None
    slow_players: int
    dropped_frames: int
    media: MediaInfo
    metadata: dict[str, Any]


class NodeFigures(TypedDict):
    node: str
    at: float
    streams: int
    publishers: int
    players: int
    connections: int
    refused_connections: int  # Since the start: over the limits of connections.
    in_kbps: float
    out_kbps: float
    loop_delay_ms: float  # How late the tick's own timer fired, the largest of the second.
    cpu_percent: float | None
    disk_free_percent: float | None
    records: NotRequired["NodeRecords"]  # Added by the node's application.


class NodeRecords(TypedDict):
    """How the node's writing goes: history to the database, telemetry to the lake."""

    history_waiting: int
    history_dropped: int  # Since the process began.
    telemetry_dropped: int  # The same.
    telemetry_failing_since: float | None  # Seconds since the epoch; None: it is written.


class NodeTick(TypedDict):
    type: Literal["node.tick"]
    samples: list[Sample]
    streams: list[StreamSnapshot]
    players: list["PlayerSample"]
    figures: NodeFigures
    refused: list["RefusedConnections"]


class NodeStarted(TypedDict):
    type: Literal["node.started"]


class NodeDraining(TypedDict):
    type: Literal["node.draining"]


class NodeResumed(TypedDict):
    """The node listens again."""

    type: Literal["node.resumed"]


class NodeStopped(TypedDict):
    type: Literal["node.stopped"]


class NodeDrop(TypedDict):
    type: Literal["node.drop"]
    session_id: str
    reason: EndReason


class NodeDrain(TypedDict):
    type: Literal["node.drain"]
    grace_s: float  # Until what is still live is ended.


class NodeResume(TypedDict):
    type: Literal["node.resume"]


class RefusedConnections(TypedDict):
    """New connections of one address that a limit left no room for, since the last tick. "": of further addresses."""

    address: str
    count: int


class PlayerSample(TypedDict):
    """One play session. Bytes and drops are totals so far, so that one that is lost costs nothing."""

    session_id: str
    path: str
    out_bytes: int
    dropped_frames: int
    queued_ms: int


# --- The lake ---


@dataclass(frozen=True, slots=True)
class EventRecord:
    """What happened to a session; or a refused attempt (session ""). (session, sequence) identifies a session's."""

    session: str
    sequence: int
    at_us: int
    node: str
    app: str
    name: str
    stream: int | None
    key: int | None
    kind: str  # session.started, session.ended, onstatus, health.opened, health.cleared, attempt, ...
    session_kind: str  # publish, play or "".
    level: str
    code: str
    reason: str
    encoder: str
    address_hash: str  # A salted hash: enough to count distinct players, not to name them.
    bytes_in: int
    bytes_out: int
    detail: str  # JSON.
