"""Deleting streams and applications: what goes with them, what stays, and what stands in the way.

With a stream goes what the database lets go with it: keys, log-ins, limits of health checks, mutes, plans of reports;
with an application its streams, with all that, its recordings with their files, and its shared objects. History stays,
by the names that it copied. So does what was recorded of a stream, unless it is to go as well: it is its application's
then.

Whatever stands in the way is looked for before anything is lost. What goes on is ended first, and is over, with all
that others are told of it, before the row goes: webhooks are chosen, and events numbered, by the stream. History lets
go of it in pieces. So a deletion takes its time, and holds nothing meanwhile; one that breaks off leaves what is
disabled, and can be asked for again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic, sleep
from typing import Any

from django.db import transaction
from django.db.models import CASCADE, SET_NULL, Model, QuerySet
from django.db.models.deletion import get_candidate_relations_to_delete

from ingest import clean
from ingest.models import Application, Lease, Node, OutboxEvent, Recording, Session, Stream
from ingest.services import actions as services_actions
from ingest.services import audit, outbox, recordings, retention
from ingest.services.audit import Actor
from ingest.services.recordings import RecordingProblem
from ingest.services.sql import MAX_COUNT, count_up_to

WAIT_S = 15.0
"""For what goes on to be over: nodes end it within 2 s, and what happened is told each 3 s."""
POLL_S = 0.1
RUN_S = 60.0
"""For history to let go of what is deleted."""


class InTheWay(Exception):  # noqa: N818 - an answer, not an error.
    """It is not deleted as it is now. The message is for the operator."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one kind. `name`: as scripts read it. `count`: MAX_COUNT where there are more."""

    name: str
    model: type[Model]
    count: int

    def __str__(self) -> str:
        if self.count == 1:
            return f"1 {self.model._meta.verbose_name}"
        more = " or more" if self.count == MAX_COUNT else ""
        return f"{self.count:,}{more} {self.model._meta.verbose_name_plural}"


@dataclass(frozen=True, slots=True)
class Removal:
    """What a deletion would do, and in whose midst: of how many publishers and players."""

    goes: Sequence[Part]
    stays: Sequence[Part]
    publishers: int
    players: int

    def as_dict(self) -> dict[str, Any]:
        goes, stays = ({part.name: part.count for part in parts} for parts in (self.goes, self.stays))
        return {"goes": goes, "stays": stays, "publishers": self.publishers, "players": self.players}

    @property
    def summary(self) -> str:
        """In sentences, without what there is none of."""
        goes, stays = _listed(self.goes), _listed(self.stays)
        found = [f"With it go: {goes}." if goes else "Nothing goes with it."]
        if stays:
            found.append(f"What stays: {stays}.")
        if self.publishers or self.players:
            found.append(f"What goes on is ended: {self.publishers} publishing, {self.players} playing.")
        return " ".join(found)


def of_streams(streams: "QuerySet[Stream]") -> Removal:
    stays = (_part("recordings", Recording.objects.filter(stream__in=streams)), _history(streams))
    return Removal(list(_going(streams)), stays, *_open(streams))


def of_applications(applications: "QuerySet[Application]") -> Removal:
    streams = Stream.objects.filter(application__in=applications)
    goes = [*_going(applications), *_going(streams)]
    return Removal(goes, (_history(streams),), *_open(streams))


def delete_stream(actor: Actor, stream: Stream, *, force: bool = False, with_recordings: bool = False) -> Removal:
    """Raises InTheWay while somebody publishes it, unless it is forced: then its sessions end first. Also for a
    recording that can't be deleted, and where what goes on is not over in WAIT_S.
    """
    row, recorded = Stream.objects.filter(pk=stream.pk), Recording.objects.filter(stream=stream)
    first = recorded if with_recordings else recorded.none()
    return _delete(actor, _Doomed("stream", stream.path, row, row, of_streams, recorded, first), force)


