"""What rules alert on: one class for each kind, and its row in KINDS.

A kind opens and clears alerts (`rows.make`, `rows.clear`) by events, in their transaction; by looking each few seconds;
or both. The form, pages, API and the evaluation know it by its row."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.db.models import F, Q, QuerySet, Window
from django.db.models.fields.json import KT
from django.db.models.functions import RowNumber

from dashboard.alerts.rows import Outcome, clear, isolated, make, open_ones, paced_transaction
from dashboard.models import Alert, AlertRule
from ingest import clean
from ingest.contracts import end_of
from ingest.contracts.figures import NODE_CHECKS
from ingest.models import HealthOverride, Node, OutboxEvent, PushTarget, Session, Stream
from ingest.models.hours import Missing, expected_streams
from ingest.services.push_advice import advice

Happened = OutboxEvent.Kind


class Kind:
    """`rules`: those enabled that alert on it, with their scopes prefetched; of an event only those that cover it."""

    code: ClassVar[str]
    label: ClassVar[str]
    """As a check box says it."""
    help: ClassVar[str]
    needs_streams: ClassVar[bool] = False
    """A rule that has hours has to name streams or applications."""
    is_absence: ClassVar[bool] = True
    """It is about a stream that is not there: who acknowledges the end of its session has acknowledged it."""

    def on_event(self, event: OutboxEvent, rules: Sequence[AlertRule]) -> None:
        """Within the event's transaction. Also asked where no rule is interested: alerts clear by events, too."""

    def look(self, rules: Sequence[AlertRule], now: datetime) -> None:
        """Each few seconds: for what brings no event, or whose event was lost."""

    def judge(self, rules: Sequence[AlertRule], now: datetime) -> None:
        """Rules that were just saved: opens what is so already."""

    def why_over(self, alert: Alert, rule: AlertRule) -> str:
        """Why an open alert is not its rule's business any more, which alerts on this kind still; "": it is."""
        app = alert.subject.partition("/")[0]
        if not rule.covers(app, alert.stream_id):
            return "The rule covers other streams now."
        if alert.stream is None:
            return "The stream was deleted."
        if not (alert.stream.enabled and alert.stream.application.enabled):
            return "The stream was disabled."
        return ""

    def still(self, alert: Alert) -> str:
        """A sentence: what is so all the same where an alert is withdrawn."""
        return STILL_OFF

    def ended(self, alert: Alert, reason: str) -> tuple[Outcome, str]:
        """What comes of it as its stream is gone, and why."""
        outcome = Outcome.ENDED if end_of(reason).is_expected else Outcome.DROPPED
        return outcome, f"{ended_words(reason)} {self.still(alert)}"


