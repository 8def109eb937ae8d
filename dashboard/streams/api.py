"""/streams: what is on air, what was measured of it in the last hours (from the lake), what people do
to a stream (kick, note, acknowledge, mute), and what it is: enabled, or deleted."""

import datetime as dt
import time
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Body, Field, Query, Router, Schema, Status
from ninja.errors import HttpError

from dashboard.access import actor_of
from dashboard.api_base import (
    AsText,
    EventOut,
    ListOf,
    Paging,
    Problem,
    SamplesOut,
    Text,
    TokenIn,
    TokenOut,
    When,
    allow,
    listed,
    need,
)
from dashboard.lists import narrow
from dashboard.models import Mute
from dashboard.streams import actions as streams_actions
from dashboard.streams import silences
from dashboard.streams.actions import NOTE_LENGTH, ActionProblem, Kick, kick_publisher
from dashboard.streams.queries import Now, stream_row
from ingest.contracts import Health, StreamSnapshot, StreamState
from ingest.models import ExpectedTime, StatusEvent, Stream
from ingest.services import actions as service_actions
from ingest.services import media_urls, play_policy, removal
from ingest.services.roles import Ability

router = Router(tags=["streams"])

ONE = "/streams/{app}/{stream:name}"

LOOKUPS = {"app": "application__name", "name": "name"}

REFUSALS = {
    Kick.OFF_AIR: "Nobody publishes this stream now.",
    Kick.OTHER: "Another session publishes this stream by now.",
}


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


class ExpectedOut(Schema):
    """A time at which it should be live."""

    days: list[int] = Field(description="0 is Monday. Empty: every day, or the date.")
    date: dt.date | None = Field(description="A single date; null: each week.")
    from_time: str = Field(description="HH:MM by the clocks of `time_zone`.")
    until_time: str = Field(description="Not later than `from_time`: on the day after.")
    time_zone: str
    grace_s: int = Field(description="How long it may be off air before that counts.")


class RelayedToOut(Schema):
    """A node that fetches a stream from this one."""

    node: str
    players: int = Field(description="Its own, and those of nodes that fetch it from there.")


PlayPolicy = Literal["", "public", "token", "none"]


