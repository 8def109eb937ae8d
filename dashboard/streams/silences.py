"""Silences: for a while, of one check or all, nobody is notified of a stream, of an application's streams, or of
anything (a maintenance window). Issues open and clear on the pages as ever.

Each has its end, or somebody lifts it; it is an entry of the audit log and, of a stream, an event of its session, and
open pages hear of it at once. What is still open at its end is told then (`dashboard.alerts.evaluation`)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from dashboard import zones
from dashboard.models import Alert, Mute
from dashboard.streams.actions import (
    NOTE_LENGTH,
    ActionProblem,
    latest_publisher,
    notify_pages,
    notify_walls,
    put_event,
)
from ingest import clean, pages
from ingest.contracts.figures import CHECK_NAMES, STREAM_CHECKS
from ingest.models import Application, Session, Stream
from ingest.services import audit
from ingest.services.audit import Actor

MOST_HOURS = 31 * 24
LONGEST = timedelta(hours=MOST_HOURS)

Target = Stream | Application | None
"""None: everything."""

LENGTHS = {"30": timedelta(minutes=30), "120": timedelta(hours=2)}
MORNING, AT, OPEN_ENDED = "morning", "at", "lifted"
"""What a form's `length` says, besides LENGTHS: until the next 8:00 of the page's clocks, until its field `at`, or
until somebody lifts it.
"""
MORNING_AT = time(8)


def end_of_form(length: str, at: str, now: datetime) -> datetime | None:
    """When a form's silence ends; None: when somebody lifts it. Raises ActionProblem."""
    if length in LENGTHS:
        return now + LENGTHS[length]
    if length == MORNING:
        return next_morning(now)
    if length == OPEN_ENDED:
        return None
    found = zones.moment(at) if length == AT and at else None
    if found is None:
        raise ActionProblem("Say until when: a day and a time.")
    return checked_end(found, now)


def checked_end(until: datetime, now: datetime) -> datetime:
    """Raises ActionProblem."""
    if not now < until <= now + LONGEST:
        raise ActionProblem(f"A silence ends in the future, in {LONGEST.days} days at most.")
    return until


def next_morning(now: datetime) -> datetime:
    """Of the page's clocks."""
    here = timezone.localtime(now)
    today = zones.aware(datetime.combine(here.date(), MORNING_AT))
    return today if today > now else zones.aware(datetime.combine(here.date() + timedelta(days=1), MORNING_AT))


def in_force(now: datetime | None = None) -> QuerySet[Mute]:
    """Those that hold now, the last made first."""
    now = now or timezone.now()
    lasting = Q(until__isnull=True) | Q(until__gt=now)
    return Mute.objects.filter(lasting, lifted_at__isnull=True).select_related(
        "by", "stream__application", "application"
    )


def _of_stream(stream: int) -> Q:
    application = Stream.objects.filter(pk=stream).values("application")[:1]
    return Q(stream=stream) | Q(application=application) | Q(stream=None, application=None)


@dataclass(frozen=True, slots=True)
class Silences:
    """Those that hold at a moment, and those that ended not long before it."""

    now: datetime
    rows: list[Mute]

    @classmethod
    def load(cls, now: datetime) -> "Silences":
        recent = Mute.objects.filter(lifted_at__isnull=True, until__gt=now - LONGEST, until__lte=now)
        return cls(now, [*in_force(now), *recent])

    def of(self, alert: Alert) -> Mute | None:
        """The one by which nobody is notified of it now, the longest of several."""
        held = [row for row in self.rows if _covers(row, alert) and not self._is_over(row)]
        return max(held, key=lambda row: (row.until is None, row.until or self.now), default=None)

    def ended_since(self, alert: Alert, at: datetime) -> bool:
        """Whether one that covered it ended after that moment."""
        return any(row.until and at < row.until and self._is_over(row) and _covers(row, alert) for row in self.rows)

    def _is_over(self, row: Mute) -> bool:
        return row.until is not None and row.until <= self.now


def _covers(row: Mute, alert: Alert) -> bool:
    if row.check_code not in ("", alert.check_code):
        return False
    if row.stream_id is not None:
        return row.stream_id == alert.stream_id
    if row.application_id is not None:
        return alert.stream is not None and row.application_id == alert.stream.application_id
    return True


def words(row: Mute) -> str:
    """Silenced until 06:00 by anna: encoder swap."""
    by = f" by {row.by.get_username()}" if row.by else ""
    return f"Silenced {_until(row.until)}{by}{f': {row.note}' if row.note else '.'}"


