"""What a module of this package has to have: it is one verb of `manage.py analytics`."""

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any, Protocol

Say = Callable[[str], object]
"""Prints a line."""


class Verb(Protocol):
    """A module has these as functions and a constant."""

    HELP: str
    """One line, for --help."""

    def add_arguments(self, parser: ArgumentParser) -> None: ...

    def perform(self, options: dict[str, Any], say: Say) -> None:
        """Raises CommandError, which ends the command with its text and exit code 1. Spark and numpy: imported here."""
        ...
