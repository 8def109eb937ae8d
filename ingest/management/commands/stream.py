"""`manage.py stream`: makes, shows, disables and deletes streams."""

from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ingest.management import base
from ingest.models import Stream
from ingest.services import actions as services_actions
from ingest.services import audit, removal
from ingest.services.removal import InTheWay, Removal

ACTOR = partial(audit.command, "stream")


class Command(BaseCommand):
    help = (
        "Makes, shows, disables and deletes streams. One that is disabled is refused to publishers and players, and "
        "what goes on of it ends within 2 s, on whichever node it is."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="act", required=True, metavar="create|show|list|disable|enable|delete")
        create = verbs.add_parser("create", help="make a stream in its application")
        show = verbs.add_parser("show", help="its settings, and what there is of it")
        listing = verbs.add_parser("list", help="list streams")
        disable = verbs.add_parser("disable", help="refuse it to all, and end what goes on of it")
        enable = verbs.add_parser("enable", help="allow it again")
        delete = verbs.add_parser("delete", help="delete it with its keys and all that is set up for it")
        for act in (create, show, disable, enable, delete):
            act.add_argument("stream", metavar="APP/NAME")
        listing.add_argument("app", metavar="APP", nargs="?", help="only of this application")
        delete.add_argument(
            "--recordings", action="store_true", help="with its recordings and their files; else they stay"
        )
        base.add_deletion_arguments(delete)
        for act in (create, show, listing, disable, enable, delete):
            act.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        does: dict[str, Callable[..., None]] = {
            "create": self._create,
            "show": self._show,
            "list": self._list,
            "disable": partial(self._enable, enabled=False),
            "enable": partial(self._enable, enabled=True),
            "delete": self._delete,
        }
        try:
            does[options["act"]](**options)
        except InTheWay as problem:
            raise CommandError(str(problem)) from None

    def _create(self, *, stream: str, json: bool, **options: Any) -> None:
        app, name = base.split_path(stream)
        if Stream.objects.filter(application__name=app, name=name).exists():
            raise CommandError(f"There is a stream {stream!r} already.")
        self._put(base.stream_of(stream, make=ACTOR()), "Made", json)

    def _show(self, *, stream: str, json: bool, **options: Any) -> None:
        found = base.stream_of(stream)
        plan = _plan(found)
        if json:
            base.put_json(self.stdout, _row(found) | {"deletion": plan.as_dict()})
        else:
            self.stdout.write(f"{_line(found)}\nIf it is deleted: {plan.said}")

    def _list(self, *, app: str | None, json: bool, **options: Any) -> None:
        rows = Stream.objects.select_related("application", "owner")
        if app is not None:
            rows = rows.filter(application=base.application_of(app))
        found = list(rows)
        if json:
            base.put_json(self.stdout, {"items": [_row(row) for row in found], "count": len(found)})
            return
        for row in found:
            self.stdout.write(_line(row))
        if not found:
            self.stdout.write("There are no streams. Make one with: manage.py stream create APP/NAME")

    def _enable(self, *, stream: str, enabled: bool, json: bool, **options: Any) -> None:
        found = base.stream_of(stream)
        services_actions.set_enabled(ACTOR(), found, enabled)
        self._put(found, "Changed", json)

    def _delete(self, *, stream: str, recordings: bool, force: bool, yes: bool, json: bool, **options: Any) -> None:
        found = base.stream_of(stream)
        base.confirm_deletion(self.stdout, found.path, _plan(found), force=force, yes=yes, json=json)
        done = removal.delete_stream(ACTOR(), found, force=force, with_recordings=recordings)
        if json:
            base.put_json(self.stdout, {"deleted": stream, **done.as_dict()})
        else:
            self.stdout.write(f"Deleted {stream}.")

    def _put(self, stream: Stream, done: str, json: bool) -> None:
        if json:
            base.put_json(self.stdout, _row(stream))
        else:
            self.stdout.write(f"{done} {_line(stream)}")


def _plan(stream: Stream) -> Removal:
    return removal.of_streams(Stream.objects.filter(pk=stream.pk))


def _row(stream: Stream) -> dict[str, Any]:
    return {
        "app": stream.application.name,
        "name": stream.name,
        "enabled": stream.enabled,
        "owner": stream.owner.get_username() if stream.owner is not None else None,
        "target_kbps": stream.target_kbps,
        "takeover": stream.takeover,
        "created_at": base.iso(stream.created_at),
    }


def _line(stream: Stream) -> str:
    expected = f"  target={stream.target_kbps} kbit/s" if stream.target_kbps else ""
    return f"{stream.path}  enabled={stream.enabled}  takeover={stream.takeover}{expected}"
