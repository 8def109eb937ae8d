"""A verb of `manage.py analytics`."""

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any, NamedTuple

Say = Callable[[str], object]
"""Prints a line."""


class Verb(NamedTuple):
    """One row of VERBS."""

    help: str
    """One line, for --help."""
    add_arguments: Callable[[ArgumentParser], None]
    perform: Callable[[dict[str, Any], Say], None]
    """Raises CommandError, which ends the command with its text and exit code 1. Spark and numpy: imported here."""
