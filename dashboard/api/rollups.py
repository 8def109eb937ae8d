"""/rollups: each stream's figures by hour and by day."""

from typing import Literal

from django.http import HttpRequest
from ninja import Field, ModelSchema, Query, Router

from analytics.models import FIGURES, IDENTITY, Rollup
from dashboard.api.auth import allow
from dashboard.api.lists import ListOf, Paging, Text, When, cut
from dashboard.history import narrow
from dashboard.permissions import Ability

router = Router(tags=["history"])

LOOKUPS = {"grain": "grain", "app": "app", "name": "name", "since": "start__gte", "until": "start__lt"}


class RollupFilters(Paging):
    grain: Literal["hour", "day"] = "hour"
    stream: Text | None = Field(None, description="As application/name; none: all streams.")
    since: When | None = Field(None, alias="from", description="Hours or days that begin at this time or later.")
    until: When | None = Field(None, alias="to", description="Hours or days that begin before this time.")


class RollupOut(ModelSchema):
    """A stream's hour or day (UTC). Bitrates are kbit/s over its samples, one a second; null where there is none."""

    player_minutes: float
    delivered_gb: float
    health: Literal["good", "warning", "bad", "none"]

    class Meta:
        model = Rollup
        fields = [*IDENTITY, *FIGURES, "metric_version"]


@router.get("/rollups", response=ListOf[RollupOut], auth=allow(Ability.VIEW), url_name="rollups")
def rollups(request: HttpRequest, filters: Query[RollupFilters]) -> dict[str, object]:
    """What the Spark job made of the recorded samples, the latest first."""
    app, _, name = (filters.stream or "").partition("/")
    values = {"grain": filters.grain, "app": app, "name": name, "since": filters.since, "until": filters.until}
    page, count = cut(narrow(Rollup.objects.order_by("-start", "app", "name"), LOOKUPS, values), filters)
    return {"items": page, "count": count}
