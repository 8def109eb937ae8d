"""What people do to a stream: notes, acknowledgements, mutes."""

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Body, Field, Query, Router, Schema, Status

from dashboard import muting, notes
from dashboard.actors import actor_of
from dashboard.api.auth import allow
from dashboard.api.lists import ListOf
from dashboard.api.schemas import EventOut, Problem
from dashboard.models import Mute
from dashboard.notes import ActProblem
from dashboard.operating import NOTE_LENGTH
from dashboard.streams import stream_row
from ingest.models import StatusEvent
from ingest.roles import Ability

router = Router(tags=["streams"])

Check = Annotated[str, Field(max_length=32, pattern="^[a-z_]*$")]
Note = Annotated[str, Field(max_length=NOTE_LENGTH)]


class NoteIn(Schema):
    note: Annotated[str, Field(min_length=1, max_length=NOTE_LENGTH)]


class AcknowledgeIn(Schema):
    check: Annotated[str, Field(min_length=1, max_length=32, description="Of an open issue.")]
    note: Note = ""


class MuteIn(Schema):
    check: Check = Field("", description="Empty: every check.")
    hours: float | None = Field(None, gt=0, le=muting.MOST_HOURS, description="null: until it is lifted.")
    note: Note = ""


class MuteOut(Schema):
    check: str = Field(alias="check_code")
    at: datetime
    until: datetime | None
    note: str
    by: str | None = Field(description="null: an API token, or somebody who is gone.")

    @staticmethod
    def resolve_by(row: Mute) -> str | None:
        return row.by.get_username() if row.by else None


@router.post(
    "/streams/{app}/{stream:name}/notes",
    response={201: EventOut, 404: Problem, 409: Problem},
    auth=allow(Ability.NOTE),
    url_name="stream-notes",
)
def add_note(request: HttpRequest, app: str, name: str, wish: Body[NoteIn]) -> Status[StatusEvent | Problem]:
    """A note for the session that publishes, else for the last one. 409 where there was none."""
    try:
        return Status(201, notes.add_note(stream_row(app, name), actor_of(request), wish.note))
    except ActProblem as problem:
        return Status(409, Problem(detail=str(problem)))


@router.post(
    "/streams/{app}/{stream:name}/acknowledge",
    response={201: EventOut, 404: Problem, 409: Problem},
    auth=allow(Ability.NOTE),
    url_name="stream-acknowledge",
)
def acknowledge(request: HttpRequest, app: str, name: str, wish: Body[AcknowledgeIn]) -> Status[StatusEvent | Problem]:
    """Say that somebody knows of an open issue. Not of a later opening, nor when it gets worse. 409: it isn't open."""
    try:
        row = stream_row(app, name)
        return Status(201, notes.acknowledge(row, actor_of(request), check=wish.check, note=wish.note))
    except ActProblem as problem:
        return Status(409, Problem(detail=str(problem)))


@router.get(
    "/streams/{app}/{stream:name}/mute",
    response={200: ListOf[MuteOut], 404: Problem},
    auth=allow(Ability.VIEW),
    url_name="stream-mute",
)
def mutes(request: HttpRequest, app: str, name: str) -> dict[str, object]:
    """The mutes that hold now."""
    rows = list(muting.active_mutes().filter(stream=stream_row(app, name)))
    return {"items": rows, "count": len(rows)}


@router.post("/streams/{app}/{stream:name}/mute", response={201: MuteOut, 404: Problem}, auth=allow(Ability.NOTE))
def mute(request: HttpRequest, app: str, name: str, wish: Body[MuteIn | None] = None) -> Status[Mute]:
    """No alerts of the stream for a while. In place of an earlier mute of the same check."""
    wish = wish or MuteIn(check="", hours=None)
    row = stream_row(app, name)
    made = muting.mute(row, actor_of(request), check=wish.check, hours=wish.hours, note=wish.note)
    return Status(201, made)


class Which(Schema):
    check: Check | None = Field(None, description="Only this check's; empty: only that of all checks at once.")


@router.delete("/streams/{app}/{stream:name}/mute", response={204: None, 404: Problem}, auth=allow(Ability.NOTE))
def unmute(request: HttpRequest, app: str, name: str, which: Query[Which]) -> Status[Problem | None]:
    """Lift the stream's mutes. 404 when nothing was muted."""
    if not muting.lift(stream_row(app, name), actor_of(request), check=which.check):
        return Status(404, Problem(detail="Nothing of it is muted."))
    return Status(204, None)
