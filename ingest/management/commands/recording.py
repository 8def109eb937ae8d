"""`manage.py recording`: what was recorded, and files that are brought in."""

from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from ingest.management import base
from ingest.models import Recording
from ingest.models.names import validate_stream_name
from ingest.services import actions as services_actions
from ingest.services import audit, recordings
from ingest.services.recordings import RecordingProblem

MIB = 1024**2


class Command(BaseCommand):
    help = (
        "Lists, imports and deletes recordings, and compares them with the files in the folder of recordings "
        "(RTMPWEB_RECORDINGS). Players ask for one by its name: rtmp://host/APP/NAME."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="act", required=True, metavar="list|add|delete|keep|check")
        listing = verbs.add_parser("list", help="list the recordings, newest first")
        listing.add_argument("path", nargs="?", metavar="APP[/NAME]", help="only of this application, or this stream")
        add = verbs.add_parser("add", help="import a file: FLV as it is, MP4 and others remuxed, nothing coded anew")
        add.add_argument("path", metavar="APP/NAME", help="under which it is played, in place of an older one")
        add.add_argument("file", type=Path)
        delete = verbs.add_parser("delete", help="delete a recording and its file")
        delete.add_argument("id", type=int, help="as listed")
        keep = verbs.add_parser("keep", help="never delete it because of its age or of the room it takes")
        keep.add_argument("id", type=int, help="as listed")
        keep.add_argument("--off", action="store_true", help="treat it as all others again")
        check = verbs.add_parser("check", help="find rows without files, files without rows, and what is unfinished")
        check.add_argument("--mend", action="store_true", help="close what dead nodes left open")
        for act in (listing, add, delete, keep, check):
            act.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        does: dict[str, Callable[..., None]] = {
            "list": self._list,
            "add": self._add,
            "delete": self._delete,
            "keep": self._keep,
            "check": self._check,
        }
        try:
            does[options["act"]](**options)
        except RecordingProblem as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"{error.filename or recordings.folder()}: {error.strerror}.") from None

    def _list(self, *, path: str | None, json: bool, **options: Any) -> None:
        rows = Recording.objects.select_related("application", "stream")
        if path is not None:
            app, name = base.split_path(path) if "/" in path else (path, None)
            rows = rows.filter(application__name=app)
            if name is not None:
                rows = rows.filter(stream__name=name)
        items = [_row(row) for row in rows]
        if json:
            base.put_json(self.stdout, {"items": items, "count": len(items)})
            return
        for item in items:
            self.stdout.write(_line(item))
        if not items:
            self.stdout.write("There are no recordings.")

    def _add(self, *, path: str, file: Path, json: bool, **options: Any) -> None:
        name = base.split_path(path)[1]
        try:
            validate_stream_name(name)
        except ValidationError as error:
            raise CommandError(f"{name!r} can't be a recording's name. {' '.join(error.messages)}") from None
        actor = audit.command("recording")
        stream = base.stream_of(path, make=actor)
        self._put(services_actions.import_recording(actor, stream=stream, name=name, source=file), "Imported", json)

    def _delete(self, *, id: int, json: bool, **options: Any) -> None:  # noqa: A002 - the argument's name.
        recording = base.recording_of(id)
        item = _row(recording)
        services_actions.delete_recording(audit.command("recording"), recording)
        if json:
            base.put_json(self.stdout, item)
        else:
            self.stdout.write(f"Deleted {_line(item)}")

    def _keep(self, *, id: int, off: bool, json: bool, **options: Any) -> None:  # noqa: A002 - the argument's name.
        recording = base.recording_of(id)
        services_actions.keep_recording(audit.command("recording"), recording, not off)
        self._put(recording, "Changed", json)

    def _check(self, *, mend: bool, json: bool, **options: Any) -> None:
        found = recordings.check()
        mended = [row for row in found.unfinished if mend and recordings.recover(row, for_good=True)]
        unfinished = [row for row in found.unfinished if row not in mended]
        if json:
            base.put_json(
                self.stdout,
                {
                    "without_file": [_row(row) for row in found.without_file],
                    "without_row": [path.as_posix() for path in found.without_row],
                    "unfinished": [_row(row) for row in unfinished],
                    "mended": [row.pk for row in mended],
                },
            )
            return
        for row in found.without_file:
            self.stdout.write(f"No file: {_line(_row(row))}. Delete it: manage.py recording delete {row.pk}")
        for path in found.without_row:
            self.stdout.write(f"No row: {recordings.folder() / path}. Import it with `recording add`, or remove it.")
        for row in mended:
            self.stdout.write(f"Closed: {_line(_row(row))}")
        for row in unfinished:
            self.stdout.write(f"Unfinished: {_line(_row(row))}. Close it: manage.py recording check --mend")
        if not (found.without_file or found.without_row or found.unfinished):
            self.stdout.write("Rows and files agree.")

    def _put(self, recording: Recording, done: str, json: bool) -> None:
        item = _row(recording)
        if json:
            base.put_json(self.stdout, item)
        else:
            self.stdout.write(f"{done} {_line(item)}")


def _row(recording: Recording) -> dict[str, Any]:
    return {
        "id": recording.pk,
        "app": recording.application.name,
        "name": recording.name,
        "stream": recording.stream.name if recording.stream is not None else None,
        "state": recording.state,
        "started_at": base.iso(recording.started_at),
        "ended_at": base.iso(recording.ended_at),
        "duration_ms": recording.duration_ms,
        "size_bytes": recording.size_bytes,
        "keep": recording.keep,
        "file": recording.file,
        "description": recording.description,
    }


def _line(item: dict[str, Any]) -> str:
    figures = f"{item['duration_ms'] / 1000:.1f} s  {item['size_bytes'] / MIB:.1f} MiB"
    kept = "  kept" if item["keep"] else ""
    return f"{item['id']}  {item['app']}/{item['name']}  {item['state']}  {item['started_at']}  {figures}{kept}"
