"""/streams: what is on air, the kick, and what a stream is: enabled, or deleted."""

from datetime import timedelta

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Body, Field, Query, Router, Status

from dashboard.actors import actor_of
from dashboard.api.auth import allow
from dashboard.api.lists import ListOf, Paging, Text, cut
from dashboard.api.schemas import (
    DeletionOut,
    EnabledIn,
    HowToDelete,
    KickIn,
    KickOut,
    Problem,
    StreamOut,
    TokenIn,
    TokenOut,
)
from dashboard.history import narrow
from dashboard.kicking import Kick, kick_publisher
from dashboard.streams import Now, stream_row
from ingest.contracts import Health, StreamState
from ingest.models import Application, Stream
from ingest.roles import Ability
from ingest.services import acts as service_actions
from ingest.services import playlinks, removal

router = Router(tags=["streams"])

LOOKUPS = {"app": "application__name", "name": "name"}

REFUSALS = {
    Kick.OFF_AIR: "Nobody publishes this stream now.",
    Kick.OTHER: "Another session publishes this stream by now.",
}


class StreamFilters(Paging):
    app: Text | None = None
    name: Text | None = None
    state: StreamState | None = None
    health: Health | None = None


@router.get("/streams", response=ListOf[StreamOut], auth=allow(Ability.VIEW), url_name="streams")
def streams(request: HttpRequest, filters: Query[StreamFilters]) -> ListOf[StreamOut]:
    """All streams, on air or not; the last made comes first."""
    now = Now.read()
    rows = narrow(
        Stream.objects.select_related("application").order_by("-created_at", "-pk"),
        LOOKUPS,
        {"app": filters.app, "name": filters.name},
    )
    page, count = cut(_in_condition(rows, now, filters.state, filters.health), filters)
    return ListOf[StreamOut](items=[StreamOut.of(row, now.of_stream(row)) for row in page], count=count)


def _in_condition(
    rows: QuerySet[Stream], now: Now, state: StreamState | None, health: Health | None
) -> QuerySet[Stream]:
    """Rows of that state and health. What no node knows of is offline and without data."""
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


@router.get(
    "/streams/{app}/{stream:name}", response={200: StreamOut, 404: Problem}, auth=allow(Ability.VIEW), url_name="stream"
)
def stream(request: HttpRequest, app: str, name: str) -> StreamOut:
    """One stream by its public name."""
    return _told(stream_row(app, name))


@router.patch(
    "/streams/{app}/{stream:name}", response={200: StreamOut, 404: Problem}, auth=allow(Ability.MANAGE_STREAMS)
)
def change(request: HttpRequest, app: str, name: str, wish: EnabledIn) -> StreamOut:
    """Disable or enable it. Who publishes or plays one that is disabled is ended within two seconds."""
    row = stream_row(app, name)
    service_actions.enable(actor_of(request), row, wish.enabled)
    return _told(row)


class HowToDeleteStream(HowToDelete):
    recordings: bool = Field(False, description="Its recordings with their files as well; else they stay.")


@router.delete(
    "/streams/{app}/{stream:name}",
    response={200: DeletionOut, 204: None, 404: Problem, 409: Problem},
    auth=allow(Ability.MANAGE_STREAMS),
)
def delete(
    request: HttpRequest, app: str, name: str, how: Query[HowToDeleteStream]
) -> Status[DeletionOut | Problem | None]:
    """Delete it with its keys, log-ins and what else is set up for it. Its history stays. 409 while it is live, unless
    it is forced, and for a recording that can't be deleted.
    """
    row = stream_row(app, name)
    if how.dry_run:
        return Status(200, DeletionOut(**removal.of_streams(Stream.objects.filter(pk=row.pk)).as_dict()))
    try:
        removal.delete_stream(actor_of(request), row, force=how.force, with_recordings=how.recordings)
    except removal.InTheWay as problem:
        return Status(409, Problem(detail=str(problem)))
    return Status(204, None)


def _told(row: Stream) -> StreamOut:
    return StreamOut.of(row, Now.read().of_stream(row))


@router.post(
    "/streams/{app}/{stream:name}/kick",
    response={202: KickOut, 404: Problem, 409: Problem},
    auth=allow(Ability.KICK),
    url_name="kick",
)
def kick(request: HttpRequest, app: str, name: str, wish: Body[KickIn | None] = None) -> Status[KickOut | Problem]:
    """Disconnect the stream's publisher: it is gone within two seconds. 409 when nobody publishes."""
    wish = wish or KickIn(note="", session_id="")
    outcome, session = kick_publisher(
        stream_row(app, name), note=wish.note, actor=actor_of(request), session_id=wish.session_id
    )
    if outcome is Kick.ASKED and session is not None:
        return Status(202, KickOut(session_id=str(session.pk), detail="The publisher is being disconnected."))
    return Status(409, Problem(detail=REFUSALS[outcome]))


@router.post(
    "/streams/{app}/{stream:name}/token",
    response={201: TokenOut, 404: Problem, 409: Problem},
    auth=allow(Ability.SHARE),
    url_name="play_token",
)
def play_token(
    request: HttpRequest, app: str, name: str, wish: Body[TokenIn | None] = None
) -> Status[TokenOut | Problem]:
    """A signed token for playing the stream, and the URLs with it. 409 where nobody may play. It can't be revoked."""
    row = stream_row(app, name)
    if row.application.play_policy == Application.PlayPolicy.NONE:
        return Status(409, Problem(detail="The application's streams can't be played."))
    lifetime = timedelta(hours=wish.hours if wish else playlinks.USUAL_HOURS)
    return Status(201, TokenOut.of(service_actions.play_link(actor_of(request), stream=row, lifetime=lifetime)))
