"""/rollups: figures by hour and by day of streams, keys, applications, encoders, nodes and broadcasts."""

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Field, ModelSchema, Query, Router, Schema
from pydantic import AfterValidator, create_model

from analytics import metrics
from analytics.figures import DERIVED, Figures
from analytics.models import FIGURES, IDENTITY, PACKED, Rollup
from dashboard.analytics.comparing import key_labels
from dashboard.api.auth import allow
from dashboard.api.lists import ListOf, Text, Times, When, cut
from dashboard.history import narrow
from dashboard.permissions import Ability

router = Router(tags=["history"])

LOOKUPS = {
    "by": "dimension",
    "grain": "grain",
    "app": "app",
    "name": "name",
    "value": "value",
    "since": "start__gte",
    "until": "start__lt",
}


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
    samples, one a second. `value` is what tells it apart, `label` what pages call it. What is not defined is null: a
    share of nothing, a mean over none. docs/analytics.md says what each figure means.
    """

    label: str
    health: Literal["good", "warning", "bad", "none"]

    class Meta:
        model = Rollup
        fields = [*IDENTITY, *FIGURES, "metric_version"]


@router.get("/rollups", response=ListOf[RollupOut], auth=allow(Ability.VIEW), url_name="rollups")
def rollups(request: HttpRequest, filters: Query[RollupFilters]) -> dict[str, object]:
    """What the Spark job made of the recorded samples, the latest first."""
    app, _, name = (filters.stream or "").partition("/")
    values = {**filters.dict(), "app": app, "name": name}
    rows = Rollup.objects.defer(*PACKED).order_by("-start", "app", "name", "value")
    page, count = cut(narrow(rows, LOOKUPS, {each: values[each] for each in LOOKUPS}), filters)
    labels = key_labels(row.value for row in page) if filters.by == "key" else {}
    return {"items": [_item(row, labels) for row in page], "count": count}


def _item(row: Rollup, labels: dict[str, str]) -> dict[str, Any]:
    figures = Figures.of([row])
    derived = {name: getattr(figures, name) for name in (*DERIVED, "health")}
    stored = {name: getattr(row, name) for name in STORED}
    return {**stored, **derived, "label": labels.get(row.value, row.value)}


STORED = (*IDENTITY, *FIGURES, "metric_version")
