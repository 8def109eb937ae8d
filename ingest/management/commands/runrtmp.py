"""`manage.py runrtmp`: a media node, as production runs it."""

import asyncio
import signal
from argparse import ArgumentParser
from typing import Any

import uvloop
from channels.routing import get_default_application
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ingest.nodeconfig import server_config
from ingest.server import RtmpServer, favour_the_loop

GRACE_S = 5.0


class Command(BaseCommand):
    help = (
        "Runs a media node: the RTMP listener (RTMPWEB_RTMP) and nothing else. SIGTERM or Ctrl-C ends its sessions, "
        "writes what is known of them, and stops."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--grace", type=float, default=GRACE_S, metavar="SECONDS", help="for sessions to end")

    def handle(self, *args: Any, **options: Any) -> None:
        address = settings.RTMP_ADDRESS
        if address is None:
            raise CommandError("RTMPWEB_RTMP is off: there is nothing to listen on.")
        try:
            uvloop.run(self._run(address, options["grace"]))
        except OSError as error:
            host, port = address
            raise CommandError(f"Can't listen on {host}:{port} (RTMPWEB_RTMP): {error.strerror}.") from None

    async def _run(self, address: tuple[str, int], grace_s: float) -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        config = server_config(address)
        server = RtmpServer(get_default_application(), config)
        await server.start()
        favour_the_loop()
        for host, port in server.addresses:
            self._say(f"Listening on rtmp://{host}:{port}/ as node {config.node}.")
        await stopping.wait()
        self._say("Stopping.")
        await server.stop(grace_s)
        self._say("Stopped.")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
