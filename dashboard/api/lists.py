"""What all lists share: `{"items": [...], "count": N}`, `limit` and `offset`, and filters."""

from datetime import UTC, datetime
from typing import Annotated, Generic, Self, TypeVar

from django.db.models import Model, QuerySet
from ninja import Field, Schema
from pydantic import AfterValidator, model_validator

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
