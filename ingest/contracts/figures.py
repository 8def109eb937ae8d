"""What is measured and told of streams, sessions and nodes: each second to pages and lake, and events to the lake; and
the words that several of the payloads use."""

from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, TypedDict

StreamState = Literal["live", "waiting", "offline"]
Health = Literal["good", "warning", "bad", "none"]


class TrackInfo(TypedDict):
    """A track besides the main one, of a stream with several (Enhanced RTMP, multitrack)."""

    kind: Literal["audio", "video"]
    track: int  # Its id, 0 to 255.
    codec: str


class MediaInfo(TypedDict, total=False):
    """Measured from the sequence headers; absent while unknown."""

    video_codec: str
    video_codec_string: str  # For browsers and manifests (RFC 6381): "avc1.64001f".
    width: int
    height: int
    profile: str
    level: str
    bit_depth: int
    frame_rate: float  # As the header says.
    audio_codec: str
    audio_codec_string: str
    sample_rate: int
    channels: int
    tracks: list[TrackInfo]


class Labels(TypedDict):
    """Opaque to the server; copied into each sample and snapshot of the stream."""

    stream: int  # The Stream row's id; 0: none, where a recording is played that belongs to no stream.
    key: int | None  # The StreamKey row's id.


class Totals(TypedDict):
    bytes_in: int
    bytes_out: int
    video_frames: int
    audio_frames: int
    keyframes: int
    dropped_frames: int
    duration_ms: int
    # What a viewer's page told, by HLS; None, or left out: nothing. As it comes, it is the browser's word: see
    # ingest.viewing. Milliseconds, and how often.
    join_ms: NotRequired[int | None]  # From when it was to play to the first picture.
    stalls: NotRequired[int | None]  # Since then: times that it waited for media, against the viewer's will,
    stalled_ms: NotRequired[int | None]  # and how long;
    watched_ms: NotRequired[int | None]  # how long it played, without pauses and without that.


NO_TOTALS: Final[Totals] = {
    "bytes_in": 0,
    "bytes_out": 0,
    "video_frames": 0,
    "audio_frames": 0,
    "keyframes": 0,
    "dropped_frames": 0,
    "duration_ms": 0,
}


@dataclass(slots=True)
class Sample:
    """One second of one publishing session. (session, sequence) identifies it; the lake keeps it as it is.

    Rates are over `elapsed_ms`; `fps`, `fps_media` over the last 5 s. None: not measured (yet). Nobody changes one; it
    is not frozen, as each would cost six times as much to make.
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
    drift: float | None  # ms that media is behind live: behind the best moment since the session began.
    drift_dev: float | None  # ms: how far it is behind its mean of 60 s.
    av_skew: float | None  # ms: latest video DTS - latest audio DTS.
    ts_gap: int
    ts_regress: int
    missing_frames_est: int
    media_faults: int  # Audio and video messages whose header makes no sense, or is cut off.
    idle_ms: int
    rtt_ms: float | None
    retrans: int | None
    players: int
    viewers: int  # Of the players, those by HLS.
    out_bytes: int
    out_kbps: float
    slow_players: int
    dropped_frames: int
    health: Health
    encoder: str | None  # As it names itself; None in files of earlier versions.
    target_kbps: int | None  # The video's, as the stream's settings say, else its metadata.


class Issue(TypedDict):
    check: str  # One of ingest.contracts.figures.STREAM_CHECKS.
    level: Literal["warning", "bad"]
    since: float
    actual: str
    expected: str
    title: str
    advice: str
    value: float  # What was measured last,
    limit: float  # the level's limit that it passed,
    unit: str  # and the unit of both, such as "s", "%" or "a minute"; "" for a number without one.


class SlowPlayer(TypedDict):
    """A player that frames were dropped for. Totals of its session."""

    session_id: str
    dropped_video: int
    dropped_audio: int
    sheds: int  # Times that a bound of its queue was passed.
    queued_ms: int


class MediaCounters(TypedDict):
    """Of a stream since the node knows it, or of all of a node's streams since its start: they only grow."""

    received_bytes: int  # Of audio, video and data, as publishers send them.
    sent_bytes: int  # To players, chunk headers included.
    video_frames: int  # Of main tracks, as the next.
    audio_frames: int
    dropped_frames: int  # That players were too slow for.


