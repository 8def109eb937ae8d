"""`manage.py recording`: what was recorded, and files that are brought in."""

from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from ingest import command_line
from ingest.management import base
from ingest.management.base import Answer, Argument, Verb, VerbCommand
from ingest.models import Recording
from ingest.models.names import validate_stream_name
from ingest.rtmp.limits import MIB
from ingest.services import actions as services_actions
from ingest.services import recordings
from ingest.services.recordings import RecordingProblem

ID = Argument("id", type=int, help="as listed")


class Command(VerbCommand):
    help = (
        "Lists, imports and deletes recordings, and compares them with the files in the folder of recordings "
        "(RTMPWEB_RECORDINGS). Players ask for one by its name: rtmp://host/APP/NAME."
    )
    errors = (RecordingProblem,)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            super().handle(*args, **options)
        except OSError as error:
            raise CommandError(f"{error.filename or recordings.folder()}: {error.strerror}.") from None

    @Verb(
        "list the recordings, newest first",
        Argument("path", nargs="?", metavar="APP[/NAME]", help="only of this application, or this stream"),
    )
    def _list(self, path: str | None) -> Answer:
        rows = Recording.objects.select_related("application", "stream")
        if path is not None:
            app, name = base.split_path(path) if "/" in path else (path, None)
            rows = rows.filter(application__name=app)
            if name is not None:
                rows = rows.filter(stream__name=name)
        return self.listing(rows, empty="There are no recordings.")

    @Verb(
        "import a file: FLV as it is, MP4 and others remuxed, nothing coded anew",
        Argument("path", metavar="APP/NAME", help="the name it is played by; replaces an older one"),
        Argument("file", type=Path),
    )
    def _add(self, path: str, file: Path) -> Answer:
        name = base.split_path(path)[1]
        try:
            validate_stream_name(name)
        except ValidationError as error:
            raise CommandError(f"{name!r} can't be a recording's name. {' '.join(error.messages)}") from None
        stream = base.stream_of(path, make=self.actor)
        imported = services_actions.import_recording(self.actor, stream=stream, name=name, source=file)
        return self.of_one(imported, "Imported")

    @Verb("delete a recording and its file", ID)
    def _delete(self, id: int) -> Answer:  # noqa: A002 - the argument's name.
        recording = base.recording_of(id)
        deleted = self.of_one(recording, "Deleted")
        services_actions.delete_recording(self.actor, recording)
        return deleted

    @Verb(
        "never delete it because of its age or of the room it takes",
        ID,
        Argument("--off", action="store_true", help="no longer kept"),
    )
    def _keep(self, id: int, off: bool) -> Answer:  # noqa: A002 - the argument's name.
        recording = base.recording_of(id)
        services_actions.keep_recording(self.actor, recording, not off)
        return self.of_one(recording, "Changed")

    @Verb(
        "find rows without files, files without rows, and what is unfinished",
        Argument("--mend", action="store_true", help="close what dead nodes left open"),
    )
    def _check(self, mend: bool) -> Answer:
        checked = recordings.check()
        repaired = [row for row in checked.unfinished if mend and recordings.recover(row, for_good=True)]
        unfinished = [row for row in checked.unfinished if row not in repaired]
        value = {
            "without_file": [self.row(row) for row in checked.without_file],
            "without_row": [path.as_posix() for path in checked.without_row],
            "unfinished": [self.row(row) for row in unfinished],
            "mended": [row.pk for row in repaired],
        }
        close = command_line.here("recording check --mend")
        lines = [
            *(
                f"No file: {self._line_of(row)}. Delete it: {command_line.here('recording delete', str(row.pk))}"
                for row in checked.without_file
            ),
            *(
                f"No row: {recordings.folder() / path}. Import it with `recording add`, or remove it."
                for path in checked.without_row
            ),
            *(f"Closed: {self._line_of(row)}" for row in repaired),
            *(f"Unfinished: {self._line_of(row)}. Close it: {close}" for row in unfinished),
        ]
        return Answer(value, lines or ["Rows and files agree."])

    def row(self, recording: Recording) -> dict[str, Any]:
        return {
            "id": recording.pk,
            "app": recording.application.name,
            "name": recording.name,
            "stream": recording.stream.name if recording.stream is not None else None,
            **base.values(recording, "state", "started_at", "ended_at", "duration_ms", "size_bytes", "keep", "file"),
            "description": recording.description,
        }

    def line(self, row: dict[str, Any]) -> str:
        figures = f"{row['duration_ms'] / 1000:.1f} s  {row['size_bytes'] / MIB:.1f} MiB"
        kept = "  kept" if row["keep"] else ""
        return f"{row['id']}  {row['app']}/{row['name']}  {row['state']}  {row['started_at']}  {figures}{kept}"

    def _line_of(self, recording: Recording) -> str:
        return self.line(self.row(recording))
