"""`manage.py serve`: the whole system on one machine, in the foreground."""

from typing import Any

from django.core.management.base import CommandError

from ingest.management.base import ForegroundCommand
from ingest.services.installation import StartError
from rtmpweb.asgi import application
from rtmpweb.embedded.http import ListenError
from rtmpweb.embedded.server import Embedded


class Command(ForegroundCommand):
    help = (
        "Runs everything in the foreground: dashboard, RTMP listener, and the Celery workers as children. "
        "Sets the database up first. Settings come from the environment (docs/operations.md). Ctrl-C stops it in order."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            Embedded(application, self.write_line, to_terminal=self.stdout.isatty()).run()
        except (ListenError, StartError) as error:
            raise CommandError(str(error)) from None
