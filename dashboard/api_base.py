"""What the API's operations share: who asks and may they, lists, and the shapes of answers.

`auth=allow(Ability.KICK)` on an operation is its permission (without one: to view), by a bearer token or a logged-in
session, against the same table as pages and WebSockets. Nobody known: 401. Known but not allowed: 403. What it raises
beyond that is in `PROBLEMS` of `dashboard.api`, or an HttpError. Lists are `{"items": [...], "count": N}` with `limit`,
`offset` and filters. Times are ISO 8601 in UTC, to the millisecond; a field that is not known is null."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Self, TypeVar

from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from ninja import Field, Schema
from ninja.errors import AuthenticationError, HttpError
from ninja.security import APIKeyCookie, HttpBearer
from ninja.security.base import AuthBase
from pydantic import AfterValidator, BeforeValidator, model_validator

from dashboard import access
from dashboard.access import ApiCaller
from dashboard.lists import narrow
from ingest.contracts import Health
from ingest.services.media_urls import MOST_HOURS, USUAL_HOURS
from ingest.services.roles import Ability, role_abilities, user_abilities


class BearerToken(HttpBearer):
    """`Authorization: Bearer TOKEN`. A wrong token is refused even if the browser's session would do."""

    def __init__(self, ability: Ability) -> None:
        super().__init__()
        self.ability = ability

    def __call__(self, request: HttpRequest) -> Any:
        """Ninja's own logs, under RTMPWEB_DEBUG, what a header that is no bearer's says: it may be a password."""
        scheme = request.headers.get(self.header, "").partition(" ")[0]
        return super().__call__(request) if scheme.lower() == self.openapi_scheme else None

    def authenticate(self, request: HttpRequest, token: str) -> ApiCaller:
        found = access.find_token(secret=token)
        if found is None:
            raise AuthenticationError(message="This token is unknown, expired or revoked.")
        return _allowed(ApiCaller(f"token {found.name}", role_abilities(found.role), None), self.ability)


class LoggedIn(APIKeyCookie):
    """The dashboard's own session. What changes something needs the CSRF token too."""

    param_name = "sessionid"

    def __init__(self, ability: Ability) -> None:
        super().__init__(csrf=True)
        self.ability = ability

    def authenticate(self, request: HttpRequest, key: str | None) -> ApiCaller | None:
        user = request.user
        if not isinstance(user, User):
            return None
        return _allowed(ApiCaller(user.get_username(), user_abilities(user), user), self.ability)


def need(request: HttpRequest, ability: Ability) -> None:
    """403 for who lacks it: of a part of what an operation does."""
    _allowed(request.auth, ability)  # type: ignore[attr-defined]


def _allowed(caller: ApiCaller, ability: Ability) -> ApiCaller:
    if ability not in caller.abilities:
        raise HttpError(403, f"Not allowed: this needs the ability {ability.value!r}.")
    return caller


def allow(ability: Ability) -> list[AuthBase]:
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

Id = Annotated[str, BeforeValidator(str)]
AsText = Annotated[str | None, BeforeValidator(lambda value: None if value is None else str(value))]
"""Of an answer: an id, or who is meant by a row."""
NameOf = Annotated[str | None, BeforeValidator(lambda row: row and row.name)]
"""Of an answer: what a row is called."""


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
    return list(rows[paging.offset : paging.offset + paging.limit]), rows.count()


Column = list[float | None]


class SamplesOut(Schema):
    """Columns of one length, in the order of time."""

    at: list[float] = Field(description="Seconds since the epoch.")
    step_s: float = Field(description="A span's length; 0 where nothing is gathered: one sample is about a second.")
    values: dict[str, Column] = Field(description="A gauge's mean, a counter's sum.")
    low: dict[str, Column] = Field(description="A gauge's least value of a span.")
    high: dict[str, Column] = Field(description="Its greatest.")
    health: list[Health] = Field(description="The worst of a span.")
    gaps: list[tuple[float, float]] = Field(description="Times (from, to) without media.")
    problems: list[str] = Field(description="What could not be read, in sentences.")


def listed(
    rows: QuerySet[Row],
    filters: Paging,
    lookups: Mapping[str, str] | None = None,
    item: Callable[[Row], object] = lambda row: row,
) -> dict[str, object]:
    """The answer of a list: a page of the rows that match the filters, of which `lookups` says what each compares.
    `item`: what it has of a row.
    """
    if lookups:
        rows = narrow(rows, lookups, filters.model_dump())
    page, count = cut(rows, filters)
    return {"items": [item(row) for row in page], "count": count}


class EventOut(Schema):
    """Something that happened to a session."""

    sequence: int
    at: datetime
    kind: str
    level: str
    code: str
    description: str
    detail: dict[str, Any]


class TokenIn(Schema):
    hours: float = Field(USUAL_HOURS, gt=0, le=MOST_HOURS, description="How long the token is valid.")


class TokenOut(Schema):
    """What plays the stream until the token expires; whoever has one of the URLs can."""

    token: str
    expires_at: datetime
    play_url: str = Field(description="RTMP.")
    flv_url: str = Field(description="FLV over HTTP; empty where the media listener is off.")
    ws_url: str = Field(description="FLV over WebSocket; empty where the media listener is off.")
    hls_url: str = Field("", description="HLS, of a stream; empty where that is off.")
    watch_url: str = Field("", description="The page for browsers, likewise.")


class Problem(Schema):
    detail: str
