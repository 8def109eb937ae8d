"""Recordings: rows of files in one folder, which nodes, workers and the web share.

A row is made when its file holds media, and is complete when that is closed. Where a newer one of the same name that
replaces others is complete the older one is superseded, and goes with the next `tidy`. A file goes before its row:
what is left of a deletion that broke off can be deleted again.
"""

import errno
import logging
import os
import uuid
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.db.models.signals import post_delete
from django.dispatch import receiver
from django.utils import timezone

from ingest import clean
from ingest.contracts.connection import RecordEvent, RecordOrder
from ingest.flv import FlvError
from ingest.flv.recording import locked, recording_error, repair
from ingest.models import Application, Recording, Session, Stream
from ingest.mp4 import heads
from ingest.services import outbox

logger = logging.getLogger(__name__)

RECOVERED = "Its server was stopped in the middle: closed at the next start."
BEING_RECORDED = "It is being recorded: end its stream first."
KEPT = "It is to be kept."
DELETED = "It is being deleted."
GIB = 1024**3

PASSING = {
    *(errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENXIO, errno.ENODEV, errno.ENOTCONN, errno.EHOSTDOWN),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
}
"""Errors of a disk or a system that say nothing of the file: it is looked at again later."""


class RecordingProblem(Exception):  # noqa: N818 - an answer, not an error.
    """What was asked of a recording can't be done. The message is for the operator."""


def folder() -> Path:
    return Path(settings.RECORDINGS_DIR)


def path_of(recording: Recording) -> Path:
    """Where its file is. Raises RecordingProblem for a row whose path leads out of the folder."""
    path = folder() / recording.file
    if not recording.file or ".." in path.parts or not path.is_relative_to(folder()):
        raise RecordingProblem(f"The file of the recording {recording.pk} is not in the folder of recordings.")
    return path


def download_name(recording: Recording) -> str:
    """Of the file on a visitor's disk: the public names, with the time where the name has none."""
    at = f"{recording.started_at:%Y%m%dT%H%M%SZ}"
    name = f"{recording.application.name}-{recording.name}".replace("/", "-")
    return f"{name}{'' if at in name else f'-{at}'}{Path(recording.file).suffix}"


# --- What a publisher may have recorded, and what became of it ---


def order(*, application: Application, stream: Stream, publish_type: str) -> RecordOrder | None:
    """What is to be recorded of a publisher that is admitted; None: nothing."""
    policy = Application.RecordPolicy
    if application.record == policy.ALL:
        return {"mode": "all", "file": ""}
    if application.record != policy.REQUESTED:
        return None
    match publish_type:
        case "record":
            return {"mode": "record", "file": ""}
        case "append":
            those = Recording.objects.filter(application=application, stream=stream, name=stream.name)
            latest = those.order_by("-started_at").values_list("file", flat=True).first()
            return {"mode": "append", "file": latest or ""}
    return None


def note(*, session: uuid.UUID, at: datetime, event: RecordEvent, held: outbox.Held | None = None) -> None:
    """Writes down what became of a file. Saying it again changes nothing, nor does a start that is told after its end:
    a session's application and its node's tell of one each. `held`: its stream, by whoever tells of more than this."""
    if not event["file"]:
        return
    if event["state"] == "started" and _is_over(session, event):
        return
    owner = Session.objects.filter(pk=session).select_related("stream", "node").first()
    application = Application.objects.filter(name=owner.app).first() if owner is not None else None
    if owner is None or application is None:  # Deleted meanwhile: the file is one without a row, for `recording check`.
        logger.warning("The recording %s has no row: its application or session is gone.", event["file"])
        return
    is_over = event["state"] != "started"
    fields: dict[str, Any] = {
        "application": application,
        "stream": owner.stream,
        "session": owner,
        "node": owner.node,
        "name": event["name"],
        "state": {
            "started": Recording.State.RECORDING,
            "closed": Recording.State.COMPLETE,
            "failed": Recording.State.FAILED,
        }[event["state"]],
        "description": clean.text(_description(event), 255),
        "ended_at": at if is_over else None,
        "duration_ms": event["duration_ms"],
        "size_bytes": event["size_bytes"],
    }
    began = datetime.fromtimestamp(event["began"], UTC) if event["began"] else at
    first = {"started_at": began, "replaces": event["mode"] == "record"}
    recording, _ = Recording.objects.update_or_create(
        file=event["file"], defaults=fields, create_defaults={**fields, **first}
    )
    if is_over:
        outbox.recorded(recording, owner, at, held)


