"""`manage.py stream`: makes, shows, disables and deletes streams."""

from typing import Any

from django.core.management.base import CommandError

from ingest import command_line
from ingest.management import base
from ingest.management.base import Answer, Argument, Verb, VerbCommand
from ingest.models import Stream
from ingest.services import removal
from ingest.services.removal import Removal

STREAM = Argument("stream", metavar="APP/NAME")


class Command(VerbCommand):
    help = (
        "Makes, shows, disables and deletes streams. One that is disabled is refused to encoders and players, and "
        "what goes on of it ends within 2 s, on whichever node it is."
    )

    @Verb("make a stream in its application", STREAM)
    def _create(self, stream: str) -> Answer:
        app, name = base.split_path(stream)
        if Stream.objects.filter(application__name=app, name=name).exists():
            raise CommandError(f"There is a stream {stream!r} already.")
        return self.of_one(base.stream_of(stream, make=self.actor), "Made")

    @Verb("its settings, and what there is of it", STREAM)
    def _show(self, stream: str) -> Answer:
        found = base.stream_of(stream)
        return self.show(found, _plan(found))

    @Verb("list streams", Argument("app", metavar="APP", nargs="?", help="only of this application"))
    def _list(self, app: str | None) -> Answer:
        rows = Stream.objects.select_related("application", "owner")
        if app is not None:
            rows = rows.filter(application=base.application_of(app))
        empty = f"There are no streams. Make one with: {command_line.here('stream create APP/NAME')}"
        return self.listing(rows, empty=empty)

    @Verb("refuse it to all, and end what goes on of it", STREAM)
    def _disable(self, stream: str) -> Answer:
        return self.set_enabled(base.stream_of(stream), False)

    @Verb("allow it again", STREAM)
    def _enable(self, stream: str) -> Answer:
        return self.set_enabled(base.stream_of(stream), True)

    @Verb(
        "delete it with its keys and all that is set up for it",
        STREAM,
        Argument("--recordings", action="store_true", help="with its recordings and their files; else they stay"),
        *base.DELETION,
    )
    def _delete(self, stream: str, recordings: bool, force: bool, **options: bool) -> Answer:
        found = base.stream_of(stream)
        return self.delete(
            stream,
            _plan(found),
            lambda: removal.delete_stream(self.actor, found, force=force, with_recordings=recordings),
            force=force,
            **options,
        )

    def row(self, stream: Stream) -> dict[str, Any]:
        return {
            "app": stream.application.name,
            "name": stream.name,
            "enabled": stream.enabled,
            "owner": stream.owner.get_username() if stream.owner is not None else None,
            **base.values(stream, "target_kbps", "takeover", "created_at"),
        }

    def line(self, row: dict[str, Any]) -> str:
        expected = f"  target={row['target_kbps']} kbit/s" if row["target_kbps"] else ""
        return f"{row['app']}/{row['name']}  enabled={row['enabled']}  takeover={row['takeover']}{expected}"


def _plan(stream: Stream) -> Removal:
    return removal.of_streams(Stream.objects.filter(pk=stream.pk))
