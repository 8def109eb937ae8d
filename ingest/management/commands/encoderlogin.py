"""`manage.py encoderlogin`: users and passwords of encoders that know no stream keys."""

import sys
from typing import Any

from django.core.management.base import CommandError

from ingest import command_line
from ingest.management import base
from ingest.management.base import Answer, Argument, Verb, VerbCommand
from ingest.models import EncoderLogin
from ingest.services import actions as services_actions
from ingest.services import encoder_login

USER = Argument("user")

PASSWORD = Argument(
    "--password",
    default="",
    help="a chosen one; '-' reads it from standard input, since a command line is visible to other users "
    "of the machine. Without it a random one is made up",
)


class Command(VerbCommand):
    help = (
        "Creates, lists and revokes users and passwords of encoders that know no stream keys. A password that is made "
        "up is printed once. A revoked user's session ends within 2 s, on whichever node it is."
    )
    errors = (encoder_login.UserTaken,)

    @Verb(
        "make a user; the stream is made if it isn't there",
        Argument("stream", metavar="APP/NAME"),
        Argument("--user", required=True, help="letters, digits and . _ -"),
        Argument("--label", default="", help="what it is for"),
        Argument("--expires", metavar="TIME", help="such as 2030-01-31, 2030-01-31T12:00Z or 30d"),
        PASSWORD,
    )
    def _create(self, stream: str, user: str, label: str, expires: str | None, password: str) -> Answer:
        login = services_actions.make_login(
            self.actor,
            stream=base.stream_of(stream, make=self.actor),
            user=user,
            password=_given(password),
            label=label,
            expires_at=base.moment(expires) if expires else None,
        )
        return _shown(login)

    @Verb("give a user another password", USER, PASSWORD)
    def _password(self, user: str, password: str) -> Answer:
        return _shown(services_actions.set_login_password(self.actor, _find(user), password=_given(password)))

    @Verb("list users", Argument("stream", metavar="APP/NAME", nargs="?"))
    def _list(self, stream: str | None) -> Answer:
        rows = EncoderLogin.objects.select_related("stream__application")
        if stream is not None:
            rows = rows.filter(stream=base.stream_of(stream))
        empty = f"There are no log-ins. Make one with: {command_line.here('encoderlogin create APP/NAME --user USER')}"
        return self.listing(rows, empty=empty)

    @Verb("end a user, and the sessions that it has", USER)
    def _revoke(self, user: str) -> Answer:
        services_actions.revoke_login(self.actor, _find(user))
        return Answer({"revoked": user}, [f"Revoked {user}. Its session ends within 2 s."])

    def row(self, login: EncoderLogin) -> dict[str, Any]:
        return {
            "user": login.user,
            "stream": login.stream.path,
            "label": login.label,
            "state": encoder_login.state(login=login),
            **base.values(login, "expires_at", "created_at", "last_used_at"),
        }

    def line(self, row: dict[str, Any]) -> str:
        return "  ".join([row["user"], row["stream"], row["state"], row["label"]]).rstrip()


def _shown(made: encoder_login.NewPassword) -> Answer:
    values = made.as_dict()
    lines = [
        f"Server:      {values['server']}",
        f"Stream:      {values['name']}",
        f"User:        {values['user']}",
        f"Password:    {values['password']}",
        f"Publish to:  {values['publish_url']}",
        f"Play from:   {values['play_url']}",
        "Copy the password now. It is shown once, and can't be read back.",
    ]
    return Answer(values, lines)


def _given(password: str) -> str:
    return sys.stdin.readline().rstrip("\r\n") if password == "-" else password  # noqa: S105 - it stands for one.


def _find(user: str) -> EncoderLogin:
    rows = EncoderLogin.objects.select_related("stream__application")
    found = rows.filter(user=user, revoked_at__isnull=True).first()
    if found is None:
        raise CommandError(f"There is no encoder's log-in with the user {user!r}, or it is revoked.")
    return found
