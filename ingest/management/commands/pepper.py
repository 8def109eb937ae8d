"""`manage.py pepper`: goes on after the pepper was lost, under which stream keys and tokens are kept."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ingest.management import base
from ingest.services import audit, installation


class Command(BaseCommand):
    help = (
        "Where RTMPWEB_KEY_PEPPER, or its file in the data folder, is another than it was, no process starts: each "
        "stream key and API token would be void. `accept` says that the former one is gone for good."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="act", required=True, metavar="accept")
        accept = verbs.add_parser("accept", help="go on with the present one: what was made under another is void")
        accept.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *args: Any, json: bool, **options: Any) -> None:
        void = installation.accept_pepper(audit.command("pepper"))
        if json:
            base.put_json(self.stdout, {"void": void})
        elif void:
            self.stdout.write(
                f"Void are {installation.in_words(void)}. Make new ones: manage.py streamkey rotate, apitoken create. "
                "Receivers of webhooks need their new secrets."
            )
        else:
            self.stdout.write("Nothing is void: the pepper is the installation's.")
