"""/streams/APP/NAME/pushes and /pull: where else a stream is published, and where it is fetched from. Keys and
credentials go in, and never come out."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from ninja import Field, Router, Schema, Status
from ninja.errors import HttpError

from dashboard.access import actor_of
from dashboard.api_base import ListOf, Problem, allow
from dashboard.streams import relays
from dashboard.streams.queries import Now, stream_row
from dashboard.streams.relays import SourceRow, TargetRow
from ingest.models import PushTarget, Stream
from ingest.models.relays import MAX_KEY, MAX_LABEL, MAX_URL
from ingest.services.roles import Ability
from ingest.services.sessions import open_publisher

router = Router(tags=["pushes and pulls"])

PUSHES = "/streams/{app}/{stream:name}/pushes"
ONE = f"{PUSHES}/{{int:pk}}"
PULL = "/streams/{app}/{stream:name}/pull"

RelayState = Literal["", "connecting", "live", "retrying", "stopped"]


class PushOut(Schema):
    """A push target, without its key."""

    id: int
    label: str
    url: str = Field(description="The server, without the key.")
    starts: Literal["stream", "hand"] = Field(description="With the stream, or by hand.")
    enabled: bool
    state: RelayState = Field(description="Of the push now; empty: nobody publishes, or it is not pushed.")
    since: datetime | None = Field(description="When it began to be in this state.")
    kbps: float | None = Field(description="What is sent; null: it is not pushed now.")
    retry_at: datetime | None = Field(description="While it waits to try again: when it does.")
    failure: str = Field(description="Why it fails: address, connect, tls, protocol, refused, lost, slow, limit.")
    code: str = Field(description="The other server's status code.")
    answer: str = Field(description="What the other server said, without secrets.")
    problem: str = Field(description="What is wrong, in words, and")
    advice: str = Field(description="what to do; both empty while nothing is.")

    @classmethod
    def of(cls, row: TargetRow) -> "PushOut":
        found = row.advice
        own = {name: getattr(row, name) for name in ("state", "since", "kbps", "retry_at", "failure", "code", "answer")}
        said = {"problem": found.words if found else "", "advice": found.todo if found else ""}
        return cls.model_validate({"id": row.target.pk} | row.values | own | said)


class PushIn(Schema):
    label: Annotated[str, Field(max_length=MAX_LABEL)]
    url: Annotated[str, Field(max_length=MAX_URL + MAX_KEY, description="The server; or all of it, with the key.")]
    key: Annotated[str, Field(max_length=MAX_KEY, description="Empty: it is the last part of the URL.")] = ""
    starts: Literal["stream", "hand"] = "stream"
    enabled: bool = True


class PushChange(Schema):
    """What is left out stays. Another server takes the key anew."""

    label: Annotated[str, Field(max_length=MAX_LABEL)] | None = None
    url: Annotated[str, Field(max_length=MAX_URL + MAX_KEY)] | None = None
    key: Annotated[str, Field(max_length=MAX_KEY)] | None = None
    starts: Literal["stream", "hand"] | None = None
    enabled: bool | None = None


@router.get(PUSHES, response=ListOf[PushOut])
def pushes(request: HttpRequest, app: str, name: str) -> dict[str, object]:
    """The stream's push targets, by label."""
    stream = stream_row(app, name)
    rows = relays.target_rows(stream, Now.read().of_stream(stream), open_publisher(stream))
    return {"items": [PushOut.of(row) for row in rows], "count": len(rows)}


@router.post(PUSHES, response={201: PushOut, 409: Problem}, auth=allow(Ability.MANAGE_KEYS))
def add(request: HttpRequest, app: str, name: str, body: PushIn) -> Status[PushOut]:
    """Add a target. 409 with what is wrong: a server that can't be one, no key, a label twice, too many."""
    target = PushTarget(stream=stream_row(app, name))
    _save(request, target, body.dict())
    return Status(201, _out(target))


@router.get(ONE, response=PushOut)
def push(request: HttpRequest, app: str, name: str, pk: int) -> PushOut:
    """One target."""
    return _out(relays.target_of(stream_row(app, name), pk))


@router.patch(ONE, response={200: PushOut, 409: Problem}, auth=allow(Ability.MANAGE_KEYS))
def change(request: HttpRequest, app: str, name: str, pk: int, body: PushChange) -> PushOut:
    """Change a target: it holds within two seconds."""
    target = relays.target_of(stream_row(app, name), pk)
    _save(request, target, body.dict(exclude_none=True))
    return _out(target)


