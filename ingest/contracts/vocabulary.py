"""The words and groups of figures that several of the payloads use."""

from typing import Literal, TypedDict

EndReason = Literal[
    "client_unpublish",  # The client said so: FCUnpublish, deleteStream, closeStream.
    "completed",  # All that was to be played has been sent.
    "tcp_reset",  # The peer closed or lost the connection without saying so.
    "idle_timeout",  # A deadline passed: no media, no bytes, or a write that did not progress.
    "kicked",  # By an operator.
    "key_revoked",  # The key was revoked, disabled or expired, or its stream or application disabled.
    "replaced",  # Another publisher took the stream over.
    "elsewhere",  # The stream that was played is published on another node.
    "protocol_error",  # The peer broke the protocol or went over a limit of it.
    "too_slow",  # The player stayed over the bounds of what may wait for it, or took nothing.
    "test_over",  # What a test-only key publishes has gone on for as long as it may.
    "over_limit",  # The publisher stayed over its key's bitrate limit.
    "unsupported_codec",  # The player doesn't take the codec of the stream.
    "unreadable",  # The recording that was played is missing or broken, or can't be read.
    "node_shutdown",  # The node stopped in order.
    "node_lost",  # The node died; found by its successor or by the sweep of expired leases.
    "lease_lost",  # The node could not keep the publisher's lease.
]
END_REASONS: tuple[EndReason, ...] = EndReason.__args__  # type: ignore[attr-defined]

SERVER_ENDS: tuple[EndReason, ...] = ("node_shutdown", "node_lost", "lease_lost")
"""Ends that are the server's doing: neither the client nor its network has any part in them."""

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
