"""How many small writes are made without anybody being held up by them."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from ingest.readonly import PASSING

logger = logging.getLogger(__name__)

PAUSE_S = 0.02
"""At least."""
LONGEST_PAUSE_S = 0.2
PAUSES = 2
"""For as long as it took, so often: who waits for SQLite tries again each 0.1 s, and has to meet a pause."""


@contextmanager
def turn() -> Iterator[None]:
    """A short transaction, and then a pause that is longer than it.

    On SQLite one writes at a time: encoders are admitted in the pauses.
    """
    with transaction.atomic():
        began = time.monotonic()
        yield
    time.sleep(min(LONGEST_PAUSE_S, max(PAUSE_S, PAUSES * (time.monotonic() - began))))


@contextmanager
def alone(what: str) -> Iterator[None]:
    """Logs what goes wrong with one, so that it doesn't hold up the others.

    Raises PASSING: the database is away, busy, or takes no writes. That is nobody's fault.
    """
    try:
        yield
    except PASSING:
        raise
    except Exception:
        logger.exception("%s is left out.", what)
