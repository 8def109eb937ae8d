"""/keys: stream keys, and what is done to them. A secret is in the answer to its making, nowhere else."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema, Status
from ninja.errors import HttpError

from dashboard.access import actor_of
from dashboard.api_base import ListOf, Paging, Problem, Text, When, allow, listed
from dashboard.keys import queries as keys_queries
from ingest.models import Application, StreamKey
from ingest.models.names import validate_stream_name
from ingest.services import actions as services_actions
from ingest.services import keys, media_urls
from ingest.services.keys import NewKey
from ingest.services.roles import Ability

router = Router(tags=["keys"])

ONE = "/keys/{int:key_id}"

MOST_GRACE_S = int(keys.MAX_GRACE.total_seconds())

State = Literal["active", "expiring", "grace", "disabled", "expired", "revoked"]


class KeyOut(Schema):
    """A stream key, never its secret."""

    id: int
    app: str
    name: str = Field(description="Of the stream.")
    label: str
    prefix: str = Field(description="The secret's first characters; empty for an imported one.")
    state: State = Field(description="expiring: within a week. grace: rotated, and still working.")
    test_only: bool
    expires_at: datetime | None
    grace_until: datetime | None
    max_kbps: int | None
    over_limit: Literal["warn", "close"]
    allowed_networks: list[str]
    created_at: datetime
    last_used_at: datetime | None
    live: bool = Field(description="Something is published with it now.")


class NewKeyOut(KeyOut):
    """With its secret, at the only time that it is told."""

    key: str
    server: str = Field(description="OBS: Server. The key goes into the field below it.")
    publish_url: str
    play_url: str


def _fields(key: StreamKey) -> dict[str, Any]:
    row, stream = keys_queries.key_row(key), key.stream
    own = ("id", "label", "prefix", "test_only", "expires_at", "grace_until", "max_kbps", "over_limit")
    fields = {name: getattr(key, name) for name in (*own, "allowed_networks", "created_at", "last_used_at")}
    return fields | {"app": stream.application.name, "name": stream.name, "state": row.state, "live": row.is_live}


class KeyFilters(Paging):
    text: Text | None = Field(None, description="In a label, a stream's name or a key's first characters.")
    state: State | None = Field(None, description="Without it all but the revoked.")


Label = Annotated[str, Field(max_length=128)]


class KeyIn(Schema):
    app: Text
    name: Text = Field(description="The stream is made if it isn't there.")
    label: Label = ""
    expires_at: When | None = None
    max_kbps: int | None = Field(None, ge=1, le=2**31 - 1)
    over_limit: Literal["warn", "close"] = "warn"
    allowed_networks: Annotated[list[Text], Field(max_length=100)] = []
    test_only: bool = False


class RotateIn(Schema):
    grace_s: int = Field(0, ge=0, le=MOST_GRACE_S, description="Seconds for which the old key goes on working.")


@router.get("/keys", response=ListOf[KeyOut], auth=allow(Ability.MANAGE_KEYS))
def list_keys(request: HttpRequest, filters: Query[KeyFilters]) -> dict[str, object]:
    """Those that were used last come first."""
    return listed(keys_queries.rows(text=filters.text or "", state=filters.state or ""), filters, item=_fields)


@router.post("/keys", response={201: NewKeyOut, 404: Problem, 422: Problem}, auth=allow(Ability.MANAGE_KEYS))
def create(request: HttpRequest, response: HttpResponse, body: KeyIn) -> Status[NewKeyOut]:
    """Make a key. Its secret is in this answer, and nowhere else."""
    actor, application = actor_of(request), get_object_or_404(Application, name=body.app)
    rights = body.dict(exclude={"app", "name"})
    try:
        validate_stream_name(body.name)
        with transaction.atomic():
            created = services_actions.create_key(
                actor, stream=services_actions.make_stream(actor, application, body.name), **rights
            )
    except ValidationError as error:
        raise HttpError(422, " ".join(error.messages)) from None
    return Status(201, _new_key(response, created))


@router.post(f"{ONE}/rotate", response={201: NewKeyOut, 409: Problem}, auth=allow(Ability.MANAGE_KEYS))
def rotate(
    request: HttpRequest, response: HttpResponse, key_id: int, body: RotateIn | None = None
) -> Status[NewKeyOut]:
    """A new key with the same rights in place of this one. Its secret is in this answer, and nowhere else."""
    grace = timedelta(seconds=body.grace_s if body else 0)
    try:
        created = services_actions.rotate_key(actor_of(request), keys_queries.key_of(key_id), grace=grace)
    except ValidationError as error:
        raise HttpError(409, " ".join(error.messages)) from None
    return Status(201, _new_key(response, created))


@router.post(f"{ONE}/revoke", response=KeyOut, auth=allow(Ability.MANAGE_KEYS))
def revoke(request: HttpRequest, key_id: int) -> KeyOut:
    """For good. What is live with it ends within two seconds."""
    found = keys_queries.key_of(key_id)
    services_actions.revoke_key(actor_of(request), found)
    return KeyOut(**_fields(found))


def _new_key(response: HttpResponse, created: NewKey) -> NewKeyOut:
    response["Cache-Control"] = "no-store"
    strings = media_urls.strings(stream=created.key.stream, secret=created.secret)
    return NewKeyOut(**_fields(created.key), **asdict(strings))
