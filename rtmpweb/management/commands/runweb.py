"""`manage.py runweb`: a web process, as production runs it."""

import asyncio
from contextlib import suppress
from typing import Any

from rtmpweb.embedded.reactor import loop, reactor  # isort: skip - before Daphne, which would install another.

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connections

from ingest.management.base import ForegroundCommand, StopSignals
from ingest.server import tune_for_event_loop
from ingest.services import installation
from rtmpweb.asgi import application
from rtmpweb.embedded.http import HttpServer, ListenError, listen, url_host


class Command(ForegroundCommand):
    help = (
        "Runs a web process: pages, API and WebSockets (RTMPWEB_HTTP) and nothing else, with bounds on what clients "
        "may take of it (RTMPWEB_HTTP_...). SIGTERM or Ctrl-C stops it; once more, and it does not wait."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.HTTP_ADDRESS is None:
            raise CommandError("RTMPWEB_HTTP is off: there is nothing to listen on.")
        try:
            with suppress(DatabaseError):  # Pages say that it does not answer.
                installation.check()
            (listener,) = listen({"RTMPWEB_HTTP": settings.HTTP_ADDRESS}).values()
        except (ListenError, installation.StartError) as error:
            raise CommandError(str(error)) from None
        connections.close_all()
        host, port = listener.getsockname()[:2]
        settings.HTTP_ADDRESS = (settings.HTTP_ADDRESS[0], port)
        asyncio.set_event_loop(loop)
        server = HttpServer(application, listener)
        loop.call_soon(self._on_running, f"http://{url_host(host)}:{port}/")
        tune_for_event_loop()
        server.run()
        self.write_line("Stopped.")

    def _on_running(self, url: str) -> None:
        StopSignals(self.write_line, self._stop)
        self.write_line(f"Ready: dashboard {url}")

    def _stop(self) -> None:
        self.write_line("Stopping; once more to stop at once.")
        reactor.stop()
