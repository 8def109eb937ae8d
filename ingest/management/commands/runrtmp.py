"""`manage.py runrtmp`: a media node, as production runs it, or several on the same ports."""

import asyncio
import signal
from argparse import SUPPRESS, ArgumentParser
from contextlib import suppress
from dataclasses import replace
from typing import Any

import uvloop
from django.conf import settings
from django.core.checks import Tags
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import DatabaseError, connections

from ingest.asgi import application
from ingest.consumers import decisions, startup
from ingest.consumers.startup import SETTINGS, server_config
from ingest.management import workers
from ingest.management.base import ForegroundCommand, StopSignals
from ingest.management.workers import Workers
from ingest.server import CertificateError, ListenError, RtmpServer, ServerConfig, tune_for_event_loop
from ingest.server.tls import load
from ingest.services import data_folder, installation
from ingest.services.bans import get_guard
from ingest.siblings import Siblings, SiblingsError

GRACE_S = 5.0


class Command(ForegroundCommand):
    help = (
        "Runs a media node: the listeners (RTMPWEB_RTMP, RTMPWEB_RTMPS, RTMPWEB_MEDIA) and nothing else. With "
        "--workers it keeps several of them running, as processes on the same ports. SIGTERM or Ctrl-C drains it for "
        "RTMPWEB_DRAIN_S seconds, ends what is left, writes what is known of it, and stops; once more, and it does not "
        "wait. SIGHUP has it read the certificate of RTMPS anew."
    )
    requires_system_checks = (Tags.compatibility, Tags.security)  # The others load pages and API, which it has not.

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--grace", type=float, default=GRACE_S, metavar="SECONDS", help="for sessions to end")
        workers.add_argument(parser)
        parser.add_argument("--worker", type=int, help=SUPPRESS)  # Which of them this is: its parent says so.

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.RTMP_ADDRESS is None and settings.RTMPS_ADDRESS is None:
            raise CommandError("RTMPWEB_RTMP is off, and RTMPWEB_RTMPS too: there is nothing to listen on.")
        number, count, grace_s = options["worker"], options["workers"] or settings.WORKERS, options["grace"]
        try:
            config = server_config(settings.RTMP_ADDRESS, settings.RTMPS_ADDRESS, settings.MEDIA_ADDRESS)
            if number:
                config = replace(config, reuse_port=True)
                uvloop.run(self._run(config, grace_s, workers.siblings_of(number, count)))
            elif count > 1:
                self._supervise(config, Workers(count, self.write_line, grace_s=grace_s))
            else:
                uvloop.run(self._run(config, grace_s))
        except ListenError as error:
            host, port = error.address
            raise CommandError(f"Can't listen on {host}:{port} ({SETTINGS[error.scheme]}): {error.strerror}.") from None
        except (CertificateError, ImproperlyConfigured, SiblingsError, installation.StartError) as error:
            raise CommandError(str(error)) from None

    async def _run(self, config: ServerConfig, grace_s: float, siblings: Siblings | None = None) -> None:
        stopping = asyncio.Event()
        with suppress(DatabaseError, decisions.TooSlow):  # Without an answer the node waits, and takes its name then.
            await startup.ask_before_start(installation.check)
            await startup.take_name(config.node, self.write_line)
        signals = StopSignals(self.write_line, stopping.set, is_worker=siblings is not None)
        if siblings:
            guard = get_guard()
            guard.tell = siblings.share("guesses", guard)
        server = RtmpServer(application, config, siblings)
        await server.start()
        if config.rtmps:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.reload_certificate)
        tune_for_event_loop()
        for scheme, bound in server.bound.items():
            for host, port in bound:
                self.write_line(f"{workers.LISTENING}{scheme}://{host}:{port}/ as node {config.node}.")
        await stopping.wait()
        await signals.drain(server)
        self.write_line("Stopping.")
        await server.stop(grace_s)
        if siblings is None:
            data_folder.leave_socket_folder(settings.DATA_DIR)
        self.write_line("Stopped.")

    # --- Several ---

    def _supervise(self, config: ServerConfig, children: Workers) -> None:
        if not settings.REDIS_URL:
            raise CommandError(
                "Several workers need a Redis in which pages see all of them: set REDIS_URL, here and for the web "
                "process, or run `serve --workers`, which brings one along."
            )
        if config.rtmps and config.certificate and config.certificate_key:
            load(config.certificate, config.certificate_key)
        with suppress(DatabaseError):  # Without an answer the nodes wait.
            installation.check()
        connections.close_all()
        children.bind({"rtmp": config.rtmp, "rtmps": config.rtmps, "http": config.media})
        uvloop.run(self._keep_running(children, has_certificate=bool(config.rtmps)))

    async def _keep_running(self, children: Workers, *, has_certificate: bool) -> None:
        stopping = asyncio.Event()
        signals = StopSignals(self.write_line, stopping.set, children.kill)
        starting = asyncio.create_task(children.start())
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            if has_certificate:
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, children.reload_certificate)
            self.write_line(f"Running: {len(children.names)} workers, {children.names[0]} to {children.names[-1]}.")
        starting.cancel()
        await stopped
        await children.drain(signals)
        self.write_line("Stopping.")
        await children.stop()
        data_folder.leave_socket_folder(settings.DATA_DIR)
        self.write_line("Stopped.")