class Health(Kind):
    code = "health"
    label = "Health issues"
    help = "A check finds a stream, or a node, warning or bad."
    is_absence = False

    def on_event(self, event: OutboxEvent, rules: Sequence[AlertRule]) -> None:
        match event.kind:
            case Happened.HEALTH_OPENED:
                self._opened(event, rules)
            case Happened.HEALTH_CLEARED:
                if event.payload["health"].get("by") != SESSION_ENDED:
                    self._cleared(event)
            case Happened.UNPUBLISH:
                of_session = Alert.objects.filter(kind=self.code, session=event.session_id)
                self._ended(of_session, event.at, event.payload["end"]["reason"])

    def look(self, rules: Sequence[AlertRule], now: datetime) -> None:
        with isolated("What nodes say of themselves"):
            self._look_at_nodes(rules, now)
        gone = Alert.objects.filter(kind=self.code, session__ended_at__lt=now - LOST_AFTER)
        for reason in open_ones(gone).values_list("session__end_reason", flat=True).distinct():
            self._ended(gone.filter(session__end_reason=reason), now, reason)  # Should no event have said so.

    def judge(self, rules: Sequence[AlertRule], now: datetime) -> None:
        """By the last that was written of each check of those who publish: what alerts are told."""
        of_open = OutboxEvent.objects.filter(session__ended_at=None, session__kind=Session.Kind.PUBLISH)
        health = of_open.filter(kind__in=(Happened.HEALTH_OPENED, Happened.HEALTH_CLEARED))
        place = Window(
            RowNumber(),
            partition_by=[F("session"), KT("payload__health__check")],
            order_by=[F("at").desc(), F("sequence").desc(nulls_last=True)],
        )
        known = set(open_ones(Alert.objects.filter(rule__in=rules)).values_list("rule", "subject", "check_code"))
        for event in health.annotate(place=place).filter(place=1).order_by("at"):
            if event.kind != Happened.HEALTH_OPENED:  # Of the last alone: asked before, the database would go by it.
                continue
            new = [
                rule
                for rule in self._matching(event, covering(rules, event))
                if (rule.pk, subject_of(event), event.payload["health"]["check"]) not in known
            ]
            if new:
                with paced_transaction():
                    self._open(event, new)

    def why_over(self, alert: Alert, rule: AlertRule) -> str:
        if not rule.matches(alert.check_code, alert.level):
            return RULE_CHANGED
        is_node = alert.check_code in NODE_CHECKS
        covers = not rule.is_scoped if is_node else rule.covers(alert.subject.partition("/")[0], alert.stream_id)
        return "" if covers else "The rule covers other streams now."

    def still(self, alert: Alert) -> str:
        return f"The issue was not fixed: {alert.title}"

    def _opened(self, event: OutboxEvent, rules: Sequence[AlertRule]) -> None:
        self._open(event, rules)
        issue = event.payload["health"]
        for alert in open_ones(self._of_check(event)).select_related("rule"):
            if not alert.rule.matches(issue["check"], issue["level"]):
                why = f"It is at level {issue['level']} now: {issue['title']}"
                clear(Alert.objects.filter(pk=alert.pk), event.at, Outcome.EASED, why)

    def _cleared(self, event: OutboxEvent) -> None:
        """A check that somebody switched off for the stream finds nothing any more, which puts nothing right."""
        check, alerts = event.payload["health"]["check"], self._of_check(event)
        if HealthOverride.objects.filter(stream=event.stream_id, check_code=check, enabled=False).exists():
            for alert in open_ones(alerts):
                why = f"The check was switched off for the stream. {self.still(alert)}"
                clear(Alert.objects.filter(pk=alert.pk), event.at, Outcome.WITHDRAWN, why)
        else:
            clear(alerts, event.at, Outcome.FIXED, BACK_WITHIN_LIMITS)

    def _open(self, event: OutboxEvent, rules: Sequence[AlertRule]) -> None:
        at, issue = event.at, event.payload["health"]
        make(self._matching(event, rules), self.code, subject_of(event), event.stream_id, event.session_id, at, issue)

    def _matching(self, event: OutboxEvent, rules: Sequence[AlertRule]) -> list[AlertRule]:
        issue = event.payload["health"]
        return [rule for rule in rules if rule.matches(issue["check"], issue["level"])]

    def _of_check(self, event: OutboxEvent) -> Any:
        check = event.payload["health"]["check"]
        return Alert.objects.filter(kind=self.code, subject=subject_of(event), check_code=check)

    def _ended(self, alerts: Any, at: datetime, reason: str) -> None:
        """The stream is gone, and what was wrong with it was not put right."""
        for alert in open_ones(alerts):
            clear(Alert.objects.filter(pk=alert.pk), at, *self.ended(alert, reason), reason)

    def _look_at_nodes(self, rules: Sequence[AlertRule], now: datetime) -> None:
        """For rules that are not limited to some streams."""
        nodes = {node.name: node for node in Node.objects.exclude(issues=None)}
        known = {
            (node.name, issue["check"]): issue
            for node in nodes.values()
            if node.state != Node.State.DOWN
            for issue in node.issues or ()
        }
        for rule in (rule for rule in rules if not rule.is_scoped):
            matching = {at: issue for at, issue in known.items() if rule.matches(issue["check"], issue["level"])}
            for (name, _), issue in matching.items():
                make([rule], self.code, name, None, None, datetime.fromtimestamp(issue["since"], UTC), issue)
            for alert in open_ones(Alert.objects.filter(rule=rule, check_code__in=NODE_CHECKS)):
                if (alert.subject, alert.check_code) not in matching:
                    outcome, why = self._of_node(nodes.get(alert.subject), alert)
                    clear(Alert.objects.filter(pk=alert.pk), now, outcome, why)

    def _of_node(self, node: Node | None, alert: Alert) -> tuple[Outcome, str]:
        """What became of a node's issue that it doesn't tell of any more."""
        if node is None or node.state != Node.State.DOWN:
            return Outcome.FIXED, BACK_WITHIN_LIMITS
        if node.stopped_at is not None:
            return Outcome.ENDED, f"The node was stopped. {self.still(alert)}"
        return Outcome.DROPPED, f"The node is down. {self.still(alert)}"


