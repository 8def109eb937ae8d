"""Other processes than the tests' own, as they write themselves down."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ingest.services import nodes
from tests.background import Dialog

TELL = """
import sys
import django
django.setup()
from ingest.services import nodes
print(nodes.own_process(), flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process() -> Iterator[str]:
    """One of this machine, which runs as long as the block does."""
    with Dialog("-c", TELL) as started:
        yield started.read()


def ended_process() -> str:
    """One of this machine, whose number another one has by now: the tests' own."""
    return str(replace(nodes.own_process(), began="1"))


def process_elsewhere() -> str:
    """One of another machine, of which nobody here can tell whether it runs."""
    return str(replace(nodes.own_process(), host="elsewhere", place="elsewhere/1"))
