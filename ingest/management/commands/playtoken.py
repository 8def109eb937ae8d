"""`manage.py playtoken`: a signed token by which one stream can be played for a while."""

from argparse import ArgumentParser
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ingest.management import arguments
from ingest.models import Application
from ingest.services import acts, audit, playlinks


class Command(BaseCommand):
    help = "Makes a token that plays one stream, and the URLs with it. It can't be revoked: give it as long as needed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("stream", metavar="APP/NAME")
        parser.add_argument(
            "--hours",
            type=float,
            default=playlinks.USUAL_HOURS,
            help=f"how long it is valid ({playlinks.USUAL_HOURS:g})",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, stream: str, hours: float, json: bool, **options: Any) -> None:
        if not 0 < hours <= playlinks.MOST_HOURS:
            raise CommandError(f"A token is valid for more than 0 hours and for {playlinks.MOST_HOURS} at most.")
        row = arguments.stream_of(stream)
        if row.application.play_policy == Application.PlayPolicy.NONE:
            raise CommandError(
                f"Nobody may play the application {row.application.name}. To let those who have a token: manage.py "
                f"application set {row.application.name} --play token"
            )
        link = acts.play_link(audit.command("playtoken"), stream=row, lifetime=timedelta(hours=hours))
        found = {**asdict(link), "expires_at": arguments.iso(link.expires_at)}
        if json:
            arguments.put_json(self.stdout, {"stream": row.path, **found})
            return
        for name, value in found.items():
            if value:
                self.stdout.write(f"{name.replace('_', ' ')}: {value}")
