"""ASGI: the scope of a connection, what its application receives, and what that sends."""

from typing import Any, Literal, TypedDict

from ingest.contracts.vocabulary import EndReason, Labels, MediaInfo, Totals


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


# --- What it receives ---


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
    media: MediaInfo


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


# --- What it sends ---


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
