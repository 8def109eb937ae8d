"""`manage.py runrtmp`: a media node, as production runs it."""

import asyncio
import signal
from argparse import ArgumentParser
from contextlib import suppress
from typing import Any

import uvloop
from django.conf import settings
from django.core.checks import Tags
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import DatabaseError

from ingest.asgi import application
from ingest.consumers import decisions, startup
from ingest.consumers.startup import SETTINGS, server_config
from ingest.management.base import ForegroundCommand, StopSignals
from ingest.server import CertificateError, ListenError, RtmpServer, ServerConfig, tune_for_event_loop
from ingest.services import installation

GRACE_S = 5.0


class Command(ForegroundCommand):
    help = (
        "Runs a media node: the listeners (RTMPWEB_RTMP, RTMPWEB_RTMPS, RTMPWEB_MEDIA) and nothing else. SIGTERM or "
        "Ctrl-C drains it for RTMPWEB_DRAIN_S seconds, ends what is left, writes what is known of it, and stops; once "
        "more, and it does not wait. SIGHUP has it read the certificate of RTMPS anew."
    )
    requires_system_checks = (Tags.compatibility, Tags.security)  # The others load pages and API, which it has not.

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--grace", type=float, default=GRACE_S, metavar="SECONDS", help="for sessions to end")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.RTMP_ADDRESS is None and settings.RTMPS_ADDRESS is None:
            raise CommandError("RTMPWEB_RTMP is off, and RTMPWEB_RTMPS too: there is nothing to listen on.")
        try:
            config = server_config(settings.RTMP_ADDRESS, settings.RTMPS_ADDRESS, settings.MEDIA_ADDRESS)
            uvloop.run(self._run(config, options["grace"]))
        except ListenError as error:
            host, port = error.address
            raise CommandError(f"Can't listen on {host}:{port} ({SETTINGS[error.scheme]}): {error.strerror}.") from None
        except (CertificateError, ImproperlyConfigured, installation.StartError) as error:
            raise CommandError(str(error)) from None

    async def _run(self, config: ServerConfig, grace_s: float) -> None:
        stopping = asyncio.Event()
        with suppress(DatabaseError, decisions.TooSlow):  # Without an answer the node waits, and takes its name then.
            await startup.ask_before_start(installation.check)
            await startup.take_name(config.node, self.write_line)
        signals = StopSignals(self.write_line, stopping.set)
        server = RtmpServer(application, config)
        await server.start()
        if config.rtmps:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.reload_certificate)
        tune_for_event_loop()
        for scheme, bound in server.bound.items():
            for host, port in bound:
                self.write_line(f"Listening on {scheme}://{host}:{port}/ as node {config.node}.")
        await stopping.wait()
        await signals.drain(server)
        self.write_line("Stopping.")
        await server.stop(grace_s)
        self.write_line("Stopped.")
