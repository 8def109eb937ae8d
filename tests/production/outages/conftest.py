"""Three streams with two players each, measured all the time that a file's tests run."""

import logging
from collections.abc import Iterator

import pytest

from tests.production.installation import Production
from tests.production.outages import aftermath
from tests.production.outages.steady import Steady
from tests.production.outages.taking import STREAMS
from tests.programs import Keys

logger = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def steady(production: Production, keys: Keys) -> Iterator[Steady]:
    """On the first node; they last as long as the file's tests."""
    first = next(iter(production.nodes.values()))
    with Steady(first, {name: keys[name] for name in STREAMS}) as streams:
        yield streams
    for each in streams.measured:
        logger.info("%s: %s", each.what, each.window)


@pytest.fixture
def sessions(production: Production, steady: Steady) -> list[str]:
    """The measured streams' sessions, publishers' and players', before anything is taken away."""
    found = aftermath.open_sessions(production, STREAMS)
    assert len(found) == steady.sessions
    return found
