"""Alerts: what rules make of what happened, and when somebody is told.

An alert opens by an event and clears by one, whatever the hour and whether it is muted. It is told once it has lasted
the rule's delay, in the rule's hours, unless the stream is muted or somebody has acknowledged the issue; again each
so many minutes, if the rule says so; and once more when it clears. One that cleared before it was told is forgotten.
Many small writes are made without anybody being held up by them."""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from dashboard.alerts import messages
from dashboard.models import Alert, AlertRule
from dashboard.streams import actions as streams_actions
from dashboard.streams.actions import ACKNOWLEDGED, is_of_level
from ingest import clean
from ingest.contracts import end_of
from ingest.contracts.figures import NODE_CHECKS
from ingest.delivery import engine
from ingest.models import Node, OutboxEvent, Session, StatusEvent, Stream
from ingest.models.deliveries import scoped
from ingest.services.database import PASSING

logger = logging.getLogger(__name__)

PAUSE_S = 0.02
"""At least."""
LONGEST_PAUSE_S = 0.2
PAUSES = 2
"""For as long as it took, so often: who waits for SQLite tries again each 0.1 s, and has to meet a pause."""


@contextmanager
def paced_transaction() -> Iterator[None]:
    """A short transaction, and then a pause that is longer than it.

    On SQLite one writes at a time: encoders are admitted in the pauses.
    """
    with transaction.atomic():
        began = time.monotonic()
        yield
    time.sleep(min(LONGEST_PAUSE_S, max(PAUSE_S, PAUSES * (time.monotonic() - began))))


@contextmanager
def isolated(name: str) -> Iterator[None]:
    """Logs what goes wrong with one, so that it doesn't hold up the others.

    Raises PASSING: the database is away, busy, or takes no writes. That is nobody's fault.
    """
    try:
        yield
    except PASSING:
        raise
    except Exception:
        logger.exception("%s is left out.", name)


Kind = OutboxEvent.Kind
About = AlertRule.About

ENDED, NOT_LIVE = "ended", "not_live"
ABOUTS = {ENDED: About.ENDED, NOT_LIVE: About.NOT_LIVE}
"""Of alerts' checks; all others are of health."""
LOST_AFTER = timedelta(minutes=1)


def enabled_rules() -> list[AlertRule]:
    return list(scoped(AlertRule.objects.filter(enabled=True)))


def handle(event: OutboxEvent, rules: Iterable[AlertRule]) -> None:
    """Opens and clears alerts of the enabled rules by an event, within its transaction."""
    match event.kind:
        case Kind.HEALTH_OPENED:
            _opened(event, rules)
        case Kind.HEALTH_CLEARED:
            _clear(_of_check(event), event.at, "The issue is over.")
        case Kind.UNPUBLISH:
            _ended(event, rules)
        case Kind.PUBLISH:
            back = Alert.objects.filter(rule__about=About.ENDED, subject=_subject(event))
            _clear(back, event.at, "It is back.")


def _covering(rules: Iterable[AlertRule], event: OutboxEvent, about: str) -> list[AlertRule]:
    app = event.payload.get("app", "")
    return [rule for rule in rules if rule.about == about and rule.covers(app, event.stream_id)]


def _opened(event: OutboxEvent, rules: Iterable[AlertRule]) -> None:
    issue = event.payload["health"]
    level = issue["level"]
    matching = [rule for rule in _covering(rules, event, About.HEALTH) if rule.matches(issue["check"], level)]
    _open(matching, event, issue)
    open_ = _open_ones(_of_check(event)).select_related("rule")
    less = [alert.pk for alert in open_ if not alert.rule.matches(issue["check"], level)]
    if less:
        _clear(Alert.objects.filter(pk__in=less), event.at, f"It is at level {level} now.")


def _ended(event: OutboxEvent, rules: Iterable[AlertRule]) -> None:
    _clear(Alert.objects.filter(rule__about=About.HEALTH, session=event.session_id), event.at, "The stream ended.")
    end = event.payload["end"]
    if end_of(end["reason"]).is_expected or (event.stream_id and _live([event.stream_id])):
        return
    description = f" {end['description']}" if end["description"] else ""
    issue = {
        "check": ENDED,
        "level": "bad",
        "title": f"The stream ended: {end['reason'].replace('_', ' ')}.{description}",
        "actual": end["reason"],
        "expected": "",
        "advice": "Check that the encoder is running, then its uplink.",
    }
    _open(_covering(rules, event, About.ENDED), event, issue)


def _live(streams: Iterable[Stream | int]) -> set[int]:
    """Those that somebody publishes, for more than a test."""
    open_ = Session.objects.filter(kind=Session.Kind.PUBLISH, ended_at__isnull=True, is_test=False)
    found = open_.filter(stream__in=list(streams)).values_list("stream", flat=True)
    return {pk for pk in found if pk is not None}


