"""The Redis of `serve --workers`, where no other is named: a child on a Unix socket, for this server's processes alone.

REDIS_URL is read with the settings, as each process starts. So a `serve` that needs its own names it in the environment
and begins anew."""

import asyncio
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from ingest.management.children import Program
from ingest.services import data_folder
from ingest.services.installation import StartError
from ingest.services.own_redis import socket_of, url_of

PROGRAM = "redis-server"

MEMORY = "256mb"
"""Over it Redis takes nothing more, and pages show what there was before: some thousand streams need a tenth of it."""

LOG = "redis.log"
"""Beside its socket, of its last start: to an operator of this server it says nothing of use, unless it fails."""

START_S = 10.0
AGAIN_S = 0.05


def begin_anew() -> None:
    """Replaces this process by the same one, whose REDIS_URL is its own Redis. Raises StartError."""
    if shutil.which(PROGRAM) is None:
        raise StartError(
            f"Several workers need a Redis by which they and the pages share what is live, and there is no {PROGRAM} "
            "in PATH: install it (the package redis-server or redis), or set REDIS_URL to one that runs. With one "
            "worker (RTMPWEB_WORKERS=1) none is needed."
        )
    os.environ["REDIS_URL"] = url_of(settings.DATA_DIR)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - replacing this process is the point.


def is_named() -> bool:
    """Whether REDIS_URL is our own."""
    return bool(url_of(settings.DATA_DIR) == settings.REDIS_URL)


def program() -> Program:
    """Raises StartError."""
    path = shutil.which(PROGRAM)
    if path is None:
        raise StartError(f"There is no {PROGRAM} in PATH any more.")
    try:
        folder = data_folder.make_socket_folder(settings.DATA_DIR)
    except OSError as error:
        raise StartError(
            f"{data_folder.socket_folder(settings.DATA_DIR)} can't be used for Redis's socket: {error.strerror}."
        ) from None
    log = folder / LOG
    log.unlink(missing_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(socket_of(settings.DATA_DIR)),
        "unixsocketperm": "600",
        "dir": str(folder),
        "save": "",
        "appendonly": "no",
        "maxmemory": MEMORY,
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
        "logfile": str(log),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return Program("redis", (path, *words))


def forget() -> None:
    """It has stopped in order."""
    for left in (socket_of(settings.DATA_DIR), socket_of(settings.DATA_DIR).with_name(LOG)):
        with suppress(OSError):
            left.unlink()


async def wait_until_it_answers() -> None:
    """Raises StartError."""
    try:
        async with asyncio.timeout(START_S):
            while not await _answers(socket_of(settings.DATA_DIR)):  # noqa: ASYNC110 - another process starts.
                await asyncio.sleep(AGAIN_S)
    except TimeoutError:
        log = socket_of(settings.DATA_DIR).with_name(LOG)
        raise StartError(f"{PROGRAM} does not answer {START_S:.0f} s after its start. What it said: {log}") from None


async def _answers(path: Path) -> bool:
    with suppress(OSError):
        reader, writer = await asyncio.open_unix_connection(path)
        try:
            writer.write(b"PING\r\n")
            return (await reader.readline()).startswith(b"+PONG")
        finally:
            writer.close()
    return False
