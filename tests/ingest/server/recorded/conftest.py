"""A recording that the application has players sent."""

from pathlib import Path

import pytest

from tests.ingest.server.app import ScriptedApp
from tests.ingest.server.recorded.viewer import CLIP, record, write


@pytest.fixture
def clip(app: ScriptedApp, tmp_path: Path) -> Path:
    path = write(tmp_path / "clip.flv", CLIP)
    record(app, path)
    return path
