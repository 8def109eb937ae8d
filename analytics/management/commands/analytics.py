"""`manage.py analytics VERB`: see analytics.verbs."""

from argparse import ArgumentParser
from typing import Any

from django.core.checks import Tags
from django.core.management.base import BaseCommand

from analytics.verbs import VERBS


class Command(BaseCommand):
    help = "Runs the analytics on what the lake holds, and looks after what they have made."
    requires_system_checks = (Tags.compatibility, Tags.security)  # The others load pages and API, which it has not.

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        for name, verb in VERBS.items():
            verb.add_arguments(verbs.add_parser(name, help=verb.help))

    def handle(self, *args: Any, **options: Any) -> None:
        VERBS[options["verb"]].perform(options, self.stdout.write)
