"""What the API's operations share: who asks and may they, lists, and the shapes of answers.

`auth=allow(Ability.KICK)` on an operation is its permission, by a bearer token or a logged-in session, against the same
table as pages and WebSockets. Nobody known: 401. Known but not allowed: 403. Lists are `{"items": [...], "count": N}`
with `limit`, `offset` and filters. Times are ISO 8601 in UTC, to the millisecond; a field that is not known is null."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from ninja import Field, Schema
from ninja.errors import AuthenticationError, HttpError
from ninja.security import APIKeyCookie, HttpBearer
from ninja.security.base import AuthBase
from pydantic import AfterValidator, model_validator

from dashboard import access
from dashboard.access import Caller
from ingest.contracts import EndReason, Health, StreamSnapshot, StreamState
from ingest.models import Stream
from ingest.services.media_urls import MOST_HOURS, USUAL_HOURS, PlayLink
from ingest.services.roles import Ability, role_abilities, user_abilities


def caller_of(request: HttpRequest) -> Caller:
    """The caller that `allow` found for this request."""
    found = getattr(request, "auth", None)
    assert isinstance(found, Caller)  # noqa: S101  # Every operation has an auth.
    return found


class BearerToken(HttpBearer):
    """`Authorization: Bearer TOKEN`. A wrong token is refused even if the browser's session would do."""

    def __init__(self, ability: Ability) -> None:
        super().__init__()
        self.ability = ability

    def __call__(self, request: HttpRequest) -> Any:
        """Ninja's own logs, under RTMPWEB_DEBUG, what a header that is no bearer's says: it may be a password."""
        scheme = request.headers.get(self.header, "").partition(" ")[0]
        return super().__call__(request) if scheme.lower() == self.openapi_scheme else None

    def authenticate(self, request: HttpRequest, token: str) -> Caller:
        found = access.find_token(secret=token)
        if found is None:
            raise AuthenticationError(message="This token is unknown, expired or revoked.")
        return _allowed(Caller(f"token {found.name}", role_abilities(found.role), None), self.ability)


class LoggedIn(APIKeyCookie):
    """The dashboard's own session. What changes something needs the CSRF token too."""

    param_name = "sessionid"

    def __init__(self, ability: Ability) -> None:
        super().__init__(csrf=True)
        self.ability = ability

    def authenticate(self, request: HttpRequest, key: str | None) -> Caller | None:
        user = request.user
        if not isinstance(user, User):
            return None
        return _allowed(Caller(user.get_username(), user_abilities(user), user), self.ability)


def _allowed(caller: Caller, ability: Ability) -> Caller:
    if ability not in caller.abilities:
        raise HttpError(403, f"Not allowed: this needs the ability {ability.value!r}.")
    return caller


def allow(ability: Ability) -> list[AuthBase]:
    """The `auth` of an operation that needs the ability."""
    return [BearerToken(ability), LoggedIn(ability)]


Item = TypeVar("Item")
Row = TypeVar("Row", bound=Model)

LIMIT = 100
MAX_LIMIT = 1000
MAX_OFFSET = 2**31


def _in_utc(value: datetime) -> datetime:
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise ValueError("In UTC, that is before the year 1 or after the year 9999.") from None


def _no_nul(value: str) -> str:
    """PostgreSQL refuses it."""
    if "\0" in value:
        raise ValueError("A NUL character is in no name.")
    return value


When = Annotated[datetime, AfterValidator(_in_utc)]
"""A time of a query: ISO 8601, in UTC where it names no zone."""

Text = Annotated[str, Field(max_length=255), AfterValidator(_no_nul)]


class Paging(Schema):
    """`limit` rows from `offset` on."""

    limit: int = Field(LIMIT, ge=1, le=MAX_LIMIT)
    offset: int = Field(0, ge=0, le=MAX_OFFSET)


class Times(Paging):
    """Of a time from `from` to `to`, as addresses call them."""

    since: When | None
    until: When | None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.since and self.until and self.since >= self.until:
            raise ValueError("`to` has to be later than `from`.")
        return self


class ListOf(Schema, Generic[Item]):
    """Newest first. `count` is of all that match, of which `items` are a page."""

    items: list[Item]
    count: int


def cut(rows: QuerySet[Row], paging: Paging) -> tuple[list[Row], int]:
    """The page's rows, and how many there are in all."""
    return list(rows[paging.offset : paging.offset + paging.limit]), rows.count()


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
