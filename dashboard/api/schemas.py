"""The shapes of the API's answers. Times are ISO 8601 in UTC, to the millisecond; a field that is not known is null."""

from datetime import datetime
from typing import Any, Literal

from ninja import Field, Schema

from ingest.contracts import EndReason, Health, StreamSnapshot, StreamState


class IssueOut(Schema):
    """An open health issue."""

    check: str
    level: Literal["warning", "bad"]
    since: datetime
    actual: str
    expected: str
    title: str
    advice: str


class StreamOut(Schema):
    """A stream. From `since` on, metrics are null unless it is live; bitrates and frames a second are 5 s means."""

    id: int
    app: str
    name: str
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
    slow_players: int
    dropped_frames: int = Field(description="Frames that slow players did not get.")
    video_codec: str | None
    audio_codec: str | None
    width: int | None
    height: int | None

    @classmethod
    def of(cls, snapshot: StreamSnapshot) -> "StreamOut":
        fields: dict[str, Any] = dict.fromkeys(("video_codec", "audio_codec", "width", "height"))
        return cls.model_validate(fields | snapshot["media"] | snapshot)


class SessionOut(Schema):
    """One publishing or playing, from its acceptance to its end."""

    id: str
    kind: Literal["publish", "play"]
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
    bytes_in: int
    bytes_out: int
    video_frames: int
    audio_frames: int
    keyframes: int

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


class Problem(Schema):
    detail: str
