"""How this installation's commands are called from a shell: what pages, mails, logs and errors print runs as it stands.

RTMPWEB_MANAGE says it, as docker-compose.yml does for its containers. Else it is found: in a container from outside of
it, by its id; elsewhere with this process's Python, from the project's folder, in this process's data folder. What else
the environment has to say (a database's URL may be secret) is up to who runs it."""

import functools
import os
import shlex
import socket
import sys
from pathlib import Path

from django.conf import settings

IN_CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def manage(*arguments: str) -> str:
    """The command with these arguments, from whatever folder. It names folders of the server: for who is logged in, and
    for logs.
    """
    return _joined(_prefix(), arguments)


def short(*arguments: str) -> str:
    """The same from the project's folder, naming none: for anybody, and for texts that are kept."""
    return _joined(_program(), arguments)


def here(*arguments: str) -> str:
    """For who types commands where this one was typed."""
    return short(*arguments) if Path.cwd() == settings.BASE_DIR else manage(*arguments)


def celery(*arguments: str) -> str:
    """Celery's command, as `manage`."""
    return _joined(_as_celery(_prefix()), arguments)


def celery_short(*arguments: str) -> str:
    """The same, as `short`."""
    return _joined(_as_celery(_program()), arguments)


def _as_celery(program: str) -> str:
    return program.removesuffix("manage.py") + "-m celery -A rtmpweb"


def _joined(prefix: str, arguments: tuple[str, ...]) -> str:
    return " ".join((prefix, *arguments))


@functools.cache
def _program() -> str:
    if settings.MANAGE:
        return str(settings.MANAGE)
    if Path(sys.prefix) == settings.BASE_DIR / ".venv":  # A checkout, be it in a container: commands are typed there.
        return ".venv/bin/python manage.py"
    if any(mark.exists() for mark in IN_CONTAINERS):
        return f"docker exec {socket.gethostname()} python manage.py"
    return f"{shlex.quote(sys.executable)} manage.py"


@functools.cache
def _prefix() -> str:
    program = _program()
    if settings.MANAGE or program.startswith("docker "):
        return program
    folder = "RTMPWEB_DATA_DIR"
    data = f"{folder}={shlex.quote(str(settings.DATA_DIR))} " if os.environ.get(folder) else ""
    return f"cd {shlex.quote(str(settings.BASE_DIR))} && {data}{program}"