class Ended(Kind):
    code = "ended"
    label = "Dropped streams"
    help = "A stream ended unexpectedly and is not back: its connection was lost, say. Clean stops do not alert."

    def on_event(self, event: OutboxEvent, rules: Sequence[AlertRule]) -> None:
        match event.kind:
            case Happened.UNPUBLISH:
                end = event.payload["end"]
                if not end_of(end["reason"]).is_expected and not (event.stream_id and live([event.stream_id])):
                    issue = self._issue(end["reason"], end["description"])
                    make(rules, self.code, subject_of(event), event.stream_id, event.session_id, event.at, issue)
            case Happened.PUBLISH:
                back = Alert.objects.filter(kind=self.code, subject=subject_of(event))
                clear(back, event.at, Outcome.FIXED, BACK)

    def look(self, rules: Sequence[AlertRule], now: datetime) -> None:
        """Should no event say that a stream is back, or say so while a new rule's alert is being made."""
        off_air = Alert.objects.filter(kind=self.code)
        streams = set(open_ones(off_air).filter(stream__isnull=False).values_list("stream", flat=True))
        if streams and (back := live(streams)):
            clear(off_air.filter(stream__in=back), now, Outcome.FIXED, BACK)

    def judge(self, rules: Sequence[AlertRule], now: datetime) -> None:
        """Streams whose last publisher was lost lately: older ones are known, or given up."""
        lately = Session.objects.filter(kind=Session.Kind.PUBLISH, is_test=False, stream__isnull=False)
        lately = lately.filter(
            ended_at__gt=now - DROPPED_LATELY, stream__enabled=True, stream__application__enabled=True
        )
        last = {session.stream_id: session for session in lately.order_by("ended_at")}
        on_air = live(pk for pk in last if pk is not None)
        for session in last.values():
            if session.stream_id in on_air or end_of(session.end_reason).is_expected or session.ended_at is None:
                continue
            covers = [rule for rule in rules if rule.covers(session.app, session.stream_id)]
            subject, issue = f"{session.app}/{session.name}", self._issue(session.end_reason, session.end_description)
            with paced_transaction():
                make(covers, self.code, subject, session.stream_id, session.pk, session.ended_at, issue)

    def _issue(self, reason: str, description: str) -> dict[str, str]:
        return {
            "check": self.code,
            "level": "bad",
            "title": f"{ended_words(reason)} {description}".strip(),
            "actual": end_of(reason).words,
            "advice": end_of(reason).advice,
            "end_reason": reason,
        }


