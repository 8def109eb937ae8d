"""`manage.py application`: makes, changes, disables and deletes RTMP applications."""

from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from ingest.management import base
from ingest.models import Application
from ingest.services import actions as services_actions
from ingest.services import audit, removal
from ingest.services.removal import InTheWay, Removal

ACTOR = partial(audit.command, "application")

ON_OFF = {"on": True, "off": False}

RECORD = {"on": Application.RecordPolicy.ALL, "off": Application.RecordPolicy.NONE}
"""What was said before there were three policies."""


class Command(BaseCommand):
    help = "Makes, changes, disables and deletes an RTMP application, the first part of an RTMP URL; lists all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="act", required=True, metavar="set|create|show|list|disable|enable|delete")
        change = verbs.add_parser("set", help="make the application, or change what is given")
        change.add_argument("name")
        change.add_argument(
            "--publish",
            choices=Application.PublishPolicy.values,
            help="key: with a stream key. open: anyone, under any name; for a trusted network or a benchmark only",
        )
        change.add_argument(
            "--play",
            choices=Application.PlayPolicy.values,
            help="public: anyone. token: with a signed token. none: nobody",
        )
        change.add_argument(
            "--record",
            choices=[*Application.RecordPolicy.values, *RECORD],
            help="requested: what publishers ask to be recorded. all (or on): everything. none (or off): nothing",
        )
        change.add_argument(
            "--play-recordings",
            choices=Application.PlayRecordings.values,
            help="signed: with a signed link or token (the default). as_live: whoever may play what is live",
        )
        change.add_argument(
            "--encoder-login", choices=list(ON_OFF), help="whether encoders are asked for a user and password"
        )
        change.add_argument(
            "--shared-objects",
            choices=Application.SharedObjects.values,
            help="none, temporary: until their last client leaves, persistent: kept in the database as well",
        )
        change.add_argument(
            "--callback",
            choices=Application.Callback.values,
            help="about whom the authorisation service (RTMPWEB_AUTH_URL) is asked",
        )
        change.add_argument(
            "--play-start-unit",
            choices=Application.StartUnit.values,
            help="of the start and duration that players ask for: ms, as FFmpeg and librtmp mean them (the default), "
            "or s, as the specification says, for programs that keep to it",
        )
        change.add_argument(
            "--max-instances",
            type=int,
            metavar="N",
            help="how many instances (rtmp://host/NAME/INSTANCE) its streams may be of; 0: none. Default 16",
        )
        change.add_argument("--enabled", choices=list(ON_OFF), help="off ends its sessions and refuses new ones")
        create = verbs.add_parser("create", parents=[change], add_help=False, help="make one that isn't there yet")
        show = verbs.add_parser("show", help="its policies, and what there is of it")
        listing = verbs.add_parser("list", help="list the applications")
        disable = verbs.add_parser("disable", help="refuse it to all, and end what goes on of it")
        enable = verbs.add_parser("enable", help="allow it again")
        delete = verbs.add_parser("delete", help="delete it with its streams, its recordings and all that is set up")
        for act in (show, disable, enable, delete):
            act.add_argument("name")
        base.add_deletion_arguments(delete)
        for act in (change, create, show, listing, disable, enable, delete):
            act.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        does: dict[str, Callable[..., None]] = {
            "set": self._set,
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

    def _create(self, *, name: str, **options: Any) -> None:
        if Application.objects.filter(name=name).exists():
            raise CommandError(f"There is an application {name!r} already. Change it with: application set {name}")
        self._set(name=name, **options)

    def _set(self, *, name: str, json: bool, **options: Any) -> None:
        application = Application.objects.filter(name=name).first() or Application(name=name)
        made = application.pk is None
        given = {
            "publish_policy": options["publish"],
            "play_policy": options["play"],
            "record": RECORD.get(options["record"], options["record"]),
            "play_recordings": options["play_recordings"],
            "encoder_login": ON_OFF.get(options["encoder_login"]),
            "shared_objects": options["shared_objects"],
            "callback": options["callback"],
            "play_start_unit": options["play_start_unit"],
            "max_instances": options["max_instances"],
            "enabled": ON_OFF.get(options["enabled"]),
        }
        for field, value in given.items():
            if value is not None:
                setattr(application, field, value)
        try:
            application.full_clean()
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        with transaction.atomic():
            application.save()
            act = "application.create" if made else "application.change"
            audit.record(ACTOR(), act, name, **{field: value for field, value in given.items() if value is not None})
        if json:
            base.put_json(self.stdout, _row(application))
        else:
            self.stdout.write(f"{'Made' if made else 'Changed'} {_line(application)}")

    def _show(self, *, name: str, json: bool, **options: Any) -> None:
        found = base.application_of(name)
        plan = _plan(found)
        if json:
            base.put_json(self.stdout, _row(found) | {"deletion": plan.as_dict()})
        else:
            self.stdout.write(f"{_line(found)}\nIf it is deleted: {plan.said}")

    def _enable(self, *, name: str, enabled: bool, json: bool, **options: Any) -> None:
        found = base.application_of(name)
        services_actions.set_enabled(ACTOR(), found, enabled)
        if json:
            base.put_json(self.stdout, _row(found))
        else:
            self.stdout.write(f"Changed {_line(found)}")

    def _delete(self, *, name: str, force: bool, yes: bool, json: bool, **options: Any) -> None:
        found = base.application_of(name)
        base.confirm_deletion(self.stdout, name, _plan(found), force=force, yes=yes, json=json)
        done = removal.delete_application(ACTOR(), found, force=force)
        if json:
            base.put_json(self.stdout, {"deleted": name, **done.as_dict()})
        else:
            self.stdout.write(f"Deleted {name}.")

    def _list(self, *, json: bool, **options: Any) -> None:
        rows = list(Application.objects.all())
        if json:
            base.put_json(self.stdout, {"items": [_row(row) for row in rows], "count": len(rows)})
            return
        for row in rows:
            self.stdout.write(_line(row))


def _plan(application: Application) -> Removal:
    return removal.of_applications(Application.objects.filter(pk=application.pk))


def _row(application: Application) -> dict[str, Any]:
    return {
        "name": application.name,
        "enabled": application.enabled,
        "publish": application.publish_policy,
        "play": application.play_policy,
        "record": application.record,
        "play_recordings": application.play_recordings,
        "encoder_login": application.encoder_login,
        "shared_objects": application.shared_objects,
        "callback": application.callback,
        "play_start_unit": application.play_start_unit,
        "max_instances": application.max_instances,
    }


TOLD = (
    *("publish", "play", "record", "play_recordings", "encoder_login", "shared_objects", "callback"),
    *("play_start_unit", "max_instances", "enabled"),
)


def _line(application: Application) -> str:
    row = _row(application)
    return "  ".join([row["name"], *(f"{name}={row[name]}" for name in TOLD)])
