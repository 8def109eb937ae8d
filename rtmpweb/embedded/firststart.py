"""What the first start makes, and what each start tells the operator."""

import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import transaction

from analytics.java import JavaMissing, find_java
from ingest.models import Application, Stream
from ingest.services import keys, paste

ADMIN = "admin"
APPLICATION = "live"
STREAM = "demo"


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


def greeting(made: Made, dashboard_url: str) -> list[str]:
    """The lines that an operator reads at start. Only a first start's contain secrets: they are shown once."""
    manage = manage_command()
    lines = [f"Data: {settings.DATA_DIR}", f"Dashboard: {dashboard_url}"]
    if made.password:
        lines += [
            f"  User: {ADMIN}",
            f"  Password: {made.password}   (shown once; change it: {manage} changepassword {ADMIN})",
        ]
    else:
        lines += [f"  Lost the password? {manage} changepassword USER"]
    if made.key:
        lines += [
            "OBS: Settings, Stream, Service: Custom...",
            f"  Server: {made.key.server}",
            f"  Stream Key: {made.key.key}   (shown once)",
            f"Play: {made.key.play_url}",
        ]
    else:
        path = f"{APPLICATION}/{STREAM}"
        lines += [
            f"OBS server: {paste.server(app=APPLICATION)}",
            f"  Lost a stream key? {manage} streamkey rotate {path}",
        ]
    try:
        find_java()
    except JavaMissing as missing:
        lines += [f"All but analytics works. {missing}"]
    return lines
