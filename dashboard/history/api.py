"""/rollups: figures by hour and by day of streams, keys, applications, encoders, nodes and broadcasts."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Field, ModelSchema, Query, Router, Schema
from ninja.errors import HttpError
from pydantic import AfterValidator, create_model

from analytics import completeness, metrics
from analytics.figures import Figures
from analytics.models import FIGURES, IDENTITY, Dimension, Grain, Partition, Rollup
from analytics.periods import STEPS
from analytics.rollups import (
    DIMENSION_WORDS,
    DISTINCT_PLAYERS_WORDS,
    MOST_HOURS,
    UNPACKED,
    Rollups,
    distinct_players,
    hours_in_lake,
)
from dashboard.api_base import LIMIT, ListOf, Paging, Problem, Text, Times, When, cut
from dashboard.history.comparison import key_labels
from dashboard.history.periods import LONGEST

router = Router(tags=["history"])

EPOCH, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)

TOO_MANY = (
    f"Hours of {{words}} are kept in the lake, of which an answer is made from {MOST_HOURS} at most: give `from` and "
    "`to`, or grain=day."
)


def _with_name(path: str) -> str:
    if not all(path.partition("/")):
        raise ValueError("Give a stream as application/name; by=app&value=live is of an application.")
    return path


class RollupFilters(Times):
    by: Literal["stream", "key", "app", "encoder", "node", "broadcast"] = Field(
        "stream", description="What each row is of."
    )
    grain: Literal["hour", "day"] = "hour"
    value: Text | None = Field(
        None,
        description="Of this one alone: a stream's application/name; the name of an application, encoder or node; a "
        "key's id; a broadcast's begin as the rows have it.",
    )
    stream: Annotated[Text, AfterValidator(_with_name)] | None = Field(
        None, description="As application/name, of streams, keys and broadcasts; none: all streams."
    )
    since: When | None = Field(None, alias="from", description="Hours or days that begin at this time or later.")
    until: When | None = Field(None, alias="to", description="Hours or days that begin before this time.")


_following: dict[str, Any] = {
    one.name: (float if one.always else float | None, Field(description=one.words)) for one in metrics.DERIVED
}


class RollupOut(ModelSchema, create_model("Following", __base__=Schema, **_following)):  # type: ignore[misc]
    """An hour or a day (UTC) of a stream, key, application, encoder, node or broadcast. Bitrates are kbit/s over its
    samples, one a second. `value` is what tells it apart, `label` what pages call it; `health` goes by the share of the
    time. What is not defined is null: a share of nothing, a mean over none. docs/analytics.md says what each figure
    means.
    """

    label: str
    health: Literal["good", "warning", "bad", "none"]

    class Meta:
        model = Rollup
        fields = [*IDENTITY, *FIGURES, "metric_version"]


class IncompleteHour(ModelSchema):
    """An hour whose figures lack something, of whichever streams."""

    class Meta:
        model = Partition
        fields = ["start", *completeness.FIELDS]


class RollupsOut(ListOf[RollupOut]):
    unique_players: int | None = Field(
        description="In all of the time, where `value` or `stream` names one stream, application or node, and the time "
        f"has `from` and `to`, at most {LONGEST[Grain.DAY].days} days apart; else null. "
        f"{DISTINCT_PLAYERS_WORDS.capitalize()}."
    )
    incomplete: ListOf[IncompleteHour] = Field(
        description=f"Hours of this time that lack something, maybe a whole row: the latest {LIMIT}. docs/analytics.md "
        "says what to do."
    )


@router.get("/rollups", response={200: RollupsOut, 422: Problem, 503: Problem})
def rollups(request: HttpRequest, filters: Query[RollupFilters]) -> dict[str, Any]:
    """What the Spark job made of the recorded samples, the latest first."""
    app, _, name = (filters.stream or "").partition("/")
    dimension, grain = Dimension(filters.by), Grain(filters.grain)
    if grain == Grain.HOUR and hours_in_lake(dimension, filters.since, filters.until).count() > MOST_HOURS:
        raise HttpError(422, TOO_MANY.format(words=DIMENSION_WORDS[dimension]))
    values = [filters.value] if filters.value else None
    reader = Rollups(dimension, grain, filters.since, filters.until, app=app or None, name=name or None, values=values)
    page, count = reader.page(filters.offset, filters.limit), reader.count()
    if reader.lacking:
        raise HttpError(503, reader.lacking)
    labels = key_labels(row.value for row in page) if dimension == Dimension.KEY else {}
    since, until = _hours(filters)
    lacking, hours = cut(completeness.hours(since, until), Paging(limit=LIMIT, offset=0))
    return {
        "items": [_item(row, labels) for row in page],
        "count": count,
        "unique_players": _unique_players(reader, since, until),
        "incomplete": {"items": lacking, "count": hours},
    }


def _hours(filters: RollupFilters) -> tuple[datetime | None, datetime | None]:
    """The time of the hours that are asked for, or that the days are of: a day is in the time that it begins in."""
    since, until = (_begin(at, STEPS[Grain(filters.grain)]) if at else None for at in (filters.since, filters.until))
    return since, until


def _begin(at: datetime, step: timedelta) -> datetime:
    """Of the first hour or day that begins then or later."""
    try:
        return min(at + -((at - EPOCH) % -step), LAST)
    except OverflowError:
        return LAST


def _unique_players(rows: Rollups, since: datetime | None, until: datetime | None) -> int | None:
    of = rows.wanted
    is_one = of.values or (of.dimension == Dimension.STREAM and of.name)
    if not is_one or not since or not until or until - since > LONGEST[Grain.DAY]:
        return None
    return distinct_players(rows, since, until)


def _item(row: Rollup, labels: dict[str, str]) -> dict[str, Any]:
    figures, stored = Figures.of_row(row), {name: getattr(row, name) for name in UNPACKED}
    return {**stored, **figures.derived(), "health": figures.health, "label": labels.get(row.value, row.value)}