class RelayedTo(TypedDict):
    """A node that fetches a stream from this one, for its own players."""

    node: str
    players: int  # That it has told of: its own, and those of nodes that fetch it from there.


class PushView(TypedDict):
    """A push of the stream to another server, as pages show it. Texts are masked."""

    target: int  # The PushTarget row's id.
    state: str  # A PushState of ingest.contracts.relays, as `failure` is a PushFailure.
    since: float
    kbps: float
    sent_bytes: int
    dropped_frames: int
    behind_ms: int
    rtt_ms: float | None
    tries: int
    retry_at: float | None
    failure: str  # "": it does not fail, or that is not known.
    code: str  # The other server's.
    description: str
    words: str  # What is wrong, and
    advice: str  # what to do.


class PushCounts(TypedDict):
    live: int
    failing: int  # They wait to try again, or are tried no more.


class StreamSnapshot(TypedDict):
    """What a wall's card shows, and the API's stream: bitrates and fps are 5 s means. Metrics are null unless live."""

    id: int  # The Stream row's id.
    app: str
    name: str
    state: StreamState
    health: Health  # None, too, while it is not judged yet.
    checking_s: NotRequired[int | None]  # Seconds until it is; null: it is judged. Earlier versions tell none.
    issues: list[Issue]
    players: int
    viewers: NotRequired[int]  # Of the players, those by HLS; earlier versions tell none.
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
    media_faults: int | None  # Since the session began, as one is worth a look.
    timestamp_repairs: int | None  # The same: clocks that were set, and messages held so that players' time goes on.
    slow_players: int  # Over 1.5 s behind and not catching up, or frames were dropped for them in the last 30 s.
    dropped_frames: int  # For players that are too slow, in the last minute.
    slowest: list[SlowPlayer]  # Those that lost most or are furthest behind, and are still there; five at most.
    counters: NotRequired[MediaCounters]  # Earlier versions tell none.
    relayed_to: NotRequired[list[RelayedTo]]  # The same.
    thumbnail: NotRequired[int | None]  # Added by the node's application: when the last picture was taken, in ms.
    pushes: NotRequired[list[PushView] | None]  # Added as well, where there are any, as the next.
    pushing: NotRequired[PushCounts | None]
    media: MediaInfo
    metadata: dict[str, Any]


class PlayerSample(TypedDict):
    """One play session. Bytes and drops are totals so far, so that one that is lost costs nothing."""

    session_id: str
    path: str
    out_bytes: int
    dropped_frames: int
    queued_ms: int
    dropped_video: NotRequired[int]  # Of live streams: what of the dropped frames was pictures,
    dropped_audio: NotRequired[int]  # what was sound,
    sheds: NotRequired[int]  # and in how many times it was dropped.


class RefusedConnections(TypedDict):
    """New connections of one address that a limit left no room for, since the last tick. "": of further addresses."""

    address: str
    count: int


class NodeRecords(TypedDict):
    """How the node's writing goes: history to the database, telemetry to the lake."""

    history_waiting: int
    history_dropped: int  # Since the process began.
    telemetry_dropped: int  # The same.
    telemetry_failing_since: float | None  # Seconds since the epoch; None: it is written.


class NodeCounts(TypedDict):
    """What the node's application has counted since its process began. The words are our own, so they are few."""

    sessions_started: dict[str, int]  # By kind: publish, play.
    sessions_ended: dict[str, dict[str, int]]  # By kind and reason; those of dead nodes count where they are found.
    attempts_refused: dict[str, int]  # By reason.
    recordings: dict[str, int]  # By what became of a file: started, closed, failed.


class ProcessFigures(TypedDict):
    """The node's own process. None: this system doesn't tell."""

    started_at: float  # Seconds since the epoch.
    cpu_s: float
    resident_bytes: int | None
    open_files: int | None
    most_files: int | None  # RLIMIT_NOFILE; None, too: there is no limit.


class LoopDelays(TypedDict):
    """How late the event loop's timer fired, four times a second, since the node's start."""

    bounds_s: list[float]
    counts: list[int]  # Of the delays up to each bound and over the one before; the last, those over all of them.
    sum_s: float


