"""A session's lanes on one time axis: its state, health, the statuses that were sent, what operators did.

Times are seconds since the epoch.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from dashboard.sessions import measured
from dashboard.templatetags.ui import ended_words
from ingest.models import Session, StatusEvent
from ingest.services.sessions import event_payload

EVENTS = 500
"""The latest; the API has all."""

STATUS = ("onstatus", "metadata", "publish.takeover", "config.changed", "limit.breached", "record.failed")
"""Kinds of the lane of statuses: besides what was sent, what explains it."""

RANK = {"good": 0, "warning": 1, "bad": 2}

Span = dict[str, Any]


def events_of(session: Session) -> list[dict[str, Any]]:
    """The latest events, newest first, as pages get them."""
    events = StatusEvent.objects.filter(session=session).order_by("-at", "-sequence")
    return [event_payload(event) for event in events[:EVENTS]]


def lanes(session: Session, events: Sequence[dict[str, Any]], gaps: Iterable[tuple[float, float]]) -> dict[str, Any]:
    """`range` [from, to]; `state` and `health`: spans {from, to, level, label}; `dots` by lane: {at, label}."""
    begin, end = session.started_at.timestamp(), measured.ended(session).timestamp()
    ordered = sorted(events, key=lambda event: (event["at"], event["sequence"]))
    return {
        "range": [begin, max(end, begin + 1)],
        "open": session.ended_at is None,
        "end": ended_words(session) if session.ended_at else "",
        "state": _states(begin, end, gaps),
        "health": _healths(ordered, begin, end) if session.kind == Session.Kind.PUBLISH else [],
        "status": [event for event in ordered if event["kind"] in STATUS],
        "operator": [event for event in ordered if event["kind"].startswith("operator.")],
    }


def _states(begin: float, end: float, gaps: Iterable[tuple[float, float]]) -> list[Span]:
    """On air, less the gaps without media."""
    spans, at = [], begin
    for start, stop in gaps:
        spans += [{"from": at, "to": start, "level": "live"}, {"from": start, "to": stop, "level": "off"}]
        at = stop
    return [*spans, {"from": at, "to": end, "level": "live"}]


def _healths(events: Iterable[dict[str, Any]], begin: float, end: float) -> list[Span]:
    """The worst of the issues that were open at each time. An issue that gets worse is opened anew."""
    spans: list[Span] = []
    opened: dict[str, str] = {}
    at, level = begin, "good"
    for event in events:
        if event["kind"] == "health.opened":
            opened[event["code"]] = event["level"] if event["level"] in RANK else "warning"
        elif event["kind"] == "health.cleared":
            opened.pop(event["code"], None)
        else:
            continue
        worst = max(opened.values(), key=RANK.__getitem__, default="good")
        if worst != level:
            spans.append({"from": at, "to": event["at"], "level": level})
            at, level = event["at"], worst
    spans.append({"from": at, "to": end, "level": level})
    return [span for span in spans if span["to"] > span["from"]]