def _is_over(session: uuid.UUID, event: RecordEvent) -> bool:
    """A session that goes on with a file after a failure has written to it first: then the file is larger."""
    rows = Recording.objects.filter(file=event["file"], session=session, size_bytes__gte=event["size_bytes"])
    return rows.exclude(state=Recording.State.RECORDING).exists()


def _description(event: RecordEvent) -> str:
    sentences = [event["description"]] if event["description"] else []
    if event["dropped_frames"] and event["state"] != "started":
        sentences.append(f"{event['dropped_frames']} frames are missing, as the disk was behind.")
    return " ".join(sentences)


# --- After a node's death ---


def unfinished(*, node: str | None = None, writing: Collection[uuid.UUID] = ()) -> "QuerySet[Recording]":
    """Rows that say that they are recorded. `writing`: the sessions whose files are still written."""
    rows = Recording.objects.filter(state=Recording.State.RECORDING).exclude(session__in=writing)
    return rows.filter(Q(node__name=node) | Q(node=None)) if node is not None else rows


def recover(recording: Recording, *, for_good: bool = False) -> bool:
    """Closes the file of a dead writer, and says so in its row: it ended when it was last written.

    False: somebody still writes it; or the folder isn't there, empty or fails just now, unless it is `for_good`.
    """
    session = recording.session_id
    fields: dict[str, Any] = {"state": Recording.State.COMPLETE, "description": RECOVERED}
    ended_at = recording.session.ended_at if recording.session is not None else None
    try:
        path = path_of(recording)
        ended_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)  # Closing it is a write as well.
        file = repair(path)
        fields |= {"duration_ms": file.duration_ms, "size_bytes": file.size}
    except BlockingIOError:
        return False
    except FileNotFoundError:
        if not for_good and _is_away():
            return False
        fields = {"state": Recording.State.FAILED, "description": "Its file is missing."}
    except (OSError, FlvError, RecordingProblem) as error:
        if not for_good and isinstance(error, OSError) and error.errno in PASSING:
            return False
        text = str(error) if isinstance(error, RecordingProblem) else str(recording_error(error))
        fields = {"state": Recording.State.FAILED, "description": clean.text(f"It could not be closed: {text}", 255)}
    still = Recording.objects.filter(pk=recording.pk, state=Recording.State.RECORDING, session=session)
    with transaction.atomic():
        outbox.hold_of([session] if session is not None else [])
        now = timezone.now()
        if not still.update(ended_at=max(recording.started_at, min(ended_at or now, now)), **fields):
            return False
        recovered = Recording.objects.select_related("session__node").get(pk=recording.pk)
        if recovered.session is not None:
            outbox.recorded(recovered, recovered.session, now)
        return True


def _is_away() -> bool:
    """Such as a folder whose volume isn't mounted yet."""
    try:
        return not any(path.name != heads.FOLDER for path in folder().iterdir())
    except OSError:
        return True


# --- Deletion and retention ---


def delete(recording: Recording, *, spare_kept: bool = False) -> None:
    """The file, then the row, whatever the instance said when it was read.

    Raises RecordingProblem for one that is being recorded, OSError for a file that stays.
    """
    path = path_of(recording)
    try:
        with locked(path):
            _claim(recording, spare_kept)
            try:
                _unlink(path)
            except OSError:
                Recording.objects.filter(pk=recording.pk).update(
                    state=recording.state, description=recording.description
                )
                raise
    except BlockingIOError:
        raise RecordingProblem(BEING_RECORDED) from None
    except FileNotFoundError:
        _claim(recording, spare_kept)
    recording.delete()


def check_deletable(recording: Recording) -> None:
    """Raises RecordingProblem where it could not be deleted, as far as that shows before."""
    path = path_of(recording)
    if recording.state == Recording.State.RECORDING:
        raise RecordingProblem(BEING_RECORDED)
    try:
        with locked(path):
            pass
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except BlockingIOError:
        raise RecordingProblem(BEING_RECORDED) from None
    except FileNotFoundError:
        return
    except OSError as error:
        raise RecordingProblem(f"Its file can't be deleted: {error.strerror}.") from None