def check_rules(now: datetime) -> None:
    """Streams that are to be live at certain hours, and nodes, bring no event: rules look at them, and go by that."""
    rules = enabled_rules()
    if not rules:  # None has an open alert then (switched_off).
        return
    with isolated("What nodes say of themselves"):
        _check_nodes(rules, now)
    _clear_of_changed_rules(rules, now)
    gone = Alert.objects.filter(rule__about=About.HEALTH, session__ended_at__lt=now - LOST_AFTER)
    _clear(gone, now, "The stream ended.")  # Should no event have said so.
    for rule in rules:
        if rule.about == About.NOT_LIVE:
            with isolated(f"The rule {rule.name}"):
                _check_streams(rule, now)


def _check_streams(rule: AlertRule, now: datetime) -> None:
    began = rule.began(now)
    of_rule = Alert.objects.filter(rule=rule)
    if began is None:
        _clear(of_rule, now, "The rule's hours are over.")
        return
    wanted = Q(pk__in=rule.streams.all()) | Q(application__in=rule.applications.all())
    can = Stream.objects.filter(wanted, enabled=True, application__enabled=True)
    streams = list(can.select_related("application").distinct())
    live = _live(streams)
    _clear(of_rule.filter(stream__in=live), now, "It is live.")
    _clear(of_rule.exclude(stream__in=streams), now, "It need not be live any more.")
    known = set(_open_ones(of_rule).values_list("subject", flat=True))
    for stream in streams:
        if stream.pk not in live and stream.path not in known:
            with paced_transaction():
                _open_not_live(rule, stream, began)


def _clear_of_changed_rules(enabled: Iterable[AlertRule], now: datetime) -> None:
    """Clears what is not its rule's business any more: nothing else would, and it would be repeated for ever."""
    rules = {rule.pk: rule for rule in enabled}
    over: dict[str, list[int]] = {}
    for alert in _open_ones(Alert.objects.filter(rule__in=rules)).select_related("stream__application"):
        why = _why_over(alert, rules[alert.rule_id])
        if why:
            over.setdefault(why, []).append(alert.pk)
    for why, pks in over.items():
        _clear(Alert.objects.filter(pk__in=pks), now, why)


def _why_over(alert: Alert, rule: AlertRule) -> str:
    """ "": it is still the rule's business."""
    is_node, about = alert.check_code in NODE_CHECKS, ABOUTS.get(alert.check_code, About.HEALTH)
    if about != rule.about or (about == About.HEALTH and not rule.matches(alert.check_code, alert.level)):
        return "The rule was changed."
    app = alert.subject.partition("/")[0]
    if rule.is_scoped if is_node else not rule.covers(app, alert.stream_id):
        return "The rule is about others now."
    if about == About.ENDED:
        if alert.stream is None:
            return "The stream was deleted."
        if not (alert.stream.enabled and alert.stream.application.enabled):
            return "The stream was disabled."
    return ""


def rule_disabled(rule: AlertRule, now: datetime) -> None:
    """Nobody is told that its alerts are over."""
    _clear(Alert.objects.filter(rule=rule), now, "The rule was switched off.")
    Alert.objects.filter(rule=rule, clear_told_at=None).update(clear_told_at=now)


def _check_nodes(rules: Iterable[AlertRule], now: datetime) -> None:
    """Rules of health issues that are not limited to some streams."""
    known = {
        (node.name, issue["check"]): issue
        for node in Node.objects.exclude(state=Node.State.DOWN).exclude(issues=None)
        for issue in node.issues or ()
    }
    for rule in rules:
        if rule.about == About.HEALTH and not rule.is_scoped:
            matching = {at: issue for at, issue in known.items() if rule.matches(issue["check"], issue["level"])}
            for (node, _), issue in matching.items():
                _make([rule], node, None, None, datetime.fromtimestamp(issue["since"], UTC), issue)
            for alert in _open_ones(Alert.objects.filter(rule=rule, check_code__in=NODE_CHECKS)):
                if (alert.subject, alert.check_code) not in matching:
                    _clear(Alert.objects.filter(pk=alert.pk), now, "The issue is over.")


def _open_not_live(rule: AlertRule, stream: Stream, began: datetime) -> None:
    last = stream.sessions.filter(kind=Session.Kind.PUBLISH, is_test=False).order_by("-started_at").first()
    since = max(began, last.ended_at) if last is not None and last.ended_at else began
    _make(
        [rule],
        stream.path,
        stream.pk,
        last.pk if last is not None else None,
        since,
        {
            "check": NOT_LIVE,
            "level": "bad",
            "title": "The stream is not live.",
            "actual": "offline",
            "expected": "live",
            "advice": "Start its encoder; refused attempts say why one could not publish.",
        },
    )


# --- Rows ---


def _subject(event: OutboxEvent) -> str:
    return f"{event.payload['app']}/{event.payload['name']}"


