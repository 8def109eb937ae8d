"""Alerts: what rules make of what happened, and when somebody is told.

An alert opens by an event or by how things are, and clears likewise, whatever the hour and whether it is silenced: as
its kind says (`dashboard.alerts.kinds`). It is told once it has lasted the rule's delay, in the rule's hours, unless it
is silenced or somebody has acknowledged the issue; again each so many minutes, if the rule says so, and as a silence
ends; and once more when it clears. One that cleared before it was told is forgotten."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from dashboard.alerts import messages
from dashboard.alerts.kinds import KINDS, RULE_CHANGED, covering
from dashboard.alerts.rows import Outcome, clear, isolated, open_ones, paced_transaction
from dashboard.models import Alert, AlertRule
from dashboard.streams import actions as streams_actions
from dashboard.streams import silences
from dashboard.streams.actions import ACKNOWLEDGED, is_of_level
from dashboard.streams.silences import Silences
from ingest.delivery import engine
from ingest.delivery.service_kinds import KINDS as SERVICE_KINDS
from ingest.models import Delivery, OutboxEvent, StatusEvent
from ingest.models.deliveries import scoped

JUDGED_FOR = timedelta(seconds=10)
"""For so long a rule that was saved is held against what is so already: longer than another worker goes by the rules
that it read before.
"""


def enabled_rules() -> list[AlertRule]:
    return list(scoped(AlertRule.objects.filter(enabled=True)))


def handle(event: OutboxEvent, rules: Iterable[AlertRule]) -> None:
    """Opens and clears alerts of the enabled rules by an event, within its transaction."""
    covers = covering(rules, event)
    for kind in KINDS.values():
        kind.on_event(event, _alerting_on(covers, kind.code))


def check_rules(now: datetime) -> None:
    """What brings no event, and rules that were changed."""
    rules = enabled_rules()
    if not rules:  # None has an open alert then (rule_disabled).
        return
    _clear_of_changed_rules(rules, now)
    for kind in KINDS.values():
        kind.look(_alerting_on(rules, kind.code), now)
    unjudged = [rule for rule in rules if rule.unjudged_since is not None]
    if unjudged:
        _judge(unjudged, now)


def _alerting_on(rules: Iterable[AlertRule], code: str) -> list[AlertRule]:
    return [rule for rule in rules if code in rule.kinds]


def _judge(rules: Sequence[AlertRule], now: datetime) -> None:
    """Holds rules that were just saved against what is so already. Again changes nothing."""
    for kind in KINDS.values():
        if those := _alerting_on(rules, kind.code):
            with isolated(f"What new rules make of {kind.label}"):
                kind.judge(those, now)
    done = AlertRule.objects.filter(pk__in=[rule.pk for rule in rules], unjudged_since__lte=now - JUDGED_FOR)
    done.update(unjudged_since=None)


def _clear_of_changed_rules(enabled: Iterable[AlertRule], now: datetime) -> None:
    """Clears what is not its rule's business any more: nothing else would, and it would be repeated for ever."""
    rules = {rule.pk: rule for rule in enabled}
    for alert in open_ones(Alert.objects.filter(rule__in=rules)).select_related("stream__application"):
        rule, kind = rules[alert.rule_id], KINDS[alert.kind]
        why = kind.why_over(alert, rule) if alert.kind in rule.kinds else RULE_CHANGED
        if why:
            clear(Alert.objects.filter(pk=alert.pk), now, Outcome.WITHDRAWN, f"{why} {kind.still(alert)}")


def rule_disabled(rule: AlertRule, now: datetime, why: str = "The rule was switched off.") -> None:
    """Nobody is told that its alerts are over but pagers: what they opened would stay open."""
    clear(Alert.objects.filter(rule=rule), now, Outcome.WITHDRAWN, why)
    untold = Alert.objects.filter(rule=rule, clear_told_at=None)
    for alert in untold.select_related("rule", "stream"):
        engine.enqueue(_to_pagers(messages.alert_deliveries(alert, "alert.cleared", now)))
    untold.update(clear_told_at=now)


def _to_pagers(deliveries: Iterable[Delivery]) -> list[Delivery]:
    return [row for row in deliveries if row.service and SERVICE_KINDS[row.service.kind].resolves]


# --- Who is told ---


def notify(now: datetime) -> int:
    """Has told what is to be told by now; how many alerts."""
    sent = 0
    rows = Alert.objects.filter(rule__enabled=True).select_related("rule", "stream").order_by("opened_at")
    held = Silences.load(now)
    for alert in open_ones(rows.filter(due_at__lte=now)):
        with isolated(f"The alert {alert.pk}"):
            sent += _notify_open(alert, held)
    for alert in rows.filter(told__gt=0, cleared_at__isnull=False, clear_told_at__isnull=True):
        with isolated(f"The end of the alert {alert.pk}"):
            sent += _notify_cleared(alert, held)
    return sent


def silence_reason(alert: Alert, held: Silences) -> str:
    """Why nobody is told of an open alert now; "": somebody is."""
    rule, now = alert.rule, held.now
    if now < alert.due_at:
        return "It has not lasted long enough yet."
    silence = held.of(alert)
    if silence is not None:
        return silences.words(silence)
    if is_acknowledged(alert):
        return "Acknowledged."
    if rule.began(now) is None:
        return "Outside the rule's hours."
    return ""


def is_acknowledged(alert: Alert) -> bool:
    """The issue, as bad as it is now; or the end of the session, by which the stream is not live."""
    if alert.session_id is None:
        return False
    acks = StatusEvent.objects.filter(session=alert.session_id, kind=ACKNOWLEDGED, at__gte=alert.opened_at)
    if KINDS[alert.kind].is_absence:
        return acks.filter(code=streams_actions.SESSION_END).exists()
    return any(is_of_level(ack, alert.level) for ack in acks.filter(code=alert.check_code))


def _notify_open(alert: Alert, held: Silences) -> bool:
    now = held.now
    if alert.told_at is not None and not _is_to_be_told_again(alert, alert.told_at, held):
        return False
    if silence_reason(alert, held):
        return False
    deliveries = messages.alert_deliveries(alert, "alert.repeated" if alert.told else "alert.opened", now)
    if alert.told:
        deliveries = messages.without_waiting(deliveries)
    with paced_transaction():
        mine = Alert.objects.filter(pk=alert.pk, told=alert.told, cleared_at__isnull=True)
        if not mine.update(told=alert.told + 1, told_at=now):
            return False
        engine.enqueue(deliveries)
    return True


def _is_to_be_told_again(alert: Alert, told_at: datetime, held: Silences) -> bool:
    """As the rule repeats it, or since a silence ended in which it was open."""
    repeat = timedelta(minutes=alert.rule.repeat_min)
    return bool(repeat and held.now >= told_at + repeat) or held.ended_since(alert, told_at)


def _notify_cleared(alert: Alert, held: Silences) -> bool:
    """Silenced, pagers alone hear of it: what they opened would stay open."""
    now = held.now
    deliveries = messages.alert_deliveries(alert, "alert.cleared", now)
    if held.of(alert) is not None:
        deliveries = _to_pagers(deliveries)
    with paced_transaction():
        mine = Alert.objects.filter(pk=alert.pk, clear_told_at__isnull=True)
        if not mine.update(clear_told_at=now):
            return False
        engine.enqueue(deliveries)
    return bool(deliveries)
