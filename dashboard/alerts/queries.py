"""Rules, webhooks, alerts and deliveries as pages and API show them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import CharField, Count, Max, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Coalesce, Concat
from django.utils import timezone

from analytics.models.reports import REPORT
from dashboard.alerts import evaluation
from dashboard.alerts.kinds import KINDS, Health
from dashboard.models import DAYS, LEVELS, Alert, AlertRule
from dashboard.streams.silences import Silences
from ingest.contracts.figures import CHECK_NAMES
from ingest.delivery.email import NO_MAIL_SERVER, EmailChannel, is_mail_set
from ingest.models import Delivery, Service, Webhook


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """`quiet`: why nobody is notified of it now; "": somebody was or will be. `undelivered`: why messages of it have
    not arrived, each reason once.
    """

    alert: Alert
    quiet: str
    undelivered: list[str]


def open_alerts() -> list[OpenAlert]:
    now = timezone.now()
    rows = list(alerts().filter(cleared_at__isnull=True))
    why, held = _undelivered(rows), Silences.load(now)
    return [OpenAlert(alert, evaluation.silence_reason(alert, held), why.get(alert.pk, [])) for alert in rows]


def alerts() -> QuerySet[Alert]:
    """With how many messages of each arrived (`delivered`, the last at `delivered_at`), are on their way, or failed."""
    rows = Alert.objects.select_related("rule", "stream__application").order_by("-opened_at", "-pk")
    of_it = Delivery.objects.filter(about=Concat(Value("alert:"), Cast(OuterRef("pk"), CharField()))).order_by()
    last = of_it.filter(state=Delivery.State.DONE).values("about").annotate(last=Max("ended_at")).values("last")
    return rows.annotate(
        delivered=_counted(of_it, Delivery.State.DONE),
        queued=_counted(of_it, Delivery.State.WAITING),
        failed=_counted(of_it, Delivery.State.DEAD),
        delivered_at=Subquery(last),
    )


def _counted(deliveries: "QuerySet[Delivery]", state: Delivery.State) -> Coalesce:
    found = deliveries.filter(state=state).values("about").annotate(count=Count("*"))
    return Coalesce(Subquery(found.values("count")), 0)


MOST_UNDELIVERED = 500
"""Messages that are looked at for why they have not arrived."""


def _undelivered(rows: Iterable[Alert]) -> dict[int, list[str]]:
    """By alert: why messages of it have not arrived, the latest reason first."""
    lost = Delivery.objects.filter(about__in=[f"alert:{alert.pk}" for alert in rows], state__in=("waiting", "dead"))
    reasons: dict[int, list[str]] = {}
    for about, channel, error in lost.order_by("-number").values_list("about", "channel", "error")[:MOST_UNDELIVERED]:
        of_alert = reasons.setdefault(int(about.rpartition(":")[2]), [])
        why = NO_MAIL_SERVER if channel == EmailChannel.name and not is_mail_set() else error
        words = f"{why[:1].lower()}{why[1:]}"
        if words and words not in of_alert:
            of_alert.append(words)
    return reasons


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule in words."""

    rule: AlertRule
    kinds: list[str]
    checks: str
    """Of health issues; "": it does not alert on them."""
    streams: str
    hours: str


def rules() -> list[RuleRow]:
    open_ = Count("alerts", filter=Q(alerts__cleared_at__isnull=True), distinct=True)
    rows = AlertRule.objects.prefetch_related("applications", "streams__application", "webhooks", "services")
    rows = rows.annotate(open=open_)
    return [RuleRow(rule, _kinds(rule), _checks(rule), scope(rule), hours(rule)) for rule in rows]


def _kinds(rule: AlertRule) -> list[str]:
    return [kind.label for kind in KINDS.values() if kind.code in rule.kinds]


def _checks(rule: AlertRule) -> str:
    if Health.code not in rule.kinds:
        return ""
    names = ", ".join(CHECK_NAMES.get(check, check) for check in rule.checks) or "all checks"
    return f"{names}; {'bad only' if rule.level == LEVELS[-1] else f'{rule.level} and worse'}"


def webhooks() -> QuerySet[Webhook]:
    """With the last that each was sent, and how many messages wait or were given up."""
    return Webhook.objects.prefetch_related("applications", "streams__application").annotate(**_delivered("webhook"))


def services() -> QuerySet[Service]:
    """With the same."""
    return Service.objects.annotate(**_delivered("service"))


def _delivered(to: str) -> dict[str, Any]:
    """Of a receiver's row, by the field of deliveries that names it."""
    last = Delivery.objects.filter(**{to: OuterRef("pk")}, attempts__gt=0).order_by("-number")
    return {
        "last_state": Subquery(last.values("state")[:1]),
        "last_error": Subquery(last.values("error")[:1]),
        "last_at": Subquery(last.values("created_at")[:1]),
        "last_ms": Subquery(last.values("duration_ms")[:1]),
        "waiting": _count(to, Delivery.State.WAITING),
        "dead": _count(to, Delivery.State.DEAD),
    }


def _count(to: str, state: Delivery.State) -> Coalesce:
    """Of its deliveries in a state that has an index of its own: most are done."""
    found = Delivery.objects.filter(**{to: OuterRef("pk")}, state=state).order_by().values(to)
    return Coalesce(Subquery(found.annotate(count=Count("*")).values("count")), 0)


def deliveries() -> QuerySet[Delivery]:
    """Those of reports are on the reports' pages, for those who may send them."""
    return Delivery.objects.exclude(kind=REPORT).select_related("webhook", "service").order_by("-number")


def hours(rule: AlertRule) -> str:
    days = ", ".join(DAYS[day][:3] for day in rule.days)
    clock = f"{rule.from_time:%H:%M} to {rule.until_time:%H:%M}" if rule.from_time and rule.until_time else ""
    return " ".join(part for part in (days, clock, rule.time_zone if clock or days else "") if part) or "always"


def scope(row: AlertRule | Webhook) -> str:
    names = [f"{application.name}/*" for application in row.applications.all()]
    names += [stream.path for stream in row.streams.all()]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more or ("no stream: what was chosen is deleted" if row.is_scoped else "every stream")
