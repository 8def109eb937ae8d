"""/alerts, /silences, /webhooks, /services and /deliveries: what is open or was, who is notified, what became of each
message. No secrets."""

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Body, Field, Query, Router, Schema, Status
from ninja.errors import HttpError

from dashboard.access import actor_of
from dashboard.alerts import queries as alerts_queries
from dashboard.api_base import AsText, Id, ListOf, Paging, Problem, Text, When, allow, listed
from dashboard.models import Mute
from dashboard.streams import silences
from dashboard.streams.api import MuteIn, MuteOut
from ingest.models import Application
from ingest.services.roles import Ability

router = Router(tags=["alerts"])

ALERT_LOOKUPS = {
    "subject": "subject",
    "check": "check_code",
    "level": "level",
    "open": "cleared_at__isnull",
    "since": "opened_at__gte",
    "until": "opened_at__lt",
}

DELIVERY_LOOKUPS = {
    "webhook": "webhook__name",
    "service": "service__name",
    "state": "state",
    "kind": "kind",
    "since": "created_at__gte",
}


class AlertOut(Schema):
    """Something that a rule found."""

    id: int
    rule: str = Field(alias="rule.name")
    kind: str = Field(description="What the rule alerts on: health, ended (a dropped stream), not_live.")
    subject: str = Field(description="What it is about: application/name.")
    session_id: AsText
    check: str = Field(alias="check_code")
    level: str
    title: str
    actual: str
    expected: str
    advice: str
    opened_at: datetime
    told: int = Field(description="How often messages of it were made: once as it opened, then by the rule's repeat.")
    told_at: datetime | None
    delivered: int = Field(description="Messages of it that arrived, of all recipients.")
    queued: int = Field(description="That wait, or are tried again.")
    failed: int = Field(description="That were given up.")
    delivered_at: datetime | None
    cleared_at: datetime | None
    cleared_why: str
    outcome: Literal["", "fixed", "eased", "dropped", "ended", "withdrawn"] = Field(
        description="What became of it. Only fixed is an all-clear: with the others the stream ended (dropped: "
        "unexpectedly), the issue fell below the rule's level, or the rule doesn't watch it any more. Empty: open."
    )
    end_reason: str = Field(
        description="Why the stream ended, such as tcp_reset, if that is what it tells of or ended by."
    )


class WebhookOut(Schema):
    """A service that is notified. Its URL may hold a secret: only the host is given."""

    id: int
    name: str
    host: str
    enabled: bool
    kinds: list[str] = Field(description="Empty: all.")
    scope: str
    waiting: int
    dead: int
    last_state: str | None
    last_at: datetime | None
    last_error: str | None

    @staticmethod
    def resolve_scope(row: Any) -> str:
        return alerts_queries.scope(row)


class ServiceOut(Schema):
    """A chat or pager that alerts are sent to. Of its secrets the last characters are given."""

    id: int
    name: str
    kind: Literal["slack", "discord", "teams", "telegram", "pagerduty", "ntfy"]
    shown: str
    enabled: bool
    waiting: int
    dead: int
    last_state: str | None
    last_at: datetime | None
    last_error: str | None


class DeliveryOut(Schema):
    """One message to one receiver."""

    id: Id
    kind: str
    to: str = Field(alias="receiver")
    state: Literal["waiting", "done", "dead", "dropped"] = Field(
        description="dead: given up. dropped: not sent, as it cleared before it could be."
    )
    attempts: int
    created_at: datetime
    next_at: datetime | None = Field(description="Of the next try, while it waits.")
    ended_at: datetime | None
    status_code: int | None
    error: str
    duration_ms: int | None

    @staticmethod
    def resolve_next_at(row: Any) -> datetime | None:
        found: datetime | None = row.next_at if row.state == "waiting" else None
        return found


class AlertFilters(Paging):
    subject: Text | None = Field(None, description="application/name.")
    check: Text | None = None
    level: Literal["warning", "bad"] | None = None
    open: bool | None = Field(None, description="true: not cleared yet; false: cleared, however.")
    since: When | None = Field(None, description="Opened at this time or later.")
    until: When | None = Field(None, description="Opened before this time.")


class DeliveryFilters(Paging):
    webhook: Text | None = Field(None, description="By its name.")
    service: Text | None = Field(None, description="By its name.")
    state: Literal["waiting", "done", "dead", "dropped"] | None = None
    kind: Text | None = None
    since: When | None = Field(None, description="Made at this time or later.")


@router.get("/alerts", response=ListOf[AlertOut])
def alerts(request: HttpRequest, filters: Query[AlertFilters]) -> dict[str, object]:
    """What rules found, the last opened first."""
    return listed(alerts_queries.alerts(), filters, ALERT_LOOKUPS)


@router.get("/webhooks", response=ListOf[WebhookOut])
def webhooks(request: HttpRequest, paging: Query[Paging]) -> dict[str, object]:
    """Services that are notified of what happens, the last made first."""
    return listed(alerts_queries.webhooks().order_by("-pk"), paging)


@router.get("/services", response=ListOf[ServiceOut])
def services(request: HttpRequest, paging: Query[Paging]) -> dict[str, object]:
    """Chats and pagers that alerts are sent to, the last made first."""
    return listed(alerts_queries.services().order_by("-pk"), paging)


@router.get("/deliveries", response=ListOf[DeliveryOut])
def deliveries(request: HttpRequest, filters: Query[DeliveryFilters]) -> dict[str, object]:
    """What was sent to webhooks, services and by e-mail, and what became of it; the latest first."""
    return listed(alerts_queries.deliveries(), filters, DELIVERY_LOOKUPS)


class SilenceIn(MuteIn):
    app: Text | None = Field(None, description="All streams of this application. null: everything.")


@router.get("/silences", response=ListOf[MuteOut])
def all_silences(request: HttpRequest) -> dict[str, object]:
    """Every silence that holds now, of streams, applications, or everything; the last made first."""
    rows = list(silences.in_force())
    return {"items": rows, "count": len(rows)}


@router.post("/silences", response={201: MuteOut, 409: Problem}, auth=allow(Ability.NOTE))
def silence(request: HttpRequest, body: Body[SilenceIn | None] = None) -> Status[Mute]:
    """No alerts of an application's streams, or of anything, for a while: a maintenance window."""
    body = body or SilenceIn(check="", hours=None, until=None, app=None)
    target = get_object_or_404(Application, name=body.app) if body.app is not None else None
    made = silences.silence(target, actor_of(request), check=body.check, until=body.end(), note=body.note)
    return Status(201, made)


@router.delete("/silences/{pk}", response={204: None}, auth=allow(Ability.NOTE))
def lift(request: HttpRequest, pk: int) -> Status[None]:
    """Lift one, by its id. 404 when it holds no more."""
    if not silences.lift(get_object_or_404(silences.in_force(), pk=pk), actor_of(request)):
        raise HttpError(404, "It holds no more.")
    return Status(204, None)