class NotLive(Kind):
    code = "not_live"
    label = "Not live when expected"
    help = (
        "A stream is off air at a time at which it should be live: those of its settings or, if the rule has hours, "
        "within these. Without either, a chosen stream should always be live."
    )
    needs_streams = True

    def look(self, rules: Sequence[AlertRule], now: datetime) -> None:
        timed, missing = expected_streams(now) if rules else (set(), {})
        for rule in rules:
            with isolated(f"The rule {rule.name}"):
                self._look_by(rule, now, timed, missing)

    def _look_by(self, rule: AlertRule, now: datetime, timed: set[int], missing: Mapping[int, Missing]) -> None:
        """`timed`: streams with times of their own, by which they are held, unless the rule has hours."""
        of_rule = Alert.objects.filter(rule=rule, kind=self.code)
        streams = list(self._covered(rule, timed).select_related("application").distinct())
        on_air = live(streams)
        clear(of_rule.filter(stream__in=on_air), now, Outcome.FIXED, "The stream is live.")
        began = rule.began(now)
        since: dict[int, datetime | None] = dict.fromkeys((stream.pk for stream in streams), began)
        if not rule.has_hours:
            since |= {pk: missing[pk].since if pk in missing else None for pk in since.keys() & timed}
        over = [pk for pk, at in since.items() if at is None]
        clear(of_rule.filter(stream__in=over), now, Outcome.WITHDRAWN, f"Its hours are over. {STILL_OFF}")
        clear(of_rule.exclude(stream__in=streams), now, Outcome.WITHDRAWN, f"It need not be live any more. {STILL_OFF}")
        known = set(open_ones(of_rule).values_list("subject", flat=True))
        for stream in streams:
            at = since[stream.pk]
            if at is not None and stream.pk not in on_air and stream.path not in known:
                with paced_transaction():
                    self._open(rule, stream, at)

    def _covered(self, rule: AlertRule, timed: set[int]) -> "QuerySet[Stream]":
        """Those of the rule's scope; of one about every stream those with times of their own."""
        can = Stream.objects.filter(enabled=True, application__enabled=True)
        if not rule.is_scoped:
            return can.filter(pk__in=timed)
        return can.filter(Q(pk__in=rule.streams.all()) | Q(application__in=rule.applications.all()))

    def _open(self, rule: AlertRule, stream: Stream, began: datetime) -> None:
        last = stream.sessions.filter(kind=Session.Kind.PUBLISH, is_test=False).order_by("-started_at").first()
        since = max(began, last.ended_at) if last is not None and last.ended_at else began
        issue = {
            "check": self.code,
            "level": "bad",
            "title": "Not live, though it should be.",
            "actual": "off air",
            "expected": "live",
            "advice": "Start its encoder; refused connections say why one could not publish.",
        }
        make([rule], self.code, stream.path, stream.pk, last.pk if last is not None else None, since, issue)


