"""/recordings: what was recorded, its files, and their deletion."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Body, Field, Query, Router, Schema, Status
from ninja.errors import HttpError

from dashboard.access import actor_of
from dashboard.api_base import AsText, ListOf, NameOf, Paging, Problem, Text, TokenIn, TokenOut, When, allow, listed
from dashboard.recordings import queries as service
from dashboard.streams.actions import NOTE_LENGTH
from ingest import clean
from ingest.models import Application, Recording
from ingest.services import actions as services_actions
from ingest.services import media_urls, playback
from ingest.services.roles import Ability

router = Router(tags=["recordings"])

ONE = "/recordings/{int:recording_id}"

State = Literal["recording", "complete", "failed"]


class RecordingOut(Schema):
    """A recording. While it is recorded, its duration and size are those at its begin."""

    id: int
    app: str = Field(alias="application.name")
    name: str = Field(description="Under which it is played.")
    stream: NameOf = Field(description="What was recorded.")
    session_id: AsText = Field(description="The session that published it last.")
    node: NameOf
    state: State
    description: str = Field(description="Why it failed, or where it came from.")
    started_at: datetime
    ended_at: datetime | None
    duration_ms: int
    size_bytes: int
    keep: bool = Field(description="Never deleted because of its age or of the room it takes.")
    flv_url: str = Field(
        description="By HTTP. Without the token that it takes, if its application doesn't say otherwise. Empty: the "
        "listener is off."
    )

    mp4_url: str = Field(description="The same as MP4, once it is recorded.")

    @staticmethod
    def resolve_flv_url(row: Any) -> str:
        return media_urls.recording_url(row)

    @staticmethod
    def resolve_mp4_url(row: Any) -> str:
        return media_urls.recording_url(row, "mp4")


class RecordingTokenOut(TokenOut):
    """What plays the recording until the token expires; whoever has one of the URLs can."""

    mp4_url: str = Field(description="MP4 by HTTP; empty where the media listener is off.")
    watch_url: str = Field(description="A page that plays it in any browser, without a log-in.")


class RecordingFilters(Paging):
    app: Text | None = None
    name: Text | None = None
    stream: Text | None = None
    state: State | None = None
    since: When | None = Field(None, description="Began at this time or later.")
    until: When | None = Field(None, description="Began before this time.")


class How(Schema):
    format: Literal["flv", "mp4"] = Field("flv", description="As it was recorded, or as MP4.")


class Why(Schema):
    note: Text = Field("", description="Why, for the record.")


@router.get("/recordings", response=ListOf[RecordingOut])
def recordings(request: HttpRequest, filters: Query[RecordingFilters]) -> dict[str, object]:
    """The last begun first."""
    return listed(service.rows(), filters, service.LOOKUPS)


@router.get(ONE, response=RecordingOut)
def recording(request: HttpRequest, recording_id: int) -> Recording:
    """One recording."""
    return get_object_or_404(service.rows(), pk=recording_id)


@router.get(f"{ONE}/download", response={302: None, 503: Problem})
def download(request: HttpRequest, recording_id: int, how: Query[How]) -> HttpResponse:
    """Its file: leads to the media listener by a URL that is good for a minute. 503 where that is off."""
    row = get_object_or_404(service.rows(), pk=recording_id)
    return service.send(row, actor=actor_of(request), form=how.format)


@router.post(f"{ONE}/token", response={201: RecordingTokenOut, 409: Problem}, auth=allow(Ability.SHARE))
def play_token(request: HttpRequest, recording_id: int, body: Body[TokenIn | None] = None) -> Status[RecordingTokenOut]:
    """A signed token for playing this one, and the URLs with it. 409 where nobody may play. It can't be revoked."""
    row = get_object_or_404(service.rows(), pk=recording_id)
    if playback.policy_of(row.application, row.stream) == Application.PlayPolicy.NONE:
        raise HttpError(409, "Nobody may play this: the play policy says so.")
    lifetime = timedelta(hours=body.hours if body else media_urls.USUAL_HOURS)
    link = services_actions.recording_link(actor_of(request), recording=row, lifetime=lifetime)
    return Status(201, RecordingTokenOut(**asdict(link)))


@router.delete(ONE, response={204: None, 409: Problem}, auth=allow(Ability.DELETE_RECORDINGS))
def delete(request: HttpRequest, recording_id: int, why: Query[Why]) -> Status[None]:
    """Delete it with its file. 409 while it is being recorded."""
    row = get_object_or_404(service.rows(), pk=recording_id)
    services_actions.delete_recording(actor_of(request), row, note=clean.text(why.note.strip(), NOTE_LENGTH))
    return Status(204, None)
