"""The shapes of the API's answers. Times are ISO 8601 in UTC, to the millisecond; a field that is not known is null."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from ninja import Field, Schema

from ingest.contracts import EndReason, Health, StreamSnapshot, StreamState
from ingest.models import Stream
from ingest.services.playlinks import MOST_HOURS, USUAL_HOURS, PlayLink


class IssueOut(Schema):
    """An open health issue."""

    check: str
    level: Literal["warning", "bad"]
    since: datetime
    actual: str
    expected: str
    title: str
    advice: str
    value: float | None = Field(None, description="What was measured last, in `unit`.")
    limit: float | None = Field(None, description="The level's limit that it passed, in `unit`.")
    unit: str = Field("", description="Such as `s`, `%` or `a minute`; empty for a number without one.")


class TrackOut(Schema):
    kind: Literal["audio", "video"]
    track: int
    codec: str


class SlowPlayerOut(Schema):
    """A player that frames were dropped for."""

    session_id: str
    dropped_video: int
    dropped_audio: int
    sheds: int = Field(description="Times that more waited for it than may.")
    queued_ms: int


class StreamOut(Schema):
    """A stream. From `since` on, metrics are null unless it is live; bitrates and frames a second are 5 s means."""

    id: int
    app: str
    name: str
    enabled: bool = Field(description="Else nobody publishes or plays it.")
    state: StreamState
    health: Health
    players: int
    session_id: str | None = Field(description="The session that publishes now.")
    since: datetime | None = Field(description="When that session began.")
    node: str
    address: str
    encoder: str
    issues: list[IssueOut]
    target_kbps: int | None
    video_kbps: float | None
    audio_kbps: float | None
    wire_kbps: float | None = Field(description="All bytes on the publisher's socket.")
    out_kbps: float | None
    fps: float | None = Field(description="Coded frames by wall time.")
    fps_media: float | None = Field(description="Coded frames by their timestamps.")
    keyframe_interval: float | None = Field(description="Seconds between the last two keyframes.")
    open_gop_age: float | None = Field(description="Seconds since the last keyframe.")
    drift: float | None = Field(description="Milliseconds that media is behind real time.")
    drift_dev: float | None = Field(description="Milliseconds: drift less its mean of 60 s.")
    av_skew: float | None = Field(description="Milliseconds that video is ahead of audio.")
    idle_ms: int | None
    rtt_ms: float | None
    retrans: int | None
    ts_gap: int | None
    ts_regress: int | None
    missing_frames_est: int | None = Field(description="Missing frames, estimated from timestamps.")
    media_faults: int | None = Field(None, description="Messages of the session whose media header makes no sense.")
    timestamp_repairs: int | None = Field(
        None, description="Times in the session that a clock jumped or went back; players get a time that goes on."
    )
    slow_players: int = Field(
        description="Players for which more than 2 s wait, or frames were dropped in the last 30 s."
    )
    dropped_frames: int = Field(description="Frames that slow players did not get in the last minute.")
    thumbnail: int | None = Field(None, description="When the last picture was taken, in ms since the epoch.")
    slowest: list[SlowPlayerOut] = Field(
        [], description="The players that lost most and are still there, five at most."
    )
    video_codec: str | None = None
    video_codec_string: str | None = Field(None, description="For browsers and manifests (RFC 6381).")
    width: int | None = None
    height: int | None = None
    profile: str | None = None
    level: str | None = None
    bit_depth: int | None = None
    frame_rate: float | None = Field(None, description="As the sequence header says.")
    audio_codec: str | None = None
    audio_codec_string: str | None = None
    sample_rate: int | None = None
    channels: int | None = None
    tracks: list[TrackOut] = Field([], description="Besides the main ones, of a stream with several.")

    @classmethod
    def of(cls, row: Stream, snapshot: StreamSnapshot) -> "StreamOut":
        return cls.model_validate(dict[str, Any](snapshot["media"]) | snapshot | {"enabled": row.enabled})


def _total(row: Any, name: str) -> int | None:
    total: int | None = row.total(name)
    return total


class SessionOut(Schema):
    """One publishing or playing, from its acceptance to its end."""

    id: str
    kind: Literal["publish", "play"]
    is_test: bool = Field(description="Published with a key for tests only: no player got it.")
    app: str
    name: str
    address: str
    encoder: str
    node: str | None
    started_at: datetime
    ended_at: datetime | None
    end_reason: str = Field(description=f"Empty while it is open; else one of {', '.join(EndReason.__args__)}.")  # type: ignore[attr-defined]
    end_description: str
    video_codec: str
    audio_codec: str
    width: int | None
    height: int | None
    bytes_in: int | None = Field(
        description="As all totals: 0 while it is open; null where its server died, until its samples tell them."
    )
    bytes_out: int | None
    video_frames: int | None
    audio_frames: int | None
    keyframes: int | None

    @staticmethod
    def resolve_bytes_in(row: Any) -> int | None:
        return _total(row, "bytes_in")

    @staticmethod
    def resolve_bytes_out(row: Any) -> int | None:
        return _total(row, "bytes_out")

    @staticmethod
    def resolve_video_frames(row: Any) -> int | None:
        return _total(row, "video_frames")

    @staticmethod
    def resolve_audio_frames(row: Any) -> int | None:
        return _total(row, "audio_frames")

    @staticmethod
    def resolve_keyframes(row: Any) -> int | None:
        return _total(row, "keyframes")

    @staticmethod
    def resolve_id(row: Any) -> str:
        return str(row.id)

    @staticmethod
    def resolve_node(row: Any) -> str | None:
        return row.node.name if row.node else None


class EventOut(Schema):
    """Something that happened to a session."""

    sequence: int
    at: datetime
    kind: str
    level: str
    code: str
    description: str
    detail: dict[str, Any]


class AttemptOut(Schema):
    """A refused connect, publish or play, and how often it came again. Names that could be keys are masked."""

    at: datetime = Field(description="When the first came.")
    last_at: datetime = Field(alias="latest")
    count: int
    action: Literal["connect", "publish", "play"]
    app: str
    name: str
    address: str
    encoder: str
    node: str
    reason: str
    code: str
    description: str


class KickIn(Schema):
    note: str = Field("", max_length=200, description="Why, for the record.")
    session_id: str = Field("", description="Only if this session publishes; empty: whichever does.")


class KickOut(Schema):
    session_id: str
    detail: str


class TokenIn(Schema):
    hours: float = Field(USUAL_HOURS, gt=0, le=MOST_HOURS, description="How long the token is valid.")


class TokenOut(Schema):
    """What plays the stream until the token expires; whoever has one of the URLs can."""

    token: str
    expires_at: datetime
    play_url: str = Field(description="RTMP.")
    flv_url: str = Field(description="FLV over HTTP; empty where the media listener is off.")
    ws_url: str = Field(description="FLV over WebSocket; empty where the media listener is off.")

    @classmethod
    def of(cls, link: PlayLink) -> "TokenOut":
        return cls(**asdict(link))


class EnabledIn(Schema):
    enabled: bool


class HowToDelete(Schema):
    force: bool = Field(False, description="Although somebody publishes: what goes on is ended within two seconds.")
    dry_run: bool = Field(False, description="Only say what would go with it and what would stay.")


class DeletionOut(Schema):
    """What a deletion would do. Counts stop at 10,000."""

    goes: dict[str, int] = Field(description="What goes with it, by kind.")
    stays: dict[str, int] = Field(description="What stays, by kind.")
    publishers: int = Field(description="How many publish there now: then it takes `force`.")
    players: int


class Problem(Schema):
    detail: str
