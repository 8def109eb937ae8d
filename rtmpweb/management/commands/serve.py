"""`manage.py serve`: the whole system on one machine, in the foreground."""

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ingest.services.installation import StartError
from rtmpweb.asgi import application
from rtmpweb.embedded.listening import ListenError
from rtmpweb.embedded.server import Embedded


class Command(BaseCommand):
    help = (
        "Runs everything in the foreground: dashboard, RTMP listener, and the Celery workers as children. "
        "Sets the database up first. Settings come from the environment (docs/operations.md). Ctrl-C stops it in order."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            Embedded(application, self._say, to_terminal=self.stdout.isatty()).run()
        except (ListenError, StartError) as error:
            raise CommandError(str(error)) from None

    def _say(self, line: str) -> None:
        """Streams go on, and a stop is in order, though whoever read the output is gone."""
        try:
            self.stdout.write(line)
            self.stdout.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stdout.fileno())
            os.close(nowhere)
