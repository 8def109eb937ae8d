from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, settings: Any) -> Path:
    """An empty one, that the services look at."""
    folder = tmp_path / "lake"
    settings.LAKE_DIR = folder
    return folder
