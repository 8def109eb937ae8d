"""`manage.py analytics compact`: what else is done each hour by the schedule."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.utils import timezone

from analytics.verbs.verb import Say

HELP = "make one file of each node's many in the hours that are closed and computed"


def add_arguments(parser: ArgumentParser) -> None:
    """It has none."""


def perform(options: dict[str, Any], say: Say) -> None:
    from analytics.keeping.keeping import compact_closed  # Arrow is loaded only where it is used.

    hours, files = compact_closed(settings.LAKE_DIR, timezone.now(), run_s=float("inf"))
    say(f"Compacted {hours:,} hours: {files:,} files less.")
