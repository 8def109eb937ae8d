"""What alerts say by e-mail, as they stand when it is sent: in plain text, and the same as simple HTML; and which mails
are not worth sending any more."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone

from dashboard import zones
from dashboard.alerts.kinds import KINDS, Ended, PushFails, live_since
from dashboard.alerts.messages import ALERT_WORDS
from dashboard.models import Alert, AlertRule
from dashboard.templatetags import ui
from ingest.contracts.figures import CHECK_NAMES
from ingest.delivery.kinds import MailContent, mail_of
from ingest.models import Delivery

Outcome = Alert.Outcome

LATE = timedelta(minutes=1)
"""A mail that waited longer says so."""

LOOKS = {
    "bad": ("Bad", "#b0241c"),
    "warning": ("Warning", "#855000"),
    Outcome.FIXED: ("Resolved", "#1c6a41"),
    Outcome.EASED: ("Eased", "#855000"),
    Outcome.DROPPED: ("Bad", "#b0241c"),
    Outcome.ENDED: ("Ended", "#5c6672"),
    Outcome.WITHDRAWN: ("No longer watched", "#5c6672"),
    "": ("Cleared", "#5c6672"),  # Of a former version, which did not say what became of it.
}
"""By an open alert's level, and by what became of one: the word that a mail begins with, and its colour."""

OVER = {
    Outcome.FIXED: "resolved {}",
    Outcome.EASED: "eased {}",
    Outcome.DROPPED: "ended {}, not fixed",
    Outcome.ENDED: "ended {}, not fixed",
    Outcome.WITHDRAWN: "no longer watched since {}",
    "": "cleared {}",
}


LEVELS = {
    Outcome.FIXED: "over",
    Outcome.EASED: "warning",
    Outcome.DROPPED: "bad",
    Outcome.ENDED: "ended",
    Outcome.WITHDRAWN: "ended",
    "": "ended",
}
"""How bad it is then."""


ACTUAL = {Ended.code: "Reason", PushFails.code: "The target said"}
"""By kind, what an alert's `actual` is."""


@dataclass(frozen=True, slots=True)
class AlertWords:
    """`level`: bad, warning, over or ended. `stands`: when it happened, and how it stands now."""

    subject: str
    label: str
    colour: str
    level: str
    heading: str
    stands: tuple[str, ...]
    advice: str
    facts: tuple[tuple[str, str], ...]


def superseded(row: Delivery) -> str:
    """Why nobody is helped by a message of an alert any more: it is over, and nobody had been notified of it."""
    alert = _alert_now(row)
    if alert is None or alert.cleared_at is None:
        return ""
    if row.kind != "alert.cleared":
        return f"It cleared at {_clock(alert.cleared_at, _zone(alert))}, before it could be sent."
    if alert.outcome == Outcome.DROPPED or _was_delivered(row):
        return ""
    return "Nobody had been notified of it before it cleared."


@mail_of("alert", superseded=superseded)
def alert_mail(row: Delivery) -> MailContent:
    words = alert_words(row, timezone.now())
    context = {"words": words, "rule": row.body["rule"], "url": row.body["url"]}
    text, html = (render_to_string(f"dashboard/mail/alert.{form}", context) for form in ("txt", "html"))
    brief = "\n".join(filter(None, (words.advice or words.heading, *words.stands)))
    return MailContent(words.subject, text, html, brief, words.level)


def alert_words(row: Delivery, now: datetime) -> AlertWords:
    """By the alert as it is now; by what the message was made with, if the alert is gone with its rule."""
    known = _alert_now(row)
    alert = known or _as_it_was(row.body)
    label, colour = LOOKS[alert.outcome if alert.cleared_at else alert.level]
    facts = (
        ("Stream" if "/" in alert.subject else "Node", alert.subject),
        (ACTUAL.get(alert.kind, "Measured"), alert.actual),
        ("Expected", alert.expected),
    )
    return AlertWords(
        subject=_subject(alert, label, is_still=row.kind == "alert.repeated"),
        label=label,
        level=LEVELS[alert.outcome] if alert.cleared_at else alert.level,
        colour=colour,
        heading=_heading(alert),
        stands=tuple(_stands(row, alert, now, is_known=known is not None)),
        advice="" if alert.cleared_at and alert.outcome != Outcome.DROPPED else alert.advice,
        facts=tuple((name, value) for name, value in facts if value),
    )


