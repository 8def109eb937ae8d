"""ASGI: the scope of a connection, what its application receives, and what that sends.

Also what an application orders of recordings (with `rtmp.publish.accept`) and is told of each file, and the shared
objects that it keeps. Names of properties are texts as clients send them; values are bytes that mean nothing to the
application: AMF0, in which those of AMF3 stand behind the marker 11."""

from typing import Any, Literal, NotRequired, TypedDict

from ingest.contracts.end_reasons import EndReason
from ingest.contracts.figures import Labels, MediaInfo, Totals
from ingest.contracts.relays import RelayOrder

ObjectAccess = Literal["none", "temporary", "persistent"]
"""Which shared objects a connection may use: `persistent` ones besides temporary ones."""


class ObjectLoad(TypedDict):
    """A client begins to use a persistent object that nobody uses on this node."""

    type: Literal["rtmp.object.load"]
    request_id: int
    name: str


class ObjectFlush(TypedDict):
    """What has changed since the latest one."""

    type: Literal["rtmp.object.flush"]
    name: str
    version: int
    changes: dict[str, bytes | None]  # None: the property was deleted.


class ObjectLoaded(TypedDict):
    type: Literal["rtmp.object.loaded"]
    request_id: int
    version: int  # 0 for one that is new.
    data: dict[str, bytes]
    refused: str | None  # Else the code of a status, such as SharedObject.ObjectCreationFailed.


class RecordOrder(TypedDict):
    """`record` begins a new recording under the stream's name, `append` continues `file`, `all` makes recordings under
    names of their own, one after the other.
    """

    mode: Literal["record", "append", "all"]
    file: str  # To be continued: its path in the folder of recordings. "", or not there: a new one is begun.


class RecordEvent(TypedDict):
    """A file holds media now, or is closed; or recording failed, and is tried again; or the recording is over.

    It goes to the publisher's application and, when that has had its last event, as `node.record` to the node's.
    """

    type: Literal["rtmp.record", "node.record"]
    session_id: str
    stream_id: int
    state: Literal["started", "closed", "failed", "over"]
    mode: Literal["record", "append", "all"]
    name: str  # Under which players ask for it.
    file: str  # Its path in the folder of recordings; "": it failed without one, or one that goes on.
    began: float  # When the file was begun, seconds since the epoch; 0 for one that was there before.
    is_continued: bool
    duration_ms: int  # Of the whole file.
    size_bytes: int
    dropped_frames: int  # Of the session so far, since the disk was behind.
    code: str  # NetStream.Record.*, of a failure.
    description: str


class ClientCapabilities(TypedDict, total=False):
    """What the client said in `connect` that it can do, by the names of the specifications.

    What is no value of their tables counts as not said, and is not there.
    """

    fpad: bool
    objectEncoding: int
    audioCodecs: int
    videoCodecs: int
    videoFunction: int
    fourCcList: list[str]
    videoFourCcInfoMap: dict[str, int]
    audioFourCcInfoMap: dict[str, int]
    capsEx: int


class RtmpScope(TypedDict):
    """One for each RTMP connection, made when `connect` arrives. Every text in it has its secrets masked."""

    type: Literal["rtmp"]
    asgi: dict[str, str]
    scheme: Literal["rtmp", "rtmps", "http", "ws", "hls", "pull"]  # pull: the server has dialled `client` itself.
    client: tuple[str, int]
    server: tuple[str, int]
    app: str
    tc_url: str
    query: dict[str, str]
    flash_ver: str
    connect: dict[str, Any]
    capabilities: ClientCapabilities
    node: str


# --- What it receives ---


class LoginAnswer(TypedDict):
    """What the app's query says where it has `authmod`: unmasked, "" for what it left out."""

    authmod: str
    user: str
    salt: str
    opaque: str
    nonce: str
    challenge: str
    cnonce: str
    nc: str
    response: str
    app: str  # As the client knows the application: for llnw it is part of what is hashed.


class ConnectEvent(TypedDict):
    type: Literal["rtmp.connect"]
    credential: str  # The `key` of the app's query, unmasked, or "".
    login: LoginAnswer | None


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
    transition: Literal["", "switch", "swap"]  # Of play2: what plays goes on until this begins.


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


class SessionEnd(TypedDict):
    type: Literal["rtmp.unpublish", "rtmp.stop"]
    stream_id: int
    session_id: str
    reason: EndReason
    description: str
    totals: Totals


class CallEvent(TypedDict):
    """The client calls a procedure. The connection goes on meanwhile."""

    type: Literal["rtmp.call"]
    request_id: int | None  # None: no answer is wanted.
    stream_id: int
    procedure: str
    command_object: Any
    arguments: list[Any]


