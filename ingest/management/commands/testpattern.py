"""`manage.py testpattern`: a picture and a tone to try an installation with."""

import asyncio
import signal
from argparse import ArgumentParser
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from ingest.management import arguments
from ingest.models import Application
from ingest.services import audit, keyacts, paste
from ingest.testpattern import Picture, PublishFailed, publish

LIFETIME = timedelta(hours=24)
"""What is left of the key if this process is killed; also the longest that the picture runs."""


class Command(BaseCommand):
    help = (
        "Publishes a moving test picture with a tone to APP/NAME of the server at RTMPWEB_RTMP, until Ctrl-C. It makes "
        "a key for itself, which is revoked at the end, and which appears on no command line. The stream is made if it "
        "isn't there."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("stream", metavar="APP/NAME")
        parser.add_argument("--duration", type=float, metavar="SECONDS", help="stop after so long")
        parser.add_argument("--size", default="1280x720", metavar="WxH")
        parser.add_argument("--fps", type=int, default=30)
        parser.add_argument("--kbps", type=int, default=2500, help="the video's bitrate, kbit/s")
        parser.add_argument("--keyframe", type=int, default=2, metavar="SECONDS", help="between keyframes")
        parser.add_argument("--server", metavar="URL", help="rtmp://host[:port], if not this installation's own")

    def handle(self, *args: Any, **options: Any) -> None:
        width, by, height = options["size"].partition("x")
        if not (by and width.isdigit() and height.isdigit()):
            raise CommandError("--size takes WIDTHxHEIGHT, such as 1280x720.")
        picture = Picture(int(width), int(height), options["fps"], options["kbps"], options["keyframe"])
        app, _ = arguments.split_path(options["stream"])
        if not Application.objects.filter(name=app).exists():
            raise CommandError(f"There is no application {app!r}. Make it with: manage.py application set {app}")
        actor = audit.command("testpattern")
        stream = arguments.stream_of(options["stream"], make=actor)
        made = keyacts.create(actor, stream=stream, label="test pattern", expires_at=timezone.now() + LIFETIME)
        server = f"{(options['server'] or paste.server_base()).rstrip('/')}/{app}"
        try:
            asyncio.run(self._publish(server, made.secret, picture, options["duration"]))
        except PublishFailed as error:
            raise CommandError(str(error)) from None
        finally:
            keyacts.revoke(actor, made.key)

    async def _publish(self, server: str, secret: str, picture: Picture, duration_s: float | None) -> None:
        publishing = asyncio.ensure_future(publish(server, secret, picture, duration_s))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, publishing.cancel)
        self.stdout.write(f"Publishing a test picture to {server}; Ctrl-C ends it.")
        self.stdout.flush()
        with suppress(asyncio.CancelledError):
            await publishing