class StreamOut(Schema):
    """A stream. From `since` on, metrics are null unless it is live; bitrates and frames a second are 5 s means."""

    id: int
    app: str
    name: str
    enabled: bool = Field(description="Else nobody publishes or plays it.")
    state: StreamState
    health: Health = Field(description="`none` while nobody publishes, and in its first seconds: see `checking_s`.")
    checking_s: int | None = Field(None, description="Seconds until its health is judged; null: it is, or is off air.")
    players: int = Field(description="Everybody who watches, on all nodes.")
    viewers: int = Field(0, description="Those of them that watch by HLS, as browsers do.")
    session_id: str | None = Field(description="The session that publishes now.")
    since: datetime | None = Field(description="When that session began.")
    node: str = Field(description="Where it is published.")
    relayed_to: list[RelayedToOut] = Field([], description="Nodes that fetch it from there for their own players.")
    address: str
    encoder: str
    issues: list[IssueOut]
    target_kbps: int | None
    video_kbps: float | None
    audio_kbps: float | None
    wire_kbps: float | None = Field(description="All bytes on the encoder's socket.")
    out_kbps: float | None
    fps: float | None = Field(description="Coded frames by wall time.")
    fps_media: float | None = Field(description="Coded frames by their timestamps.")
    keyframe_interval: float | None = Field(description="Seconds between the last two keyframes.")
    open_gop_age: float | None = Field(description="Seconds since the last keyframe.")
    drift: float | None = Field(
        description="Milliseconds that media is behind live: behind the best moment since the session began."
    )
    drift_dev: float | None = Field(description="Milliseconds that it is behind its mean of 60 s.")
    av_skew: float | None = Field(description="Milliseconds that video is ahead of audio.")
    idle_ms: int | None
    rtt_ms: float | None
    retrans: int | None
    ts_gap: int | None
    ts_regress: int | None
    missing_frames_est: int | None = Field(description="Dropped frames, estimated from timestamps.")
    media_faults: int | None = Field(None, description="Messages of the session whose media header makes no sense.")
    timestamp_repairs: int | None = Field(
        None, description="Times in the session that a clock jumped or went back; players get a time that goes on."
    )
    slow_players: int = Field(
        description="Players over 1.5 s behind and not catching up, or that lost frames in the last 30 s."
    )
    dropped_frames: int = Field(description="Frames that slow players did not get in the last minute.")
    thumbnail: int | None = Field(None, description="When the last picture was taken, in ms since the epoch.")
    slowest: list[SlowPlayerOut] = Field(
        [], description="The players that lost most or are furthest behind, five at most; `queued_ms`: by how much."
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
    expected_times: list[ExpectedOut] = Field([], description="When it should be live.")
    play_policy: PlayPolicy = Field("", description="Who may watch: anyone, by link, nobody; empty: its application's.")
    hls_always: bool = Field(False, description="Packaged for browsers while it is live; else once somebody watches.")
    hls_url: str = Field("", description="Without a token; empty where HLS is off.")
    watch_url: str = Field("", description="The page for browsers, likewise.")

    @classmethod
    def of(cls, row: Stream, snapshot: StreamSnapshot) -> "StreamOut":
        """Ask it of rows that have `expected_times` prefetched, if they are several."""
        own = {name: getattr(row, name) for name in ("enabled", "play_policy", "hls_always")} | {
            "expected_times": [_expected_out(each) for each in row.expected_times.all()],
            "hls_url": media_urls.hls_url(stream=row),
            "watch_url": media_urls.watch_url(stream=row),
        }
        return cls.model_validate(dict[str, Any](snapshot["media"]) | snapshot | own)


def _expected_out(row: ExpectedTime) -> dict[str, Any]:
    own = {name: getattr(row, name) for name in ("days", "date", "time_zone", "grace_s")}
    return own | {"from_time": f"{row.from_time:%H:%M}", "until_time": f"{row.until_time:%H:%M}"}


class StreamFilters(Paging):
    app: Text | None = None
    name: Text | None = None
    state: StreamState | None = None
    health: Health | None = None


@router.get("/streams", response=ListOf[StreamOut])
def streams(request: HttpRequest, filters: Query[StreamFilters]) -> dict[str, object]:
    """All streams, on air or not; the last made comes first."""
    now = Now.read()
    rows = Stream.objects.select_related("application").prefetch_related("expected_times")
    rows = rows.order_by("-created_at", "-pk")
    rows = narrow(rows, LOOKUPS, filters.model_dump())
    return listed(_in_condition(rows, now, filters), filters, item=lambda row: StreamOut.of(row, now.of_stream(row)))


def _in_condition(rows: QuerySet[Stream], now: Now, filters: StreamFilters) -> QuerySet[Stream]:
    """Rows of the state and health that are asked for. What no node knows of is offline and without data."""
    state, health = filters.state, filters.health
    if state is None and health is None:
        return rows
    fitting = [
        pk
        for pk, snapshot in now.by_id.items()
        if state in (None, snapshot["state"]) and health in (None, snapshot["health"])
    ]
    if state in (None, "offline") and health in (None, "none"):
        return rows.exclude(pk__in=now.by_id.keys() - set(fitting))
    return rows.filter(pk__in=fitting)


@router.get(ONE, response=StreamOut)
def stream(request: HttpRequest, app: str, name: str) -> StreamOut:
    """One stream by its public name."""
    return _answer(stream_row(app, name))


class ChangeIn(Schema):
    enabled: bool | None = Field(None, description="With the ability `manage_streams`.")
    play_policy: PlayPolicy | None = Field(None, description="Who may watch; leaving `token` ends its links.")
    hls_always: bool | None = None


@router.patch(ONE, response=StreamOut, auth=allow(Ability.MANAGE_KEYS))
def change(request: HttpRequest, app: str, name: str, body: ChangeIn) -> StreamOut:
    """Say who may watch it, disable or enable it. Who publishes or plays one that is disabled, or plays what he may no
    more, is ended within two seconds.
    """
    row, actor = stream_row(app, name), actor_of(request)
    given = {name: value for name, value in body.model_dump().items() if value is not None}
    enabled = given.pop("enabled", None)
    if enabled is not None:
        need(request, Ability.MANAGE_STREAMS)
        service_actions.set_enabled(actor, row, enabled)
    play_policy.change(actor, row, **given)
    return _answer(row)


class HowToDelete(Schema):
    force: bool = Field(False, description="Although somebody publishes: what goes on is ended within two seconds.")
    dry_run: bool = Field(False, description="Only say what would go with it and what would stay.")


class DeletionOut(Schema):
    """What a deletion would do. Counts stop at 10,000."""

    goes: dict[str, int] = Field(description="What goes with it, by kind.")
    stays: dict[str, int] = Field(description="What stays, by kind.")
    publishers: int = Field(description="How many publish there now: then it takes `force`.")
    players: int


class HowToDeleteStream(HowToDelete):
    recordings: bool = Field(False, description="Its recordings with their files as well; else they stay.")


@router.delete(ONE, response={200: DeletionOut, 204: None, 409: Problem}, auth=allow(Ability.MANAGE_STREAMS))
def delete(request: HttpRequest, app: str, name: str, how: Query[HowToDeleteStream]) -> Status[DeletionOut | None]:
    """Delete it with its keys, log-ins and what else is set up for it. Its history stays. 409 while it is live, unless
    it is forced, and for a recording that can't be deleted.
    """
    row = stream_row(app, name)
    if how.dry_run:
        return Status(200, DeletionOut(**removal.of_streams(Stream.objects.filter(pk=row.pk)).as_dict()))
    removal.delete_stream(actor_of(request), row, force=how.force, with_recordings=how.recordings)
    return Status(204, None)


def _answer(row: Stream) -> StreamOut:
    return StreamOut.of(row, Now.read().of_stream(row))


class KickIn(Schema):
    note: str = Field("", max_length=200, description="Why, for the record.")
    session_id: str = Field("", description="Only if this session publishes; empty: whichever does.")


class KickOut(Schema):
    session_id: str
    detail: str


@router.post(f"{ONE}/kick", response={202: KickOut, 409: Problem}, auth=allow(Ability.KICK))
def kick(request: HttpRequest, app: str, name: str, body: Body[KickIn | None] = None) -> Status[KickOut]:
    """Disconnect the stream's publisher: it is gone within two seconds. 409 when nobody publishes."""
    body = body or KickIn(note="", session_id="")
    outcome, session = kick_publisher(
        stream_row(app, name), note=body.note, actor=actor_of(request), session_id=body.session_id
    )
    if outcome is Kick.ASKED and session is not None:
        return Status(202, KickOut(session_id=str(session.pk), detail="The encoder is being disconnected."))
    raise HttpError(409, REFUSALS[outcome])


class StreamTokenIn(TokenIn):
    lasting: bool = Field(False, description="Valid until the stream's links are replaced, in place of `hours`.")
    replaces: bool = Field(False, description="All tokens of the stream so far end, and who plays by one with them.")


@router.post(f"{ONE}/token", response={201: TokenOut, 409: Problem}, auth=allow(Ability.SHARE))
def play_token(request: HttpRequest, app: str, name: str, body: Body[StreamTokenIn | None] = None) -> Status[TokenOut]:
    """A signed token for playing the stream, and the URLs with it; if it is to, in place of all so far. 409 where
    nobody may play.
    """
    row, body = (
        stream_row(app, name),
        body or StreamTokenIn(hours=media_urls.USUAL_HOURS, lasting=False, replaces=False),
    )
    if row.effective_play_policy == Stream.PlayPolicy.NONE:
        raise HttpError(409, "Nobody may play this stream: its play policy says so.")
    make = play_policy.new_link if body.replaces else service_actions.play_link
    lifetime = media_urls.LASTING if body.lasting else timedelta(hours=body.hours)
    return Status(201, TokenOut(**asdict(make(actor_of(request), stream=row, lifetime=lifetime))))


Check = Annotated[str, Field(max_length=32, pattern="^[a-z_]*$")]
Note = Annotated[str, Field(max_length=NOTE_LENGTH)]


class NoteIn(Schema):
    note: Annotated[str, Field(min_length=1, max_length=NOTE_LENGTH)]


class AcknowledgeIn(Schema):
    check: Annotated[str, Field(min_length=1, max_length=32, description="Of an open issue.")]
    note: Note = ""


class MuteIn(Schema):
    check: Check = Field("", description="Empty: every check.")
    hours: float | None = Field(None, gt=0, le=silences.MOST_HOURS, description="How long.")
    until: When | None = Field(None, description="Or until then. Neither: until it is lifted.")
    note: Note = ""

    def end(self) -> datetime | None:
        """409 where it is over already, or too late."""
        now = timezone.now()
        if self.until is None:
            return now + timedelta(hours=self.hours) if self.hours is not None else None
        try:
            return silences.checked_end(self.until, now)
        except ActionProblem as problem:
            raise HttpError(409, str(problem)) from None


class MuteOut(Schema):
    id: int
    of: str = Field(alias="subject", description="application/name, application/*, or everything.")
    check: str = Field(alias="check_code")
    at: datetime
    until: datetime | None
    note: str
    by: AsText = Field(description="null: an API token, or somebody who is gone.")


@router.post(f"{ONE}/notes", response={201: EventOut, 409: Problem}, auth=allow(Ability.NOTE))
def add_note(request: HttpRequest, app: str, name: str, body: Body[NoteIn]) -> Status[StatusEvent]:
    """A note for the session that publishes, else for the last one. 409 where there was none."""
    return Status(201, streams_actions.add_note(stream_row(app, name), actor_of(request), body.note))


@router.post(f"{ONE}/acknowledge", response={201: EventOut, 409: Problem}, auth=allow(Ability.NOTE))
def acknowledge(request: HttpRequest, app: str, name: str, body: Body[AcknowledgeIn]) -> Status[StatusEvent]:
    """Say that somebody knows of an open issue. Not of a later opening, nor when it gets worse. 409: it isn't open."""
    row = stream_row(app, name)
    return Status(201, streams_actions.acknowledge_issue(row, actor_of(request), check=body.check, note=body.note))


@router.get(f"{ONE}/mute", response=ListOf[MuteOut])
def mutes(request: HttpRequest, app: str, name: str) -> dict[str, object]:
    """The stream's own silences that hold now."""
    rows = list(silences.in_force().filter(stream=stream_row(app, name)))
    return {"items": rows, "count": len(rows)}


@router.post(f"{ONE}/mute", response={201: MuteOut, 409: Problem}, auth=allow(Ability.NOTE))
def mute(request: HttpRequest, app: str, name: str, body: Body[MuteIn | None] = None) -> Status[Mute]:
    """No alerts of the stream for a while. In place of an earlier silence of the same check."""
    body = body or MuteIn(check="", hours=None, until=None)
    row = stream_row(app, name)
    made = silences.silence(row, actor_of(request), check=body.check, until=body.end(), note=body.note)
    return Status(201, made)


class Which(Schema):
    check: Check | None = Field(None, description="Only this check's; empty: only that of all checks at once.")


@router.delete(f"{ONE}/mute", response={204: None}, auth=allow(Ability.NOTE))
def unmute(request: HttpRequest, app: str, name: str, which: Query[Which]) -> Status[None]:
    """Lift the stream's own silences. 404 when there was none."""
    if not silences.lift_of(stream_row(app, name), actor_of(request), check=which.check):
        raise HttpError(404, "Nothing of it is silenced.")
    return Status(204, None)


MAX_S = 24 * 3600
POINTS = 600
BUDGET_S = 4.0
"""How long a page waits for its charts; what was not read by then is named among the problems."""


class SampleRange(Schema):
    seconds: int = Field(1800, ge=60, le=MAX_S, description="Up to now.")
    points: int = Field(POINTS, ge=10, le=2000, description="More samples are gathered into so many spans.")


@router.get(f"{ONE}/samples", response=SamplesOut, url_name="stream-samples")
def samples(request: HttpRequest, app: str, name: str, wanted: Query[SampleRange]) -> SamplesOut:
    """The samples of all sessions that published the stream lately."""
    from ingest.telemetry import reading  # Arrow is loaded where samples are read.

    until_us = int(time.time() * 1_000_000)
    series = reading.read_stream(
        settings.LAKE_DIR,
        stream_row(app, name).pk,
        until_us - wanted.seconds * 1_000_000,
        until_us,
        points=wanted.points,
        budget_s=BUDGET_S,
    )
    return SamplesOut.model_validate(asdict(series))
