"""`manage.py encoderlogin`: users and passwords of encoders that know no stream keys."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from ingest.management import base
from ingest.models import EncoderLogin
from ingest.services import actions as services_actions
from ingest.services import audit, encoder_login

ACTOR = partial(audit.command, "encoderlogin")


class Command(BaseCommand):
    help = (
        "Creates, lists and revokes users and passwords of encoders that know no stream keys. A password that is made "
        "up is printed once. A revoked user's session ends within 2 s, on whichever node it is."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="act", required=True, metavar="create|password|list|revoke")
        create = verbs.add_parser("create", help="make a user; the stream is made if it isn't there")
        create.add_argument("stream", metavar="APP/NAME")
        create.add_argument("--user", required=True, help="letters, digits and . _ -")
        create.add_argument("--label", default="", help="what it is for")
        create.add_argument("--expires", metavar="TIME", help="such as 2030-01-31, 2030-01-31T12:00Z or 30d")
        change = verbs.add_parser("password", help="give a user another password")
        change.add_argument("user")
        for act in (create, change):
            act.add_argument(
                "--password",
                default="",
                help="a chosen one; '-' reads it from standard input, since a command line is visible to other users "
                "of the machine. Without it a random one is made up",
            )
        listing = verbs.add_parser("list", help="list users")
        listing.add_argument("stream", metavar="APP/NAME", nargs="?")
        revoke = verbs.add_parser("revoke", help="end a user, and the sessions that it has")
        revoke.add_argument("user")
        for act in (create, change, listing, revoke):
            act.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        does: dict[str, Callable[..., None]] = {
            "create": self._create,
            "password": self._password,
            "list": self._list,
            "revoke": self._revoke,
        }
        try:
            does[options["act"]](**options)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        except encoder_login.UserTaken as error:
            raise CommandError(str(error)) from None

    def _create(self, *, stream: str, user: str, password: str, label: str, json: bool, **options: Any) -> None:
        made = services_actions.make_login(
            ACTOR(),
            stream=base.stream_of(stream, make=ACTOR()),
            user=user,
            password=_given(password),
            label=label,
            expires_at=base.moment(options["expires"]) if options["expires"] else None,
        )
        self._show(made, json)

    def _password(self, *, user: str, password: str, json: bool, **options: Any) -> None:
        self._show(services_actions.set_login_password(ACTOR(), _find(user), password=_given(password)), json)

    def _show(self, made: encoder_login.NewPassword, json: bool) -> None:
        found = made.as_dict()
        if json:
            base.put_json(self.stdout, found)
            return
        self.stdout.write(f"Server:      {found['server']}")
        self.stdout.write(f"Stream:      {found['name']}")
        self.stdout.write(f"User:        {found['user']}")
        self.stdout.write(f"Password:    {found['password']}")
        self.stdout.write(f"Publish to:  {found['publish_url']}")
        self.stdout.write(f"Play from:   {found['play_url']}")
        self.stdout.write("Copy the password now. It is shown once, and can't be read back.")

    def _list(self, *, stream: str | None, json: bool, **options: Any) -> None:
        rows = EncoderLogin.objects.select_related("stream__application")
        if stream is not None:
            rows = rows.filter(stream=base.stream_of(stream))
        items = [_row(login) for login in rows]
        if json:
            base.put_json(self.stdout, {"items": items, "count": len(items)})
            return
        for item in items:
            self.stdout.write("  ".join([item["user"], item["stream"], item["state"], item["label"]]).rstrip())
        if not items:
            self.stdout.write("There are no log-ins. Make one with: manage.py encoderlogin create APP/NAME --user USER")

    def _revoke(self, *, user: str, json: bool, **options: Any) -> None:
        services_actions.revoke_login(ACTOR(), _find(user))
        if json:
            base.put_json(self.stdout, {"revoked": user})
        else:
            self.stdout.write(f"Revoked {user}. Its session ends within 2 s.")


def _given(password: str) -> str:
    return sys.stdin.readline().rstrip("\r\n") if password == "-" else password  # noqa: S105 - it stands for one.


def _find(user: str) -> EncoderLogin:
    rows = EncoderLogin.objects.select_related("stream__application")
    found = rows.filter(user=user, revoked_at__isnull=True).first()
    if found is None:
        raise CommandError(f"There is no encoder's log-in with the user {user!r}, or it is revoked.")
    return found


def _row(login: EncoderLogin) -> dict[str, Any]:
    return {
        "user": login.user,
        "stream": login.stream.path,
        "label": login.label,
        "state": encoder_login.state(login=login),
        "expires_at": base.iso(login.expires_at),
        "created_at": base.iso(login.created_at),
        "last_used_at": base.iso(login.last_used_at),
    }
