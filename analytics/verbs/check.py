"""`manage.py analytics check`: whether what is kept in several places is the same."""

import json
from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from analytics import incomplete
from analytics.verbs.arguments import add_json, add_period
from analytics.verbs.verb import Say

HELP = "add the lake's samples up again and compare them with the rollups, in Parquet and in the database"

ADVICE = (
    "Compute these hours anew (manage.py analytics recompute --from TIME --to TIME); if they differ again, keep the "
    "lake as it is and report it."
)


def add_arguments(parser: ArgumentParser) -> None:
    add_period(parser)
    add_json(parser)


def perform(options: dict[str, Any], say: Say) -> None:
    from pyarrow import ArrowException  # Arrow is loaded only where it is used.

    from analytics.keeping.checking import check

    try:
        found = check(settings.LAKE_DIR, options["since"], options["until"])
    except (OSError, ArrowException) as error:
        raise CommandError(f"The lake can't be read: {error}") from None
    if options["json"]:
        figures = {"hours": found.hours, "days": found.days, "samples": found.samples, "undone": found.undone}
        lacking = [
            {"start": row.start.isoformat(), **{name: getattr(row, name) for name in incomplete.FIELDS}}
            for row in found.incomplete
        ]
        differences = [str(one) for one in found.differences]
        say(json.dumps(figures | {"differences": differences, "incomplete": lacking}))
    else:
        for difference in found.differences:
            say(str(difference))
        for note in incomplete.noted(found.incomplete):
            say(f"{note.sentence(_hour)} {note.kind.advice}")
        say(
            f"Checked {found.samples:,} samples of {found.hours:,} hours, and {found.days:,} days; "
            f"{found.undone:,} hours and days are yet to be computed."
        )
    if found.differences:
        raise CommandError(f"{len(found.differences)} differences. {ADVICE}")


def _hour(start: datetime) -> str:
    """As --from and --to take it."""
    return f"{start:%Y-%m-%dT%H:%MZ}"
