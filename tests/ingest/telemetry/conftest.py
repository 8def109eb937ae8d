"""A writer of the lake that makes files quickly."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ingest.telemetry import Rotation, TelemetryWriter
from tests.server_process import wait_for

QUICK = Rotation(flush_s=0.01)


@contextmanager
def writing(lake: Path, node: str = "node-a", rotation: Rotation = QUICK) -> Iterator[TelemetryWriter]:
    writer = TelemetryWriter(lake, node, rotation=rotation)
    writer.start()
    yield writer
    writer.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[TelemetryWriter]:
    with writing(tmp_path) as made:
        yield made


def until(condition: Callable[[], bool]) -> None:
    wait_for(condition, timeout_s=10, what="the condition holds")
