"""A stream's push targets and pull source as pages and API show them: their state in words, from what its node says
now, else from what was written last; and what people do with them, of which open pages hear."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.http import Http404

from dashboard.streams.actions import ActionProblem, notify_pages, put_event
from ingest import pages
from ingest.contracts import StreamSnapshot
from ingest.contracts.figures import PushView
from ingest.models import PullSource, PushTarget, Session, Stream
from ingest.services import pulls, push_targets, pushes
from ingest.services.audit import Actor
from ingest.services.push_advice import Advice, advice, state_words
from ingest.services.push_targets import PushProblem
from ingest.services.sessions import open_publisher

ICONS = {"live": "good", "connecting": "none", "retrying": "warn", "stopped": "none", "": "none"}
"""By state; of one that failed for good: bad."""


@dataclass(frozen=True, slots=True)
class TargetRow:
    """A target, and how its push goes."""

    target: PushTarget
    state: str
    """A PushState; "": nobody publishes, or its node has told nothing yet."""
    failure: str
    code: str
    answer: str
    """What the other server said."""
    since: datetime | None
    kbps: float | None
    retry_at: datetime | None
    is_live: bool
    """The stream."""
    is_wanted: bool
    """While it is live."""

    @property
    def has_failed(self) -> bool:
        return bool(self.failure) and self.state in ("stopped", "retrying", "connecting")

    @property
    def words(self) -> str:
        if not self.target.enabled:
            return "Off"
        if self.state or not self.is_live:
            return state_words(self.state, self.failure)
        return "Starting" if self.is_wanted else "Not pushing"

    @property
    def icon(self) -> str:
        if self.state == "stopped" and self.failure:
            return "bad"
        return ICONS[self.state if self.target.enabled else ""]

    @property
    def advice(self) -> Advice | None:
        return advice(self.failure, self.code, self.answer) if self.has_failed else None

    @property
    def can_start(self) -> bool:
        return self.is_live and self.target.enabled and (not self.is_wanted or self.has_failed)

    @property
    def can_stop(self) -> bool:
        return self.is_live and self.target.enabled and self.is_wanted

    @property
    def values(self) -> dict[str, Any]:
        """Of the form that changes it: no key."""
        return {name: getattr(self.target, name) for name in ("label", "url", "starts", "enabled")}

    @property
    def values_json(self) -> str:
        return json.dumps(self.values)


def target_rows(stream: Stream, snapshot: StreamSnapshot, session: Session | None) -> list[TargetRow]:
    """`session`: who publishes."""
    views = {view["target"]: view for view in snapshot.get("pushes") or ()}
    return [_row(target, views.get(target.pk), session) for target in stream.push_targets.all()]


def row_of(target: PushTarget, snapshot: StreamSnapshot) -> TargetRow:
    views = {view["target"]: view for view in snapshot.get("pushes") or ()}
    return _row(target, views.get(target.pk), open_publisher(target.stream))


def _row(target: PushTarget, view: PushView | None, session: Session | None) -> TargetRow:
    is_of_now = session is not None and target.state_session == session.pk and not session.is_test
    is_stopped = is_of_now and target.state == "stopped" and not target.failure
    if view is not None and session is not None and not is_stopped:
        known = {
            "state": view["state"],
            "failure": view["failure"],
            "code": view["code"],
            "answer": view["description"],
        }
        if not view["failure"] and is_of_now and view["state"] == target.state:
            known |= {"failure": target.failure, "code": target.code, "answer": target.description}
        since, retry = _time(view["since"]), _time(view["retry_at"])
        kbps: float | None = view["kbps"]
    else:
        names = {"state": "state", "failure": "failure", "code": "code", "answer": "description"}
        known = {name: getattr(target, field) if is_of_now else "" for name, field in names.items()}
        since, retry, kbps = target.state_since if is_of_now else None, None, None
    return TargetRow(
        target=target,
        since=since,
        kbps=kbps,
        retry_at=retry,
        is_live=session is not None,
        is_wanted=session is not None and pushes.is_wanted(target, session.pk),
        **known,
    )


def _time(at: float | None) -> datetime | None:
    return datetime.fromtimestamp(at, UTC) if at else None


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A pull source, and how it goes."""

    source: PullSource
    is_pulled: bool
    """It publishes the stream now."""
    is_published: bool
    """Somebody does."""

    @property
    def words(self) -> str:
        source = self.source
        if not source.enabled:
            return "Off"
        if self.is_pulled:
            return "Live"
        if self.is_published:
            return "Encoder on air"
        if source.state in ("connecting", "retrying") or (source.state == "stopped" and source.failure):
            return state_words(source.state, source.failure)
        return "Waits for players" if source.when == PullSource.When.DEMAND else "Not pulled"

    @property
    def icon(self) -> str:
        if not self.source.enabled or self.is_published:
            return "good" if self.is_pulled and self.source.enabled else "none"
        return "bad" if self.has_failed and self.source.state == "stopped" else "warn" if self.has_failed else "none"

    @property
    def has_failed(self) -> bool:
        return not self.is_published and bool(self.source.failure) and self.source.state != "live"

    @property
    def advice(self) -> Advice | None:
        return advice(self.source.failure, self.source.code, self.source.description) if self.has_failed else None

    @property
    def values(self) -> dict[str, Any]:
        """Of the form that changes it: no URL, as it may hold what is secret."""
        return {"when": self.source.when, "enabled": self.source.enabled}

    @property
    def values_json(self) -> str:
        return json.dumps(self.values)


def source_row(stream: Stream, session: Session | None) -> SourceRow | None:
    source = PullSource.objects.filter(stream=stream).first()
    if source is None:
        return None
    return SourceRow(source, session is not None and session.is_pull, session is not None)


# --- What people do ---


def target_of(stream: Stream, pk: int) -> PushTarget:
    """Raises Http404."""
    found = stream.push_targets.filter(pk=pk).select_related("stream__application").first()
    if found is None:
        raise Http404("The stream has no such target.")
    return found


def save_target(actor: Actor, target: PushTarget, values: Mapping[str, Any]) -> None:
    """Raises ValidationError."""
    push_targets.save(actor, target, values)
    _tell(target.stream_id)


def remove_target(actor: Actor, target: PushTarget) -> None:
    push_targets.remove(actor, target)
    _tell(target.stream_id)


def run_target(actor: Actor, target: PushTarget, *, starts: bool) -> None:
    """Starts or stops it. Raises ActionProblem."""
    try:
        session = (push_targets.start if starts else push_targets.stop)(actor, target)
    except PushProblem as problem:
        raise ActionProblem(str(problem)) from None
    code = "start" if starts else "stop"
    put_event(session, "operator.push", actor, code=code, description=target.label, detail={"target": target.pk})
    _tell(target.stream_id)


def save_source(actor: Actor, stream: Stream, values: Mapping[str, Any]) -> None:
    """Raises ValidationError."""
    source = PullSource.objects.filter(stream=stream).first() or PullSource(stream=stream)
    pulls.save(actor, source, values)
    _tell(stream.pk)


def remove_source(actor: Actor, source: PullSource) -> None:
    stream = source.stream_id
    pulls.remove(actor, source)
    _tell(stream)


def _tell(stream: int) -> None:
    notify_pages(stream, "stream.relays", pages.RELAYS, is_on_walls=False)


def problem_words(problem: ValidationError) -> str:
    """As one text, where a form has one place for all of them."""
    return " ".join(problem.messages)