def delete_application(actor: Actor, application: Application, *, force: bool = False) -> Removal:
    """As `delete_stream`, of all its streams. Its recordings go with it, whatever their state."""
    row, streams = Application.objects.filter(pk=application.pk), Stream.objects.filter(application=application)
    recorded = Recording.objects.filter(application=application)
    doomed = _Doomed("application", application.name, row, streams, of_applications, recorded, recorded.none())
    return _delete(actor, doomed, force)


@dataclass(frozen=True, slots=True)
class _Doomed:
    """What is to be deleted. `recorded`: of its streams; `first`: recordings that go before it, each with an entry."""

    kind: str
    name: str
    row: "QuerySet[Any]"
    streams: "QuerySet[Stream]"
    plan: Callable[["QuerySet[Any]"], Removal]
    recorded: "QuerySet[Recording]"
    first: "QuerySet[Recording]"


def _delete(actor: Actor, doomed: _Doomed, force: bool) -> Removal:
    live = doomed.plan(doomed.row)
    refuse_live(doomed.name, live, force)
    running = doomed.recorded.filter(state=Recording.State.RECORDING, session__ended_at__isnull=True)
    written = list(running.exclude(session=None).values_list("pk", flat=True))  # They are closed with their sessions.
    _each_recording(doomed, recordings.check_deletable, besides=written)
    if force:
        _end(actor, doomed)  # Before a node finds it disabled, which would be another reason.
    changed = _disable(doomed, force)
    try:
        _end(actor, doomed)
        _wait(doomed, written)
        _each_recording(doomed, recordings.check_deletable)
        _each_recording(doomed, partial(services_actions.delete_recording, actor, note=f"With {doomed.name}"))
        removal = replace(doomed.plan(doomed.row), publishers=live.publishers, players=live.players)
        _detach(doomed)
        _drop(actor, doomed, removal)
    except InTheWay:
        if changed:
            audit.record(actor, f"{doomed.kind}.disable", doomed.name, note="It was to be deleted.")
        raise
    return removal


def _drop(actor: Actor, doomed: _Doomed, removal: Removal) -> None:
    with transaction.atomic():
        outbox.hold(doomed.streams.values_list("pk", flat=True))
        if not doomed.row.select_for_update():
            return  # Somebody else has deleted it.
        list(doomed.streams.select_for_update().values_list("pk"))
        if left := _left(doomed, ()):
            raise InTheWay(f"{doomed.name} is not deleted yet: it is disabled, but {left} Then delete it again.")
        audit.record(actor, f"{doomed.kind}.delete", doomed.name, **removal.as_dict())
        doomed.row.delete()


def in_the_way(name: str, removal: Removal) -> str:
    """Why it stays unless it is forced; "" while nobody publishes."""
    if not removal.publishers:
        return ""
    return f"{name} is live: {removal.publishers} publishing, {removal.players} playing."


def refuse_live(name: str, removal: Removal, force: bool) -> None:
    """Raises InTheWay."""
    why = in_the_way(name, removal)
    if why and not force:
        raise InTheWay(f"{why} Disable it first, or force it: then they are ended.")


def _each_recording(doomed: _Doomed, action: Callable[[Recording], None], besides: Sequence[int] = ()) -> None:
    """Raises InTheWay for the first with which it can't be done. `besides`: those that are left out."""
    rows = doomed.first.exclude(pk__in=besides).select_related("application", "stream__application")
    for recording in list(rows.order_by("started_at")):
        try:
            action(recording)
        except RecordingProblem as problem:
            words = f"The recording {recording} can't be deleted, so {doomed.name} stays. {problem}"
            raise InTheWay(words) from None


def _disable(doomed: _Doomed, force: bool) -> bool:
    """Nobody begins any more. False: it was disabled. Raises InTheWay for who has just begun: it stays as it was."""
    changed = bool(doomed.row.filter(enabled=True).update(enabled=False))
    try:
        refuse_live(doomed.name, doomed.plan(doomed.row), force)
    except InTheWay:
        if changed:
            doomed.row.update(enabled=True)
        raise
    return changed


