"""Arguments that several verbs take."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any


def moment(text: str) -> datetime:
    """An ISO 8601 date or time; UTC where it names no zone."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def add_period(parser: ArgumentParser, *, required: bool = False) -> None:
    """--from and --to, as `since` and `until`."""
    words: dict[str, Any] = {"type": moment, "metavar": "TIME", "required": required}
    parser.add_argument("--from", dest="since", help="only hours from this time on (UTC)", **words)
    parser.add_argument("--to", dest="until", help="only hours before this time (UTC)", **words)


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")