def _claim(recording: Recording, spare_kept: bool) -> None:
    """From now on nobody plays it, or counts on it. Raises RecordingProblem where it must stay."""
    row = Recording.objects.filter(pk=recording.pk)
    spared = Q(state=Recording.State.RECORDING) | (Q(keep=True) if spare_kept else Q(pk=None))
    if row.exclude(spared).update(state=Recording.State.FAILED, description=DELETED) or not row.exists():
        return
    raise RecordingProblem(KEPT if row.filter(keep=True).exclude(state=Recording.State.RECORDING) else BEING_RECORDED)


@receiver(post_delete, sender=Recording)
def _leave_no_file(instance: Recording, **_: Any) -> None:
    """A row may go with its application. Its file goes when that is certain."""
    transaction.on_commit(partial(_remove, instance))


def _remove(recording: Recording) -> None:
    try:
        path = path_of(recording)
        with locked(path):
            _unlink(path)
    except FileNotFoundError:
        pass
    except (OSError, RecordingProblem) as error:
        logger.warning("The file %s stays without a row, for `recording check`: %s", recording.file, error)


def _unlink(path: Path) -> None:
    """With what was made of it. Raises OSError."""
    path.unlink()
    heads.remove_head(folder(), path)


@dataclass(slots=True)
class Tidied:
    """How many recordings went, and why; `failed`: could not be deleted."""

    superseded: int = 0
    old: int = 0
    large: int = 0
    failed: int = 0

    @property
    def count(self) -> int:
        return self.superseded + self.old + self.large


def tidy(*, now: datetime, days: int, gib: int, node: str | None = None) -> Tidied:
    """Deletes what is superseded, older than so many days, and, oldest first, what is over so many GiB; 0: no limit.

    Never what is being recorded, or marked to be kept; but that counts towards the size, as it is by now. `node`: only
    of this one.
    """
    tidied = Tidied()
    over = Recording.objects.exclude(state=Recording.State.RECORDING).filter(keep=False)
    everything = Recording.objects.all()
    if node is not None:
        over, everything = (rows.filter(Q(node__name=node) | Q(node=None)) for rows in (over, everything))
    tidied.superseded = sum(_delete(recording, tidied) for recording in list(over.filter(Exists(_newer()))))
    if days:
        old = over.filter(started_at__lt=now - timedelta(days=days))
        tidied.old = sum(_delete(recording, tidied) for recording in list(old))
    if gib:
        writing = Q(state=Recording.State.RECORDING)
        excess = (everything.exclude(writing).aggregate(size=Sum("size_bytes"))["size"] or 0) - gib * GIB
        excess += sum(_size(recording) for recording in everything.filter(writing))
        for recording in over.order_by("started_at").iterator() if excess > 0 else ():
            size = recording.size_bytes
            if excess > 0 and _delete(recording, tidied):
                tidied.large += 1
                excess -= size
    return tidied


def _size(recording: Recording) -> int:
    """Bytes, of one that grows: its row says what it had at its start."""
    with suppress(OSError, RecordingProblem):
        return path_of(recording).stat().st_size
    return recording.size_bytes


def _newer() -> "QuerySet[Recording]":
    """A complete one that takes the place of the outer query's: what was appended never does."""
    return Recording.objects.filter(
        replaces=True,
        application=OuterRef("application"),
        stream=OuterRef("stream"),
        name=OuterRef("name"),
        state=Recording.State.COMPLETE,
        started_at__gt=OuterRef("started_at"),
    )


def _delete(recording: Recording, done: Tidied) -> bool:
    try:
        delete(recording, spare_kept=True)
    except (OSError, RecordingProblem) as error:
        done.failed += 1
        logger.warning("The recording %s could not be deleted: %s", recording.file, error)
        return False
    return True


# --- Whether rows and files agree ---


@dataclass(frozen=True, slots=True)
class Agreement:
    without_file: list[Recording]
    without_row: list[Path]
    """Relative to the folder."""
    unfinished: list[Recording]
    """Whose session has ended, so that nobody is about to close them."""


def check() -> Agreement:
    known: set[str] = set()
    without_file: list[Recording] = []
    for recording in Recording.objects.all().iterator():
        known.add(recording.file)
        if not (folder() / recording.file).is_file():
            without_file.append(recording)
    files = (path.relative_to(folder()) for path in folder().rglob("*") if path.is_file())
    found = sorted(path for path in files if path.parts[0] != heads.FOLDER)
    left = unfinished().filter(Q(session=None) | Q(session__ended_at__isnull=False))
    return Agreement(without_file, [path for path in found if path.as_posix() not in known], list(left))