class PushFails(Kind):
    code = "push_fails"
    label = "Pushes that fail"
    help = "A live stream is not pushed to one of its targets, for 15 s, or not tried any more."
    is_absence = False

    def look(self, rules: Sequence[AlertRule], now: datetime) -> None:
        failing = self._failing(now)
        opened = open_ones(Alert.objects.filter(kind=self.code))
        if not failing and not opened.exists():
            return
        known = {(alert.rule_id, alert.check_code): (alert.title, alert.actual, alert.session_id) for alert in opened}
        for target in failing.values():
            with isolated(f"The target {target.pk}"):
                self._open(target, rules, known)
        for alert in opened.exclude(check_code__in=failing):
            outcome, why, reason = self._over(alert)
            clear(Alert.objects.filter(pk=alert.pk), now, outcome, why, reason)

    def still(self, alert: Alert) -> str:
        return f"It was not put right: {alert.title}"

    def _failing(self, now: datetime) -> dict[str, PushTarget]:
        """By the check of their alerts. Of those that nobody publishes any more, none does."""
        rows = PushTarget.objects.filter(failing_since__isnull=False, enabled=True).select_related(
            "stream__application"
        )
        open_ = Session.objects.filter(pk__in=rows.values("state_session"), ended_at__isnull=True)
        live = set(open_.values_list("pk", flat=True))
        return {
            f"push:{row.pk}": row
            for row in rows
            if row.state_session in live
            and row.failing_since is not None
            and ((row.state == "stopped" and row.failure) or row.failing_since <= now - PUSH_FAILS_AFTER)
        }

    def _open(self, target: PushTarget, rules: Sequence[AlertRule], known: Mapping[Any, Any]) -> None:
        stream, found = target.stream, advice(target.failure, target.code, target.description)
        issue = {
            "check": f"push:{target.pk}",
            "level": "bad",
            "title": f"Not pushed to {target.label}: {found.words}.",
            "actual": clean.text(target.description or target.code, 255),
            "expected": "live",
            "advice": found.todo,
        }
        said = (issue["title"], issue["actual"], target.state_session)
        covers = [rule for rule in rules if rule.covers(stream.application.name, stream.pk)]
        new = [rule for rule in covers if known.get((rule.pk, issue["check"])) != said]
        if new and target.failing_since is not None:
            with paced_transaction():
                make(new, self.code, stream.path, stream.pk, target.state_session, target.failing_since, issue)

    def _over(self, alert: Alert) -> tuple[Outcome, str, str]:
        target = PushTarget.objects.filter(pk=alert.check_code.partition(":")[2]).first()
        if target is None:
            return Outcome.WITHDRAWN, "The target was removed.", ""
        if not target.enabled:
            return Outcome.WITHDRAWN, "The target was switched off.", ""
        session = alert.session
        if session is not None and session.ended_at is not None:
            return *self.ended(alert, session.end_reason), session.end_reason
        if target.state == "live":
            return Outcome.FIXED, "It is pushed there again.", ""
        return Outcome.WITHDRAWN, "The push was stopped, or tried anew.", ""


KINDS: dict[str, Kind] = {kind.code: kind for kind in (Health(), Ended(), NotLive(), PushFails())}
"""By code, as `AlertRule.kinds` and `Alert.kind` have it, in the order of the form."""

BACK = "The stream is back."
BACK_WITHIN_LIMITS = "Back within limits."
RULE_CHANGED = "The rule was changed."
STILL_OFF = "The stream was still off air."
SESSION_ENDED = "session.ended"
"""What an issue cleared `by` that was not put right: its session's end follows, and says why."""
LOST_AFTER = timedelta(minutes=1)
PUSH_FAILS_AFTER = timedelta(seconds=15)
"""A push may take so long to be live, or live again, without anybody being told."""
DROPPED_LATELY = timedelta(hours=1)


def covering(rules: Iterable[AlertRule], event: OutboxEvent) -> list[AlertRule]:
    app = event.payload.get("app", "")
    return [rule for rule in rules if rule.covers(app, event.stream_id)]


def subject_of(event: OutboxEvent) -> str:
    return f"{event.payload['app']}/{event.payload['name']}"


def live(streams: Iterable[Stream | int]) -> set[int]:
    """Those that somebody publishes, for more than a test."""
    open_ = Session.objects.filter(kind=Session.Kind.PUBLISH, ended_at__isnull=True, is_test=False)
    found = open_.filter(stream__in=list(streams)).values_list("stream", flat=True)
    return {pk for pk in found if pk is not None}


def live_since(stream: int) -> datetime | None:
    """Since when somebody publishes it, for more than a test; None: it is off air."""
    open_ = Session.objects.filter(stream=stream, kind=Session.Kind.PUBLISH, ended_at__isnull=True, is_test=False)
    return open_.order_by("started_at").values_list("started_at", flat=True).first()


def ended_words(reason: str) -> str:
    """ "Stream dropped: connection reset."; "Stream ended: encoder stopped.", where somebody meant it."""
    end = end_of(reason)
    verb = "ended" if end.is_expected else "dropped"
    return f"Stream {verb}: {end.words[:1].lower()}{end.words[1:]}."
