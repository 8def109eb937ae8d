"""A recording that the application has players sent, and a player."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.server.app import ScriptedApp
from tests.server.recorded.viewer import CLIP, Viewer, record, write


@pytest.fixture
def clip(app: ScriptedApp, tmp_path: Path) -> Path:
    path = write(tmp_path / "clip.flv", CLIP)
    record(app, path)
    return path


@pytest_asyncio.fixture
async def viewer(port: int) -> AsyncIterator[Viewer]:
    async with Viewer(port=port) as made:
        yield made
