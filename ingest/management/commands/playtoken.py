"""`manage.py playtoken`: a signed token by which one stream, or one recording, can be played for a while."""

from argparse import ArgumentParser
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ingest import command_line
from ingest.management import base
from ingest.models import Application, Stream
from ingest.services import actions as services_actions
from ingest.services import audit, media_urls, playback


class Command(BaseCommand):
    help = (
        "Makes a token that plays one stream, its recordings too, or one recording, and the URLs with it. A stream's "
        "end all at once, by `stream new-link`; a recording's can't be revoked."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument("stream", nargs="?", metavar="APP/NAME")
        group.add_argument("--recording", type=int, metavar="ID", help="of this recording; see: recording list")
        parser.add_argument(
            "--hours",
            type=float,
            default=media_urls.USUAL_HOURS,
            help=f"how long it is valid ({media_urls.USUAL_HOURS:g})",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def handle(
        self, *args: Any, stream: str | None, recording: int | None, hours: float, json: bool, **options: Any
    ) -> None:
        if not 0 < hours <= media_urls.MOST_HOURS:
            raise CommandError(f"A token is valid for more than 0 hours and for {media_urls.MOST_HOURS} at most.")
        actor, lifetime = audit.command("playtoken"), timedelta(hours=hours)
        if recording is not None:
            row = base.recording_of(recording)
            _check_played(row.application, row.stream)
            subject = {"recording": services_actions.recording_name(row)}
            link: media_urls.PlayLink = services_actions.recording_link(actor, recording=row, lifetime=lifetime)
        else:
            found = base.stream_of(stream or "")
            _check_played(found.application, found)
            subject = {"stream": found.path}
            link = services_actions.play_link(actor, stream=found, lifetime=lifetime)
        values = {**asdict(link), "expires_at": base.iso(link.expires_at)}
        if json:
            base.put_json(self.stdout, {**subject, **values})
            return
        for name, value in values.items():
            if value:
                self.stdout.write(f"{name.replace('_', ' ')}: {value}")


def _check_played(application: Application, stream: Stream | None) -> None:
    if playback.policy_of(application, stream) != Application.PlayPolicy.NONE:
        return
    if stream is not None and stream.play_policy:
        raise CommandError(
            f"Nobody may play the stream {stream.path}: it is closed. To let those who have a token: "
            + command_line.here("stream set", stream.path, "--play token")
        )
    raise CommandError(
        f"Nobody may play the application {application.name}. To let those who have a token: "
        + command_line.here("application set", application.name, "--play token")
    )
