"""What happened to a stream in a period: the marks of its chart, and the list below it.

Reconnects and kicks are seen in its sessions, trouble and changed media in their events, acts on its keys and settings
in the audit log. All are bounded: the newest of each are shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from analytics.broadcasts import GAP
from analytics.periods import Period
from dashboard.templatetags.ui import action_words, end_words
from ingest.models import AuditEntry, Session, StatusEvent, Stream

SESSIONS = 500
"""Of the period, the latest; events are looked for in these."""
MOST_EVENTS = 100
"""Happenings on a page; files have MOST_IN_FILE."""
MOST_EVENTS_IN_FILE = 5_000

EVENTS = {
    "health.opened": ("warn", "Issue opened"),
    "config.changed": ("info", "Encoder settings changed"),
    "publish.takeover": ("live", "Stream taken over"),
    "limit.breached": ("bad", "Key's bitrate limit exceeded"),
    "operator.note": ("note", "Note"),
}
"""Kinds of events that explain a curve: their icons and words."""

ACTION_SUBJECTS = ("key.", "encoder_login.", "stream.")
"""Subjects of acts that explain one."""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """`is_mark`: whether it is a line in the chart; a reconnect is only a tick below it."""

    at: datetime
    kind: str
    icon: str
    words: str
    detail: str = ""
    session: Any = None
    is_mark: bool = True

    @property
    def icon_class(self) -> str:
        return {"bad": "w-bad", "warn": "w-warn"}.get(self.icon, "")


def history_events(
    app: str, name: str, stream: Stream | None, period: Period, limit: int = MOST_EVENTS
) -> list[HistoryEvent]:
    """Newest first."""
    sessions = _sessions(app, name, period, max(SESSIONS, limit))
    found = [*_of_sessions(sessions, period), *_of_events(sessions, period, limit)]
    if stream is not None:
        found += _of_actions(stream, period, limit)
    return sorted(found, key=lambda each: each.at, reverse=True)[:limit]


def _sessions(app: str, name: str, period: Period, limit: int) -> list[Session]:
    """Those that began in it and the one before the first of them, the oldest first."""
    own = Session.objects.filter(app=app, name=name, kind=Session.Kind.PUBLISH, is_test=False).order_by("-started_at")
    rows = list(own.filter(started_at__gte=period.since, started_at__lt=period.until)[:limit])
    before = own.filter(started_at__lt=rows[-1].started_at if rows else period.until).first()
    return [*([before] if before else []), *reversed(rows)]


def _of_sessions(sessions: Sequence[Session], period: Period) -> list[HistoryEvent]:
    found = []
    for former, session in pairwise(sessions):
        gap = session.started_at - former.ended_at if former.ended_at else GAP * 2
        if timedelta() <= gap <= GAP and session.started_at >= period.since:
            words = f"Reconnected after {gap.total_seconds():.0f}\u00a0s"
            why = f"Previous session: {end_words(former.end_reason).lower()}."
            found.append(HistoryEvent(session.started_at, "reconnect", "rotate", words, why, session.pk, is_mark=False))
    kicked = (
        HistoryEvent(session.ended_at, "kick", "kick", "Kicked", session.stop_note, session.pk)
        for session in sessions
        if session.end_reason == "kicked" and session.ended_at and period.since <= session.ended_at < period.until
    )
    return [*found, *kicked]


def _of_events(sessions: Sequence[Session], period: Period, limit: int) -> list[HistoryEvent]:
    events = StatusEvent.objects.filter(
        session__in=[session.pk for session in sessions],
        kind__in=EVENTS,
        at__gte=period.since,
        at__lt=period.until,
    )
    return [_of_event(event) for event in events.order_by("-at")[:limit]]


def _of_event(event: StatusEvent) -> HistoryEvent:
    icon, words = EVENTS[event.kind]
    is_issue, is_bad = event.kind == "health.opened", event.level == "bad"
    if is_issue and is_bad:
        icon = "bad"
    is_mark = is_bad or not is_issue
    return HistoryEvent(event.at, event.kind, icon, words, event.description, event.session_id, is_mark)


def _of_actions(stream: Stream, period: Period, limit: int) -> list[HistoryEvent]:
    """What was done, not by whom: the audit log is for those who may see it."""
    entries = AuditEntry.objects.filter(stream=stream, at__gte=period.since, at__lt=period.until).order_by("-at")
    return [
        HistoryEvent(entry.at, entry.action, "keys", action_words(entry.action), entry.target)
        for entry in entries[:limit]
        if entry.action.startswith(ACTION_SUBJECTS)
    ]
