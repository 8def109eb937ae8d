"""Fixtures of the Django side of ingest: a stream with a key, and a process without memory of other tests."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from channels.layers import channel_layers
from django.utils import timezone

from ingest import live_store
from ingest.consumers import active, decisions
from ingest.consumers.active import ACTIVE, AWAITED, DRAINING
from ingest.models import Application, Stream
from ingest.services import bans, history_writer, keys, relays
from tests.ingest.control import Connection, NodeApp


@pytest.fixture
def application(db: None) -> Application:
    return Application.objects.create(name="live")


@pytest.fixture
def stream(application: Application) -> Stream:
    return Stream.objects.create(application=application, name="cam1")


@pytest.fixture
def key(stream: Stream) -> keys.NewKey:
    return keys.create(stream=stream, label="camera")


@pytest.fixture
def cam2(stream: Stream) -> Stream:
    return Stream.objects.create(application=stream.application, name="cam2")


@pytest.fixture
def other_key(cam2: Stream) -> keys.NewKey:
    return keys.create(stream=cam2)


@pytest.fixture
def process(
    transactional_db: None, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[history_writer.HistoryWriter]:
    """Reset this media process, as if the database had been reachable for long. A decision may take long."""

    def forget() -> None:
        history_writer._writer = live_store._store = bans._guard = None
        for state in (ACTIVE, DRAINING, AWAITED, relays._recent, channel_layers.backends):
            state.clear()

    forget()
    monkeypatch.setattr(decisions, "LIMIT_S", 20.0)
    settings.LAKE_DIR = tmp_path / "lake"
    monkeypatch.setattr(active, "BREAK", timedelta(hours=1))
    active.REACH._last = timezone.now()
    active.REACH._since = timezone.now() - timedelta(hours=1)
    history_writer._writer = writer = history_writer.HistoryWriter()
    yield writer
    ACTIVE.clear()
    writer.close(5)
    forget()


@pytest.fixture
async def encoder(process: history_writer.HistoryWriter, key: keys.NewKey) -> AsyncIterator[Connection]:
    made = Connection()
    assert (await made.connect())["type"] == "rtmp.accept"
    yield made
    made.app.stop(exceptions=False)


@pytest.fixture
async def node(process: history_writer.HistoryWriter) -> AsyncIterator[NodeApp]:
    made = NodeApp()
    await made.tell("node.started")
    yield made
    await made.stop()