def _until(at: datetime | None) -> str:
    if at is None:
        return "until somebody lifts it"
    is_today = timezone.localtime(at).date() == timezone.localdate()
    return f"until {zones.clock(at, '' if is_today else '%-d %b', '%H:%M')}"


# --- What people do ---

ACTIONS: dict[type, str] = {Stream: "stream", Application: "application", type(None): "alerts"}
"""Of what is silenced: its name in the audit log."""


def silence(target: Target, actor: Actor, *, check: str = "", until: datetime | None = None, note: str = "") -> Mute:
    """Of a check, or of all (""), until then or (None) until it is lifted, in place of an earlier one of the same."""
    now = timezone.now()
    of = {
        "stream": target if isinstance(target, Stream) else None,
        "application": target if isinstance(target, Application) else None,
        "check_code": clean.text(check, 32),
    }
    with transaction.atomic():
        in_force(now).filter(**of).order_by().update(lifted_at=now)
        made = Mute.objects.create(**of, until=until, note=clean.text(note.strip(), NOTE_LENGTH), by=actor.user, at=now)
        detail = {"check": check, "until": until.isoformat() if until else None, "note": made.note}
        _record(target, actor, "mute", made.check_code, made.note, detail)
    return made


def lift(row: Mute, actor: Actor) -> bool:
    """False: it has ended already."""
    with transaction.atomic():
        if not in_force().filter(pk=row.pk).order_by().update(lifted_at=timezone.now()):
            return False
        target: Target = row.stream or row.application
        _record(target, actor, "unmute", row.check_code, "", {"check": row.check_code})
    return True


def lift_of(stream: Stream, actor: Actor, *, check: str | None = None) -> int:
    """Lifts those of the stream itself, or only that of a check ("": of all checks). How many there were."""
    with transaction.atomic():
        held = in_force().filter(stream=stream)
        if check is not None:
            held = held.filter(check_code=check)
        lifted = held.order_by().update(lifted_at=timezone.now())
        if lifted:
            _record(stream, actor, "unmute", check or "", "", {"check": check})
    return lifted


def _record(target: Target, actor: Actor, verb: str, check: str, note: str, detail: dict[str, Any]) -> None:
    """In the audit log, and in the feed of the stream's latest publisher, if there was one yet."""
    stream = target if isinstance(target, Stream) else None
    name = stream.path if stream else f"{target.name}/*" if isinstance(target, Application) else "everything"
    audit.record(actor, f"{ACTIONS[type(target)]}.{verb}", name, stream=stream, **detail)
    session = latest_publisher(stream) if stream else None
    if session is not None:
        about = {"until": detail.get("until"), "name": STREAM_CHECKS.get(check, check)}
        put_event(session, f"operator.{verb}", actor, code=check, description=note, detail=about)
    _tell_pages(target)


def _tell_pages(target: Target) -> None:
    """Of a stream whoever has it open; of more those of the streams that are live, and each wall once."""
    if isinstance(target, Stream):
        notify_pages(target.pk, "stream.mutes", _page_text(payloads(target.pk)))
        return
    live = Session.objects.filter(kind=Session.Kind.PUBLISH, ended_at__isnull=True, stream__isnull=False)
    if target is not None:
        live = live.filter(stream__application=target)
    held = list(in_force())
    for stream, application in live.values_list("stream", "stream__application").distinct():
        of = ((stream, None), (None, application), (None, None))
        rows = (row for row in held if (row.stream_id, row.application_id) in of)
        notify_pages(stream, "stream.mutes", _page_text(map(_payload, rows)), is_on_walls=False)
    notify_walls(None)


def _page_text(mutes: Iterable[dict[str, Any]]) -> str:
    return pages.to_json({"kind": "mutes", "mutes": list(mutes)})


def payloads(stream: int) -> list[dict[str, Any]]:
    """What holds of the stream, as pages get it: times in seconds since the epoch. `of`: the stream itself, or more."""
    return [_payload(row) for row in in_force().filter(_of_stream(stream))]


def _payload(row: Mute) -> dict[str, Any]:
    return {
        "check": row.check_code,
        "of": row.subject if row.stream_id is None else "",
        "at": row.at.timestamp(),
        "until": row.until.timestamp() if row.until else None,
        "note": row.note,
        "by": row.by.get_username() if row.by else "",
    }


def shown() -> list[dict[str, Any]]:
    """Those in force, for the alerts page: with what each is about in words."""
    names = {"": "All checks"} | CHECK_NAMES
    return [
        {"row": row, "check": names.get(row.check_code, row.check_code), "until": _until(row.until)}
        for row in in_force()
    ]
