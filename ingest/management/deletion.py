"""What the commands that delete streams and applications share: what goes with it is said, and asked for."""

import sys
from argparse import ArgumentParser

from django.core.management.base import CommandError, OutputWrapper

from ingest.services import removal
from ingest.services.removal import Removal


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="although somebody publishes: what goes on is ended")
    parser.add_argument("--yes", action="store_true", help="don't ask; what goes with it is said all the same")


def confirm(out: OutputWrapper, path: str, plan: Removal, *, force: bool, yes: bool, json: bool) -> None:
    """Returns if it is to be deleted. Raises CommandError, and InTheWay as the deletion would."""
    removal.refuse_live(path, plan, force)
    if json:
        if not yes:
            raise CommandError("With --json nothing is asked: give --yes as well. `show` says what goes with it.")
        return
    out.write(f"{path}: {plan.said}")
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError("Nothing is deleted, as there is nobody to ask: give --yes.")
    out.write(f"Type {path} to delete it: ", ending="")
    out.flush()
    if sys.stdin.readline().strip() != path:
        raise CommandError("Nothing is deleted.")