def _end(actor: Actor, doomed: _Doomed) -> None:
    """Asks for the end of their sessions, with the reason; what was asked for before stays as it was."""
    name = doomed.name if doomed.kind == "stream" else f"The application {doomed.name}"
    note = clean.text(f"{name} was deleted by {actor.name}.", 255)
    with transaction.atomic():
        outbox.hold(doomed.streams.values_list("pk", flat=True))
        asked = Session.objects.filter(stream__in=doomed.streams, ended_at__isnull=True, stop_requested="")
        asked.update(stop_requested="kicked", stop_by=actor.user, stop_note=note)


def _wait(doomed: _Doomed, written: Sequence[int]) -> None:
    """Until all is over. Raises InTheWay if that takes too long."""
    ends = monotonic() + WAIT_S
    while left := _left(doomed, written):
        if monotonic() >= ends:
            raise InTheWay(f"{doomed.name} is not deleted yet: it is disabled, but {left} Then delete it again.")
        sleep(POLL_S)


def _left(doomed: _Doomed, written: Sequence[int]) -> str:
    """What is not over yet, and what to do, as two sentences; "": all is."""
    open_ = Session.objects.filter(stream__in=doomed.streams, ended_at__isnull=True).order_by()
    if count := count_up_to(open_):
        there = Node.objects.filter(pk__in=open_.values("node")).order_by("name")
        where = ", ".join(f"{node.name} ({node.state})" for node in there) or "no node"
        how_many = "one session has" if count == 1 else f"{count:,} sessions have"
        return (
            f"{how_many} not ended, on {where}. See that the node reaches the database; if it died, start it again: "
            "what it left ends then."
        )
    if found := Recording.objects.filter(pk__in=written, state=Recording.State.RECORDING).first():
        return f"the recording {found} is still being written. Its node closes it."
    if count := count_up_to(OutboxEvent.objects.filter(stream__in=doomed.streams, taken_at__isnull=True)):
        events = "one event waits" if count == 1 else f"{count:,} events wait"
        return f"{events} to be handed to webhooks and alerts. See that a worker and the schedule run."
    return ""


def _detach(doomed: _Doomed) -> None:
    """What stays is not its any more. Raises InTheWay for a history that is too long for once."""
    ends = monotonic() + RUN_S
    for rows, name in _that_stay(doomed.row):
        if not retention.set_in_pieces(rows, {name: None}, run_s=ends - monotonic()):
            raise InTheWay(
                f"{doomed.name} is not deleted yet: it is disabled, and its long history lets go of it in pieces. "
                "Delete it again, and that goes on."
            )


def _that_stay(rows: "QuerySet[Any]") -> Iterator[tuple["QuerySet[Any]", str]]:
    """Rows that outlive what goes with these, each with the field by which they belong to it."""
    relations: Iterable[Any] = get_candidate_relations_to_delete(rows.model._meta)
    for relation in relations:
        those = relation.related_model._base_manager.filter(**{f"{relation.field.name}__in": rows})
        if relation.on_delete is SET_NULL:
            yield those, relation.field.name
        elif relation.on_delete is CASCADE:
            yield from _that_stay(those)


def _going(rows: "QuerySet[Any]") -> Iterator[Part]:
    """What the database deletes with them; but for leases, which are their own."""
    for relation in rows.model._meta.related_objects:
        if relation.on_delete is CASCADE and relation.related_model is not Lease:
            those = relation.related_model._default_manager.filter(**{f"{relation.field.name}__in": rows})
            yield _part(str(relation.get_accessor_name()), those)


def _history(streams: "QuerySet[Stream]") -> Part:
    return _part("sessions", Session.objects.filter(stream__in=streams))


def _open(streams: "QuerySet[Stream]") -> tuple[int, int]:
    """Publishers and players. Told apart here, as the database would look for them among all that ever were."""
    rows = Session.objects.filter(stream__in=streams, ended_at__isnull=True).order_by()
    kinds = Counter(rows.values_list("kind", flat=True)[:MAX_COUNT])
    return kinds[Session.Kind.PUBLISH], kinds[Session.Kind.PLAY]


def _part(name: str, rows: "QuerySet[Any]") -> Part:
    return Part(name, rows.model, count_up_to(rows))


def _listed(parts: Sequence[Part]) -> str:
    return ", ".join(str(part) for part in parts if part.count)
