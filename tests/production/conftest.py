"""One production form for all tests of this folder that a process runs in turn, started when the first asks for it and
gone after the last, as tests of other folders may follow in the process.

Tests that are marked `measures_time` run last (`tests/suite/stages.py`): they need the cores.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import chromium, log_in_as
from tests.media import make_clip
from tests.production.installation import Production
from tests.programs import Keys
from tests.tools import require_tool

STREAMS = (
    *("seen", "kicked", "revoked", "twice", "orphan", "pictured", "frozen"),
    *(f"{kind}-{number}" for kind in ("steady", "disk") for number in (1, 2, 3)),
    *("leaving", "new", "relayed"),
    *("by-hls", "by-hls-kicked"),
)

WHOLE = pytest.StashKey[Production]()


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
    """One for all of them: Playwright runs once in a process."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="package")
def page(production: Production, browser: Browser) -> Page:
    """An administrator's."""
    password = "the password of a test"
    production.create_admin("mira", password)
    opened = browser.new_context().new_page()
    log_in_as(opened, production.http, "mira", password)
    return opened


@pytest.fixture(scope="package")
def keys(production: Production) -> Keys:
    """By the stream's name; all are of the application `live`."""
    production.manage("application", "set", "live")
    made = production.create_keys(f"live/{name}" for name in STREAMS)
    return {path.partition("/")[2]: key for path, key in made.items()}


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight seconds of H.264 and AAC with a keyframe each second."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clip") / "clip.flv", seconds=8)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """What the processes wrote is shown with a test that failed."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed and (whole := item.session.stash.get(WHOLE, None)) is not None:
        report.sections.append(("the processes' output", whole.log))
    return report  # type: ignore[return-value]
