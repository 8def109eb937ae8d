"""Other processes than the tests' own, in the form in which the database keeps them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ingest.services import nodes
from tests.background import Dialog

TELL = "import django; django.setup(); from ingest.services.nodes import *; print(own_process(), flush=True); input()"


@contextmanager
def other_process() -> Iterator[str]:
    """Run a process on this machine for as long as the block runs."""
    with Dialog("-c", TELL) as started:
        yield started.read()


def ended_process() -> str:
    """Return a process of this machine that has ended. The tests' process has its number by now."""
    return str(replace(nodes.own_process(), began="1"))


def process_elsewhere() -> str:
    """Return a process of another machine, so that nothing here can tell whether it runs."""
    return str(replace(nodes.own_process(), host="elsewhere", place="elsewhere/1"))