@router.delete(ONE, response={204: None}, auth=allow(Ability.MANAGE_KEYS))
def delete(request: HttpRequest, app: str, name: str, pk: int) -> Status[None]:
    """Remove a target. What is pushed there ends within two seconds."""
    relays.remove_target(actor_of(request), relays.target_of(stream_row(app, name), pk))
    return Status(204, None)


@router.post(f"{ONE}/start", response={202: PushOut, 409: Problem}, auth=allow(Ability.PUSH))
def start(request: HttpRequest, app: str, name: str, pk: int) -> Status[PushOut]:
    """Start the push, or try it at once. 409 while nobody publishes, or the target is off."""
    target = relays.target_of(stream_row(app, name), pk)
    relays.run_target(actor_of(request), target, starts=True)
    return Status(202, _out(target))


@router.post(f"{ONE}/stop", response={202: PushOut, 409: Problem}, auth=allow(Ability.PUSH))
def stop(request: HttpRequest, app: str, name: str, pk: int) -> Status[PushOut]:
    """Stop the push, until somebody starts it or the next encoder comes. 409 while nobody publishes."""
    target = relays.target_of(stream_row(app, name), pk)
    relays.run_target(actor_of(request), target, starts=False)
    return Status(202, _out(target))


def _save(request: HttpRequest, target: PushTarget, values: dict[str, Any]) -> None:
    try:
        relays.save_target(actor_of(request), target, values)
    except ValidationError as problem:
        raise HttpError(409, relays.problem_words(problem)) from None


def _out(target: PushTarget) -> PushOut:
    return PushOut.of(relays.row_of(target, Now.read().of_stream(target.stream)))


# --- The pull source ---


class PullOut(Schema):
    """Where a stream is fetched from, without credentials."""

    source: str = Field(description="Its URL; what is secret of it is masked.")
    when: Literal["always", "demand"] = Field(description="demand: while somebody plays the stream.")
    enabled: bool
    is_live: bool = Field(description="It publishes the stream now.")
    state: RelayState = Field(description="As the node told that pulls it, or tries to.")
    since: datetime | None
    node: str
    failure: str
    code: str
    answer: str = Field(description="What the other server said, without secrets.")
    problem: str
    advice: str

    @classmethod
    def of(cls, row: SourceRow) -> "PullOut":
        found, source = row.advice, row.source
        own = {name: getattr(source, name) for name in ("state", "node", "failure", "code")}
        told = {"source": source.shown, "since": source.state_since, "answer": source.description}
        said = {"problem": found.words if found else "", "advice": found.todo if found else ""}
        return cls.model_validate(row.values | own | told | said | {"is_live": row.is_pulled})


class PullIn(Schema):
    url: Annotated[
        str, Field(max_length=MAX_URL + MAX_KEY, description="rtmp[s]://host/app/name; empty: the one that is kept.")
    ] = ""
    when: Literal["always", "demand"] = "always"
    enabled: bool = True


@router.get(PULL, response=PullOut)
def pull(request: HttpRequest, app: str, name: str) -> PullOut:
    """The stream's pull source. 404 where it has none."""
    return PullOut.of(_source(stream_row(app, name)))


@router.put(PULL, response={200: PullOut, 409: Problem}, auth=allow(Ability.MANAGE_KEYS))
def put_pull(request: HttpRequest, app: str, name: str, body: PullIn) -> PullOut:
    """Set it up, or change it. 409 with what is wrong of its URL."""
    stream = stream_row(app, name)
    try:
        relays.save_source(actor_of(request), stream, body.dict())
    except ValidationError as problem:
        raise HttpError(409, relays.problem_words(problem)) from None
    return PullOut.of(_source(stream))


@router.delete(PULL, response={204: None}, auth=allow(Ability.MANAGE_KEYS))
def delete_pull(request: HttpRequest, app: str, name: str) -> Status[None]:
    """Remove it. What is pulled ends within two seconds."""
    relays.remove_source(actor_of(request), _source(stream_row(app, name)).source)
    return Status(204, None)


def _source(stream: Stream) -> SourceRow:
    row = relays.source_row(stream, open_publisher(stream))
    if row is None:
        raise HttpError(404, "The stream is not pulled from anywhere.")
    return row
