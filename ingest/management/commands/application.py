"""`manage.py application`: makes and changes RTMP applications."""

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from ingest.management import arguments
from ingest.models import Application
from ingest.services import audit

ON_OFF = {"on": True, "off": False}

RECORD = {"on": Application.RecordPolicy.ALL, "off": Application.RecordPolicy.NONE}
"""What was said before there were three policies."""


class Command(BaseCommand):
    help = "Makes or changes an RTMP application, the first part of an RTMP URL; lists all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True, metavar="set|list")
        change = acts.add_parser("set", help="make the application, or change what is given")
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
        change.add_argument("--enabled", choices=list(ON_OFF), help="off ends its sessions and refuses new ones")
        listing = acts.add_parser("list", help="list the applications")
        for act in (change, listing):
            act.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["act"] == "set":
            self._set(**options)
        else:
            self._list(**options)

    def _set(self, *, name: str, json: bool, **options: Any) -> None:
        application = Application.objects.filter(name=name).first() or Application(name=name)
        made = application.pk is None
        given = {
            "publish_policy": options["publish"],
            "play_policy": options["play"],
            "record": RECORD.get(options["record"], options["record"]),
            "encoder_login": ON_OFF.get(options["encoder_login"]),
            "shared_objects": options["shared_objects"],
            "callback": options["callback"],
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
            actor, act = audit.command("application"), "application.create" if made else "application.change"
            audit.record(actor, act, name, **{field: value for field, value in given.items() if value is not None})
        if json:
            arguments.put_json(self.stdout, _row(application))
        else:
            self.stdout.write(f"{'Made' if made else 'Changed'} {_line(application)}")

    def _list(self, *, json: bool, **options: Any) -> None:
        rows = list(Application.objects.all())
        if json:
            arguments.put_json(self.stdout, {"items": [_row(row) for row in rows], "count": len(rows)})
            return
        for row in rows:
            self.stdout.write(_line(row))


def _row(application: Application) -> dict[str, Any]:
    return {
        "name": application.name,
        "enabled": application.enabled,
        "publish": application.publish_policy,
        "play": application.play_policy,
        "record": application.record,
        "encoder_login": application.encoder_login,
        "shared_objects": application.shared_objects,
        "callback": application.callback,
    }


TOLD = ("publish", "play", "record", "encoder_login", "shared_objects", "callback", "enabled")


def _line(application: Application) -> str:
    row = _row(application)
    return "  ".join([row["name"], *(f"{name}={row[name]}" for name in TOLD)])
