"""Rules, webhooks, alerts and deliveries as pages and API show them."""

from dataclasses import dataclass

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from analytics.models.reports import REPORT
from dashboard.alerts import evaluation
from dashboard.alerts.kinds import KINDS, Health
from dashboard.models import LEVELS, Alert, AlertRule
from ingest.contracts.figures import CHECK_NAMES
from ingest.models import Delivery, Webhook
from ingest.models.hours import DAYS


def open_alerts() -> list[tuple[Alert, str]]:
    """With each why nobody is told of it now; "": somebody was or will be."""
    now = timezone.now()
    rows = alerts().filter(cleared_at__isnull=True)
    return [(alert, evaluation.silence_reason(alert, now)) for alert in rows]


def alerts() -> QuerySet[Alert]:
    return Alert.objects.select_related("rule", "stream__application").order_by("-opened_at", "-pk")


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
    rows = AlertRule.objects.prefetch_related("applications", "streams__application", "webhooks").annotate(open=open_)
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
    last = Delivery.objects.filter(webhook=OuterRef("pk"), attempts__gt=0).order_by("-number")
    return Webhook.objects.prefetch_related("applications", "streams__application").annotate(
        last_state=Subquery(last.values("state")[:1]),
        last_error=Subquery(last.values("error")[:1]),
        last_at=Subquery(last.values("created_at")[:1]),
        waiting=_count(Delivery.State.WAITING),
        dead=_count(Delivery.State.DEAD),
    )


def _count(state: Delivery.State) -> Coalesce:
    """Of a webhook's deliveries in a state that has an index of its own: most are done."""
    found = Delivery.objects.filter(webhook=OuterRef("pk"), state=state).order_by().values("webhook")
    return Coalesce(Subquery(found.annotate(count=Count("*")).values("count")), 0)


def deliveries() -> QuerySet[Delivery]:
    """Those of reports are on the reports' pages, for those who may send them."""
    return Delivery.objects.exclude(kind=REPORT).select_related("webhook").order_by("-number")


def hours(rule: AlertRule) -> str:
    days = ", ".join(DAYS[day][:3] for day in rule.days)
    clock = f"{rule.from_time:%H:%M} to {rule.until_time:%H:%M}" if rule.from_time and rule.until_time else ""
    return " ".join(part for part in (days, clock, rule.time_zone if clock or days else "") if part) or "always"


def scope(row: AlertRule | Webhook) -> str:
    names = [f"{application.name}/*" for application in row.applications.all()]
    names += [stream.path for stream in row.streams.all()]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more or ("no stream: what was chosen is deleted" if row.is_scoped else "every stream")
