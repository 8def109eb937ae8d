"""`manage.py serve`: the whole system on one machine, in the foreground."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from ingest.management import workers
from ingest.management.base import ForegroundCommand
from ingest.services.installation import StartError
from rtmpweb.embedded import own_redis


class Command(ForegroundCommand):
    help = (
        "Runs everything in the foreground: dashboard, RTMP listener, and the Celery workers as children; with "
        "--workers so many media nodes are children as well, on the same ports. Sets the database up first. Settings "
        "come from the environment (docs/operations.md). Ctrl-C stops it in order."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        workers.add_argument(parser)

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Before the checks: this process may be replaced."""
        options["workers"] = options["workers"] or settings.WORKERS
        if options["workers"] > 1 and not settings.REDIS_URL:
            try:
                own_redis.begin_anew()
            except StartError as error:
                raise CommandError(str(error)) from None
        return super().execute(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        from rtmpweb.asgi import application  # Not before the process is the one that stays.
        from rtmpweb.embedded.http import ListenError
        from rtmpweb.embedded.server import Embedded

        try:
            Embedded(application, self.write_line, to_terminal=self.stdout.isatty(), workers=options["workers"]).run()
        except (ListenError, StartError) as error:
            raise CommandError(str(error)) from None