class RefusedGroup(TypedDict):
    """Refusals of one reason, address and stream that came one soon after the other. Texts are masked and bounded."""

    reason: str  # "": of several, beyond what is told apart.
    words: str  # Of the reason, such as "Wrong key".
    app: str
    name: str
    address: str
    count: int
    since: float  # The first,
    at: float  # and the last of them, in seconds since the epoch.


class RelayFigures(TypedDict):
    """One stream that a node relays, as of the last second."""

    stream: int  # The Stream row's id.
    path: str
    source: str  # The node that it comes from; "": none gives any now.
    state: Literal["connecting", "live", "failing"]
    since: float  # When it began to be in this state, seconds since the epoch.
    players: int  # Of this node, and of those that relay it from here.
    here: int  # Of this node alone.
    in_kbps: float
    out_kbps: float
    relayed_to: list[RelayedTo]
    failure: str  # Why it fails, as a sentence; "": it doesn't.


class NodeAddress(TypedDict):
    """As the Node row has it."""

    url: str
    local: str
    process: str


class NodeFigures(TypedDict):
    node: str
    at: float
    streams: int
    publishers: int
    players: int
    viewers: NotRequired[int]  # Of the players, those by HLS; earlier versions tell none.
    connections: int
    refused_connections: int  # Since the start: over the limits of connections.
    in_kbps: float
    out_kbps: float
    loop_delay_ms: float  # How late the tick's own timer fired, the largest of the second.
    cpu_percent: float | None
    disk_free_percent: float | None
    disk_hangs_s: NotRequired[float]  # For how long the data folder's disk has owed an answer.
    caches_bytes: NotRequired[int]  # Kept for late players of all streams,
    caches_dropped: NotRequired[int]  # how many groups of pictures gave way for others in the last minute,
    caches_dropped_in_all: NotRequired[int]  # and since the start.
    issues: NotRequired[list[Issue]]  # Of the node: ingest.contracts.figures.NODE_CHECKS; earlier versions tell none.
    draining: NotRequired[bool]  # It takes nothing new.
    recordings_failing: NotRequired[int]  # Publishers that are to be recorded, and are not just now.
    counters: NotRequired[MediaCounters]  # Those of recordings that were played are in `sent_bytes`, too.
    process: NotRequired[ProcessFigures]
    loop_delays: NotRequired[LoopDelays]
    records: NotRequired[NodeRecords]  # Added by the node's application, as the next.
    counts: NotRequired[NodeCounts]
    refused: NotRequired[list[RefusedGroup]]  # Encoders that were turned away lately.
    address: NotRequired[NodeAddress]
    relays: NotRequired[list[RelayFigures]]  # Streams that it fetches from other nodes,
    relaying: NotRequired[int]  # and how many of them it has now.


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
    protocol: str | None = None  # Of a session: as Session.protocol. None, as the next, in files of earlier versions.
    join_ms: int | None = None  # Of the end of a viewer by HLS: see Totals. None: its page told nothing.
    stalls: int | None = None
    stalled_ms: int | None = None
    watched_ms: int | None = None


STREAM_CHECKS: Final = {
    "starving": "Nothing received",
    "frozen_picture": "Picture frozen",
    "bitrate_low": "Low bitrate",
    "drift": "Falling behind",
    "bitrate_high": "High bitrate",
    "no_keyframes": "No keyframes",
    "gop_long": "Keyframe interval too long",
    "gop_short": "Keyframe interval too short",
    "fps_low": "Low frame rate",
    "ts_discontinuity": "Timestamps jump",
    "bitrate_unstable": "Unstable bitrate and frame rate",
    "faster_than_realtime": "Faster than real time",
    "no_audio": "No audio",
    "no_video": "No video",
    "silent_audio": "Audio silent",
    "av_skew": "Audio and video out of sync",
    "rtt_high": "High RTT",
    "flapping": "Flapping (reconnects)",
    "recording_failed": "Recording fails",
    "slow_players": "Slow players",
}
"""What a stream is checked for, and what an override may name."""

NODE_CHECKS: Final = {
    "node_cpu": "CPU high",
    "disk_free": "Low disk space",
    "node_files": "Too many open files",
    "disk_hangs": "Disk does not answer",
    "caches_full": "Player cache full",
    "relays_failing": "Streams of other nodes out of reach",
}

CHECK_NAMES: Final = STREAM_CHECKS | NODE_CHECKS
