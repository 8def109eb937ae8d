"""`manage.py runhls`: the packager, which serves live streams by HLS."""

import asyncio
import errno
import socket
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any, Final

import uvloop
from django.conf import settings
from django.core.checks import Tags
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import DatabaseError

from ingest.asgi import application
from ingest.consumers import decisions, startup
from ingest.management.base import ForegroundCommand, StopSignals
from ingest.packager.startup import make
from ingest.server import tune_for_event_loop
from ingest.services import data_folder, installation, media_urls

GRACE_S: Final = 5.0
BACKLOG: Final = 2048


class Command(ForegroundCommand):
    help = (
        "Runs a packager: it plays streams from the media nodes when somebody wants to watch them, and serves them by "
        "HLS and low-latency HLS (RTMPWEB_HLS). Any number may run, on any host. SIGTERM or Ctrl-C stops it."
    )
    requires_system_checks = (Tags.compatibility, Tags.security)  # The others load pages and API, which it has not.

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--grace", type=float, default=GRACE_S, metavar="SECONDS", help="for sessions to end")
        parser.add_argument(
            "--descriptor", type=int, metavar="N", help="listens already, and was opened by who started this"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.HLS_ADDRESS is None:
            raise CommandError("RTMPWEB_HLS is off: there is nothing to listen on.")
        try:
            listener = listen(settings.HLS_ADDRESS, options["descriptor"])
        except OSError as error:
            host, port = settings.HLS_ADDRESS
            why = "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror
            raise CommandError(f"Can't listen on {host}:{port} (RTMPWEB_HLS): {why}.") from None
        try:
            uvloop.run(self._run(listener, options["grace"]))
        except (ImproperlyConfigured, installation.StartError) as error:
            raise CommandError(str(error)) from None

    async def _run(self, listener: socket.socket, grace_s: float) -> None:
        stopping = asyncio.Event()
        packager = make(application, listener.getsockname()[:2])
        node = packager.server.config.node
        with suppress(DatabaseError, decisions.TooSlow):  # Without an answer it waits, and takes its name then.
            await startup.ask_before_start(installation.check)
            await startup.take_name(node, self.write_line)
        StopSignals(self.write_line, stopping.set)
        await packager.start(listener)
        tune_for_event_loop()
        host, port = listener.getsockname()[:2]
        self.write_line(f"Listening on http://{media_urls.url_host(host)}:{port}/hls/ as node {node}.")
        await stopping.wait()
        self.write_line("Stopping.")
        await packager.stop(grace_s)
        data_folder.leave_socket_folder(settings.DATA_DIR)
        self.write_line("Stopped.")


def listen(address: tuple[str, int], descriptor: int | None) -> socket.socket:
    """Raises OSError."""
    if descriptor is not None:
        return socket.socket(fileno=descriptor)
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    return socket.create_server(address, family=family, backlog=BACKLOG)