def _heading(alert: Alert) -> str:
    if not alert.cleared_at:
        return alert.title
    if alert.outcome in (Outcome.FIXED, ""):
        return f"{_short(alert)}. {alert.cleared_why}".rstrip()
    return alert.cleared_why


def _subject(alert: Alert, label: str, *, is_still: bool) -> str:
    """What it is now, where, what and when: "Bad: live/cam-1: Nothing received for 7 s, since 13:31 UTC"."""
    began = f"since {alert.opened_at.astimezone(_zone(alert)):%H:%M %Z}"
    if not alert.cleared_at:
        begin = f"Still {_lower(label)}" if is_still else label
        return _line(f"{begin}: {alert.subject}: {_sentence(alert.title)}, {began}")
    if alert.outcome in (Outcome.DROPPED, Outcome.ENDED):
        begin = f"{label}: " if alert.outcome == Outcome.DROPPED else ""
        return _line(f"{begin}{alert.subject}: {_sentence(alert.cleared_why)}, not fixed: {_short(alert)}")
    if alert.outcome == Outcome.WITHDRAWN:
        return _line(f"{label}: {alert.subject}: {_short(alert)} ({_lower(_sentence(alert.cleared_why))})")
    return _line(f"{label}: {alert.subject}: {_short(alert)}, after {_lasted(alert.opened_at, alert.cleared_at)}")


def _stands(row: Delivery, alert: Alert, now: datetime, *, is_known: bool) -> list[str]:
    began, zone = alert.opened_at, _zone(alert)
    happened, at = _clock(began, zone), _clock(now, zone, began)
    found = []
    if alert.cleared_at:
        over = OVER[alert.outcome].format(_clock(alert.cleared_at, zone, began))
        found.append(f"Happened {happened}; {over}, after {_lasted(began, alert.cleared_at)}.")
        if alert.outcome in (Outcome.DROPPED, Outcome.ENDED) and alert.stream_id:
            back = live_since(alert.stream_id)
            found.append(f"Live again since {_clock(back, zone, began)}." if back else f"Still off air at {at}.")
    elif is_known:
        still = "off air" if KINDS[alert.kind].is_absence else "open"
        found.append(f"Happened {happened}; still {still} at {at}, after {_lasted(began, now)}.")
    else:
        found.append(f"Happened {happened}. Its rule was deleted since: how it stands now is not known.")
    if row.asked_at is None and now - row.created_at > LATE:
        found.append(f"This message is {_lasted(row.created_at, now)} late: it could not be delivered before.")
    return found


def _alert_now(row: Delivery) -> Alert | None:
    pk = row.about.rpartition(":")[2]
    return Alert.objects.select_related("rule").filter(pk=pk).first() if pk.isdecimal() else None


def _was_delivered(row: Delivery) -> bool:
    done = Delivery.objects.filter(about=row.about, state=Delivery.State.DONE)
    return done.filter(series=row.series).exists()


def _as_it_was(body: dict[str, Any]) -> Alert:
    alert: dict[str, Any] = body["alert"]
    times = {name: datetime.fromisoformat(alert[name]) if alert[name] else None for name in ("opened_at", "cleared_at")}
    about = {name: alert.get(name, "") for name in ALERT_WORDS}
    return Alert(rule=AlertRule(name=body["rule"]), check_code=alert["check"], **about, **times)


def _zone(alert: Alert) -> tzinfo:
    """The rule's; UTC, if this machine doesn't know that."""
    return zones.named(alert.rule.time_zone) or UTC


def _clock(at: datetime, zone: tzinfo, beside: datetime | None = None) -> str:
    """In the rule's zone: "13:31:46 UTC, 23 Nov"; where it stands `beside` a time of the same day "13:31:46"."""
    here = at.astimezone(zone)
    same_day = beside is not None and beside.astimezone(zone).date() == here.date()
    return f"{here:%H:%M:%S}" if same_day else f"{here:%H:%M:%S %Z, %-d %b}"


def _lasted(start: datetime, end: datetime) -> str:
    return ui.lasted(start, end).replace("\u00a0", " ")


def _short(alert: Alert) -> str:
    """What it is, without its figures."""
    return CHECK_NAMES.get(alert.check_code) or _sentence(alert.title)


def _sentence(text: str) -> str:
    """The first one, without its full stop."""
    return text.split(". ")[0].rstrip(".")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _line(text: str) -> str:
    return " ".join(text.split())