def _of_check(event: OutboxEvent) -> "QuerySet[Alert]":
    check = event.payload["health"]["check"]
    return Alert.objects.filter(rule__about=About.HEALTH, subject=_subject(event), check_code=check)


def _open_ones(alerts: "QuerySet[Alert]") -> "QuerySet[Alert]":
    return alerts.filter(cleared_at__isnull=True)


def _open(rules: Sequence[AlertRule], event: OutboxEvent, issue: Mapping[str, Any]) -> None:
    _make(rules, _subject(event), event.stream_id, event.session_id, event.at, issue)


LENGTHS = {"level": 8, "title": 512, "actual": 255, "expected": 255, "advice": 512}
"""Of what an alert has of its issue, in characters."""


def _make(
    rules: Sequence[AlertRule], subject: str, stream: int | None, session: Any, at: datetime, issue: Mapping[str, Any]
) -> None:
    """Opens one for each rule; those that are open already get the new words."""
    if not rules:
        return
    words = {name: clean.text(issue.get(name) or "", length) for name, length in LENGTHS.items()}
    open_ = _open_ones(Alert.objects.filter(subject=subject, check_code=issue["check"], rule__in=rules))
    known = set(open_.values_list("rule", flat=True))
    if known:
        open_.update(**words)
    made = [
        Alert(
            rule=rule,
            subject=subject,
            stream_id=stream,
            session_id=session,
            check_code=issue["check"],
            opened_at=at,
            due_at=at + timedelta(seconds=rule.delay_s),
            **words,
        )
        for rule in rules
        if rule.pk not in known
    ]
    Alert.objects.bulk_create(made, ignore_conflicts=True)  # Another worker may have been first.


def _clear(alerts: "QuerySet[Alert]", at: datetime, why: str) -> None:
    """Those that nobody was told of go; marked first, so that nobody is told meanwhile."""
    if _open_ones(alerts).update(cleared_at=at, cleared_why=why):
        Alert.objects.filter(told=0, cleared_at__isnull=False, clear_told_at__isnull=True).delete()


# --- Who is told ---


def notify(now: datetime) -> int:
    """Has told what is to be told by now; how many alerts."""
    sent = 0
    rows = Alert.objects.filter(rule__enabled=True).select_related("rule", "stream").order_by("opened_at")
    for alert in _open_ones(rows.filter(due_at__lte=now)):
        with isolated(f"The alert {alert.pk}"):
            sent += _notify_open(alert, now)
    for alert in rows.filter(told__gt=0, cleared_at__isnull=False, clear_told_at__isnull=True):
        with isolated(f"The end of the alert {alert.pk}"):
            sent += _notify_cleared(alert, now)
    return sent


def silence_reason(alert: Alert, now: datetime) -> str:
    """Why nobody is told of an open alert now; "": somebody is."""
    rule = alert.rule
    if now < alert.due_at:
        return "It has not lasted long enough yet."
    if alert.stream_id is not None and streams_actions.is_muted(alert.stream_id, alert.check_code, now):
        return "The stream is muted."
    if is_acknowledged(alert):
        return "Somebody has acknowledged it."
    if rule.began(now) is None:
        return "It is outside of the rule's hours."
    return ""


def is_acknowledged(alert: Alert) -> bool:
    """The issue, as bad as it is now; or the end of the session, by which the stream is not live."""
    if alert.session_id is None:
        return False
    acks = StatusEvent.objects.filter(session=alert.session_id, kind=ACKNOWLEDGED, at__gte=alert.opened_at)
    if alert.check_code in (ENDED, NOT_LIVE):
        return acks.filter(code=streams_actions.SESSION_END).exists()
    return any(is_of_level(ack, alert.level) for ack in acks.filter(code=alert.check_code))


def _notify_open(alert: Alert, now: datetime) -> bool:
    repeat = timedelta(minutes=alert.rule.repeat_min)
    if alert.told_at is not None and (not repeat or now < alert.told_at + repeat):
        return False
    if silence_reason(alert, now):
        return False
    deliveries = messages.alert_deliveries(alert, "alert.repeated" if alert.told else "alert.opened", now)
    with paced_transaction():
        mine = Alert.objects.filter(pk=alert.pk, told=alert.told, cleared_at__isnull=True)
        if not mine.update(told=alert.told + 1, told_at=now):
            return False
        engine.enqueue(deliveries)
    return True


def _notify_cleared(alert: Alert, now: datetime) -> bool:
    deliveries = messages.alert_deliveries(alert, "alert.cleared", now)
    with paced_transaction():
        mine = Alert.objects.filter(pk=alert.pk, clear_told_at__isnull=True)
        if not mine.update(clear_told_at=now):
            return False
        if alert.stream_id is not None and streams_actions.is_muted(alert.stream_id, alert.check_code, now):
            return False
        engine.enqueue(deliveries)
    return True
