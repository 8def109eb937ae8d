"""What the first start makes, and what each start tells the operator."""

import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import transaction

from analytics.java import JavaMissing, find_java
from ingest import private
from ingest.models import Application, Stream
from ingest.services import keys, paste

ADMIN = "admin"
APPLICATION = "live"
STREAM = "demo"

FIRST_START = "first-start.txt"
"""In the data folder: what a first start would have shown, had there been a terminal."""


@dataclass(frozen=True, slots=True)
class Made:
    """What this start made; the secrets in it can't be found out later."""

    password: str | None = None
    key: paste.Paste | None = None


def migrate() -> None:
    call_command("migrate", interactive=False, verbosity=0)


def make_what_is_missing() -> Made:
    """An administrator if there is none; the application, stream and key to begin with if there is no application."""
    users = get_user_model()
    with transaction.atomic():
        password = None
        if not users.objects.filter(is_superuser=True).exists():
            password = secrets.token_urlsafe(12)
            users.objects.create_superuser(ADMIN, "", password)
        key = None
        if not Application.objects.exists():
            application = Application.objects.create(name=APPLICATION)
            stream = Stream.objects.create(application=application, name=STREAM)
            key = paste.strings(stream=stream, secret=keys.create(stream=stream, label="first start").secret)
    return Made(password, key)


def manage_command() -> str:
    """How this installation's manage.py is called, for the texts."""
    own = settings.BASE_DIR / ".venv"
    python = ".venv/bin/python" if Path(sys.prefix) == own else "python"
    return f"{python} manage.py"


def greeting(made: Made, dashboard_url: str, *, to_terminal: bool) -> list[str]:
    """The lines that an operator reads at start. Only a first start's contain secrets: they are shown once.

    Where nobody reads them as they come they would stay: in a journal, or a container's log. There they go to a file.
    """
    lines = [f"Data: {settings.DATA_DIR}", f"Dashboard: {dashboard_url}", *_admin(made), *_encoder(made)]
    if made != Made() and not to_terminal:
        lines = [*lines[:2], _put_aside(made, lines)]
    try:
        find_java()
    except JavaMissing as missing:
        lines += [f"All but analytics works. {missing}"]
    return lines


def _admin(made: Made) -> list[str]:
    manage = manage_command()
    if not made.password:
        return [f"  Lost the password? {manage} changepassword USER"]
    return [
        f"  User: {ADMIN}",
        f"  Password: {made.password}   (shown once; change it: {manage} changepassword {ADMIN})",
    ]


def _encoder(made: Made) -> list[str]:
    if not made.key:
        return [
            f"OBS server: {paste.server(app=APPLICATION)}",
            f"  Lost a stream key? {manage_command()} streamkey rotate {APPLICATION}/{STREAM}",
        ]
    return [
        "OBS: Settings, Stream, Service: Custom...",
        f"  Server: {made.key.server}",
        f"  Stream Key: {made.key.key}   (shown once)",
        f"Play: {made.key.play_url}",
    ]


def _put_aside(made: Made, lines: list[str]) -> str:
    """Writes the lines to a file of this user alone; says which, or how to come by other secrets."""
    file = settings.DATA_DIR / FIRST_START
    what = " and ".join(name for name, secret in (("password", made.password), ("stream key", made.key)) if secret)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, private.FILE)
        private.close(file)
        with os.fdopen(descriptor, "w") as out:
            out.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        manage = manage_command()
        return (
            f"The {what} could not be written to {file}: {error.strerror}. Make new ones: {manage} changepassword "
            f"{ADMIN}, {manage} streamkey rotate {APPLICATION}/{STREAM}"
        )
    return f"The {what} to begin with: in {file}, which this user alone can read. Delete it when you have read it."
