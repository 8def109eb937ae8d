"""One production form for all tests of this folder that a process runs, from the first test to the last."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import chromium, log_in_as
from tests.media import make_clip
from tests.production.installation import Production
from tests.production.outages.outage import STREAMS as STEADY
from tests.production.outages.outage import open_sessions
from tests.production.outages.steady import PLAYERS, Steady
from tests.programs import Keys
from tests.tools import require_tool

STREAMS = (
    *("seen", "kicked", "revoked", "twice", "orphan", "pictured", "frozen"),
    *(*STEADY, "disk-1", "disk-2", "disk-3", "leaving", "new", "relayed"),
    *("by-hls", "by-hls-kicked"),
)

WHOLE = pytest.StashKey[Production]()

logger = logging.getLogger(__name__)


@pytest.fixture(scope="package")
def production(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Production]:
    """With two nodes, node-a and node-b. A test that stops a part starts it again."""
    made = Production(tmp_path_factory.mktemp("production"))
    request.session.stash[WHOLE] = made
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="package")
def page(production: Production, browser: Browser) -> Page:
    """The page of an administrator, made as docs/operations.md says."""
    password = "the password of a test"
    words = ("createsuperuser", "--no-input", "--username", "mira", "--email", "")
    production.manage(*words, environment={"DJANGO_SUPERUSER_PASSWORD": password})
    opened = browser.new_context().new_page()
    log_in_as(opened, production.http, "mira", password)
    return opened


@pytest.fixture(scope="package")
def keys(production: Production) -> Keys:
    """Keys of streams of the application `live`, by the stream's name."""
    production.manage("application", "set", "live")
    made = production.create_keys(f"live/{name}" for name in STREAMS)
    return {path.partition("/")[2]: key for path, key in made.items()}


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight seconds of H.264 and AAC with a keyframe each second."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clip") / "clip.flv", seconds=8)


@pytest.fixture(scope="module")
def steady(production: Production, keys: Keys) -> Iterator[Steady]:
    """Streams to the first node with their players, measured while a file's tests run."""
    first = next(iter(production.nodes.values()))
    with Steady(first, {name: keys[name] for name in STEADY}) as streams:
        yield streams
    for each in streams.measured:
        logger.info("%s", each)


@pytest.fixture
def sessions(production: Production, steady: Steady) -> list[str]:
    """The measured streams' sessions, publishers' and players', before a part is away."""
    found = open_sessions(production, STEADY)
    assert len(found) == len(steady.names) * (1 + PLAYERS)
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show the logs of the processes with a test that failed."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed and (whole := item.session.stash.get(WHOLE, None)) is not None:
        report.sections.append(("the processes' output", whole.log))
    return report  # type: ignore[return-value]
