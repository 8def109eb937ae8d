"""/attempts: refused connects, publishes and plays."""

from datetime import datetime
from typing import Literal

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from dashboard.api_base import ListOf, Paging, Text, When, listed
from dashboard.attempts import queries as attempts_queries
from dashboard.attempts.queries import LOOKUPS

router = Router(tags=["history"])


class AttemptOut(Schema):
    """A refused connect, publish or play, and how often it came again. Names that could be keys are masked."""

    at: datetime = Field(description="When the first came.")
    last_at: datetime = Field(alias="latest")
    count: int
    action: Literal["connect", "publish", "play"]
    app: str
    name: str
    address: str
    encoder: str
    node: str
    reason: str
    code: str
    description: str


class AttemptFilters(Paging):
    app: Text | None = None
    name: Text | None = None
    action: Literal["connect", "publish", "play"] | None = None
    reason: Text | None = None
    address: Text | None = None
    since: When | None = Field(None, description="The last came at this time or later.")
    until: When | None = Field(None, description="The first came before this time.")


@router.get("/attempts", response=ListOf[AttemptOut])
def attempts(request: HttpRequest, filters: Query[AttemptFilters]) -> dict[str, object]:
    """Refused connects, publishes and plays, and why; the latest first."""
    return listed(attempts_queries.attempts(), filters, LOOKUPS)