class LengthEvent(TypedDict):
    """getStreamLength, as players ask it before they play. The connection goes on meanwhile."""

    type: Literal["rtmp.length"]
    request_id: int
    name: str
    credential: str
    query: dict[str, str]


class InvokeResult(TypedDict):
    """What the client answered to `rtmp.invoke`; without values if it didn't in time, or is gone."""

    type: Literal["rtmp.invoke.result"]
    request_id: int
    succeeded: bool  # _result, not _error.
    values: list[Any]


class DisconnectEvent(TypedDict):
    """The last event of a connection. Without a `connect` before it, its scope has an empty app."""

    type: Literal["rtmp.disconnect"]
    reason: EndReason | Literal["rejected"]  # "rejected": the server closed it after a refused request.
    description: str


# --- What it sends ---


class HealthRule(TypedDict):
    """A health check as a stream's own settings want it. None: as the table of checks says."""

    enabled: bool
    warning: float | None
    bad: float | None
    hold_s: float | None


class PublishLimits(TypedDict):
    max_kbps: int | None
    over_limit: Literal["warn", "close"]  # What follows a bitrate that stays over max_kbps.
    idle_timeout_s: float
    first_media_timeout_s: float
    target_kbps: int | None
    expect_audio: bool
    expect_video: bool
    health: NotRequired[dict[str, HealthRule]]  # By check; those that are left out go by the table.
    publishes: NotRequired[list[float]]  # When the stream's latest publishes began, this one not, on any node.


class Accept(TypedDict):
    type: Literal["rtmp.accept"]
    shared_objects: NotRequired[ObjectAccess]  # "none" if it is left out.


class Reject(TypedDict):
    """The server answers `_error` with the code and closes."""

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
    record: RecordOrder | None


class RequestReject(TypedDict):
    type: Literal["rtmp.publish.reject", "rtmp.play.reject"]
    request_id: int
    code: str
    description: str
    passes: NotRequired[bool]  # Of a play: the same may be accepted in a moment; left out: no.


class RecordedFile(TypedDict):
    recording: int  # The Recording row's id.
    name: str  # As players ask for it, without a prefix.
    file: str  # Its absolute path: FLV.
    duration_ms: int
    disposition: NotRequired[str]  # It is to be downloaded, by HTTP: the response's Content-Disposition.
    mp4_disposition: NotRequired[str]  # The same of MP4.
    growing: NotRequired[bool]  # It is being recorded.
    alone: NotRequired[bool]  # What is live under the name is not for this player.


class PlayAccept(TypedDict):
    """The server chooses: a start of -1 is live, 0 and above the recording, -2 what is live, else the recording."""

    type: Literal["rtmp.play.accept"]
    request_id: int
    path: str
    session_id: str
    labels: Labels
    recording: RecordedFile | None
    start_unit: Literal["ms", "s"]  # Of a start and a duration of 0 and above.
    preview: NotRequired[bool]  # An operator's look at what is live, which is not counted among its players.
    relay: NotRequired[str]  # The player is this other node, for its own players.
    source: NotRequired[RelayOrder]  # It is published on another node: from there it is to be relayed.


class CallResult(TypedDict):
    type: Literal["rtmp.result"]
    request_id: int
    value: Any


class CallError(TypedDict):
    type: Literal["rtmp.error"]
    request_id: int
    code: str
    description: str


class LengthResult(TypedDict):
    type: Literal["rtmp.length.result"]
    request_id: int
    seconds: float  # 0 for what is live, unknown or refused.


class Invoke(TypedDict):
    type: Literal["rtmp.invoke"]
    request_id: int | None  # None: no answer is wanted.
    procedure: str
    arguments: list[Any]


class Challenge(TypedDict):
    """As `rtmp.reject` with NetConnection.Connect.Rejected, but neither the end nor a refusal: the client comes back
    with what `description` asks for."""

    type: Literal["rtmp.challenge"]
    description: str


class Close(TypedDict):
    """End the whole connection: each of its sessions ends with the reason."""

    type: Literal["rtmp.close"]
    reason: EndReason


class StreamStop(TypedDict):
    """End one message stream's publishing or playing; with `session_id` that session, also if it is only to come."""

    type: Literal["rtmp.stream.stop"]
    stream_id: int
    session_id: NotRequired[str]
    reason: EndReason


class StatusSend(TypedDict):
    type: Literal["rtmp.status.send"]
    stream_id: int
    level: Literal["status", "warning", "error"]
    code: str
    description: str
