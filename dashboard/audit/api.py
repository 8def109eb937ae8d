"""/audit: who did what, when, from where."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from dashboard.api_base import ListOf, Paging, Text, When, allow, listed
from dashboard.audit import queries as audit_queries
from ingest.services.roles import Ability

router = Router(tags=["audit"])


class AuditOut(Schema):
    """One act of a person, of a script with a token, or of a command."""

    at: datetime
    actor: str = Field(description="A user's name; `token NAME`; `COMMAND (USER OF THE SYSTEM)`.")
    address: str = Field(description="Empty: on the server itself.")
    action: str = Field(description="Subject and verb, such as `key.rotate`.")
    target: str = Field(description="What it was done to, as people call it.")
    stream: str | None
    session_id: str | None
    detail: dict[str, Any] = Field(description="`changed`: by field, from what to what.")


class AuditFilters(Paging):
    actor: Text | None = None
    action: Text | None = None
    address: Text | None = None
    app: Text | None = None
    name: Text | None = None
    text: Text | None = Field(None, description="In who, what or to what.")
    since: When | None = Field(None, description="At this time or later.")
    until: When | None = Field(None, description="Before this time.")


@router.get("/audit", response=ListOf[AuditOut], auth=allow(Ability.SEE_AUDIT))
def audit(request: HttpRequest, filters: Query[AuditFilters]) -> dict[str, object]:
    """The latest first."""
    rows = audit_queries.rows(filters.model_dump(), text=filters.text or "")
    return listed(rows, filters, item=audit_queries.as_dict)
