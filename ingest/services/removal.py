"""Deleting streams and applications: what goes with them, what stays, and what stands in the way.

With a stream goes what the database lets go with it: keys, log-ins, limits of health checks, mutes, plans of reports;
with an application its streams, with all that, its recordings with their files, and its shared objects. History stays,
by the names that it copied. So does what was recorded of a stream, unless it is to go as well: it is its application's
then.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import CASCADE, Model, QuerySet

from ingest import clean
from ingest.models import Application, Lease, Recording, Session, Stream
from ingest.services import acts, audit
from ingest.services.audit import Actor
from ingest.services.counting import MOST, up_to
from ingest.services.recordings import RecordingProblem


class InTheWay(Exception):  # noqa: N818 - an answer, not an error.
    """It is not deleted as it is now. The message is for the operator."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one kind. `name`: as scripts read it. `count`: MOST where there are more."""

    name: str
    model: type[Model]
    count: int

    def __str__(self) -> str:
        if self.count == 1:
            return f"1 {self.model._meta.verbose_name}"
        more = " or more" if self.count == MOST else ""
        return f"{self.count:,}{more} {self.model._meta.verbose_name_plural}"


@dataclass(frozen=True, slots=True)
class Removal:
    """What a deletion would do, and in whose midst: of how many publishers and players."""

    goes: Sequence[Part]
    stays: Sequence[Part]
    publishers: int
    players: int

    def as_dict(self) -> dict[str, Any]:
        """By the parts' names."""
        goes, stays = ({part.name: part.count for part in parts} for parts in (self.goes, self.stays))
        return {"goes": goes, "stays": stays, "publishers": self.publishers, "players": self.players}

    @property
    def said(self) -> str:
        """In sentences, without what there is none of."""
        goes, stays = _listed(self.goes), _listed(self.stays)
        found = [f"With it go: {goes}." if goes else "Nothing goes with it."]
        if stays:
            found.append(f"What stays: {stays}.")
        if self.publishers or self.players:
            found.append(f"What goes on is ended: {self.publishers} publishing, {self.players} playing.")
        return " ".join(found)


def of_streams(streams: "QuerySet[Stream]") -> Removal:
    """What deletes these streams."""
    stays = (_part("recordings", Recording.objects.filter(stream__in=streams)), _history(streams))
    return Removal(list(_going(streams)), stays, *_open(streams))


def of_applications(applications: "QuerySet[Application]") -> Removal:
    streams = Stream.objects.filter(application__in=applications)
    goes = [*_going(applications), *_going(streams)]
    return Removal(goes, (_history(streams),), *_open(streams))


def delete_stream(actor: Actor, stream: Stream, *, force: bool = False, with_recordings: bool = False) -> Removal:
    """Raises InTheWay while somebody publishes it, unless it is forced: then its sessions end within 2 s; and for a
    recording that can't be deleted.
    """
    path, row = stream.path, Stream.objects.filter(pk=stream.pk)
    refuse_live(path, of_streams(row), force)
    if with_recordings:
        _delete_recordings(actor, stream)
    with transaction.atomic():
        list(row.select_for_update())
        removal = of_streams(row)
        refuse_live(path, removal, force)
        _end(actor, row, f"{path} was deleted")
        audit.record(actor, "stream.delete", path, **removal.as_dict())
        row.delete()
    return removal


def delete_application(actor: Actor, application: Application, *, force: bool = False) -> Removal:
    """As `delete_stream`, of all its streams."""
    row = Application.objects.filter(pk=application.pk)
    streams = Stream.objects.filter(application=application)
    with transaction.atomic():
        list(row.select_for_update())
        list(streams.select_for_update().values_list("pk"))
        removal = of_applications(row)
        refuse_live(application.name, removal, force)
        _end(actor, streams, f"The application {application.name} was deleted")
        audit.record(actor, "application.delete", application.name, **removal.as_dict())
        row.delete()
    return removal


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


def _delete_recordings(actor: Actor, stream: Stream) -> None:
    recordings = Recording.objects.select_related("application", "stream__application").filter(stream=stream)
    for recording in list(recordings.order_by("started_at")):
        try:
            acts.delete_recording(actor, recording, note=f"With {stream.path}")
        except RecordingProblem as problem:
            raise InTheWay(f"The recording {recording} can't be deleted, so {stream.path} stays. {problem}") from None


def _end(actor: Actor, streams: "QuerySet[Stream]", what: str) -> None:
    """Asks for the end of their sessions, with the reason; what was asked for before stays as it was."""
    note = clean.text(f"{what} by {actor.name}.", 255)
    rows = Session.objects.filter(stream__in=streams, ended_at__isnull=True, stop_requested="")
    rows.update(stop_requested="kicked", stop_by=actor.user, stop_note=note)


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
    kinds = Counter(rows.values_list("kind", flat=True)[:MOST])
    return kinds[Session.Kind.PUBLISH], kinds[Session.Kind.PLAY]


def _part(name: str, rows: "QuerySet[Any]") -> Part:
    return Part(name, rows.model, up_to(rows))


def _listed(parts: Sequence[Part]) -> str:
    return ", ".join(str(part) for part in parts if part.count)
