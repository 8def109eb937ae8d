"""Fixtures of the Django side of ingest: a stream with a key, and a process without memory of other tests."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from channels.layers import channel_layers
from django.utils import timezone

from ingest import live_store
from ingest.consumers import active, channel_layer, decisions, upkeep
from ingest.consumers.active import ACTIVE, AWAITED, DRAINING
from ingest.consumers.upkeep import Upkeep
from ingest.models import Application, Stream
from ingest.packager import packager
from ingest.server import node as node_module
from ingest.services import bans, history_writer, keys, leases, relays
from tests.ingest.control import Connection, NodeApp
from tests.ingest.ticks import tick_until

TICK_S = 0.1
"""Between two ticks of a node or a packager, which are a second apart in the product: tests wait for many of them."""


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that run here tick often; each tick asks the database, and each third one renews the leases."""
    monkeypatch.setattr(node_module, "TICK_S", TICK_S)
    monkeypatch.setattr(node_module, "RESTART_S", TICK_S)
    monkeypatch.setattr(packager, "TICK_S", TICK_S)
    monkeypatch.setattr(upkeep, "START_S", TICK_S)
    monkeypatch.setattr(upkeep, "REVOCATIONS_S", 0.9 * TICK_S)
    monkeypatch.setattr(upkeep, "LEASES_S", 2.9 * TICK_S)
    monkeypatch.setattr(channel_layer, "GATHER_S", 0.005)


@pytest.fixture
def short_silence(monkeypatch: pytest.MonkeyPatch) -> timedelta:
    """A publisher's stream is taken over after a second of silence, which its node reports sooner."""
    silence = timedelta(seconds=1)
    monkeypatch.setattr(leases, "SILENCE", silence)
    monkeypatch.setattr(leases, "REPORTED", silence * 1.2)
    monkeypatch.setattr(upkeep, "SILENT_MS", 300)
    return silence


class Rounds:
    """Count the rounds of upkeep that have ended, whether they succeeded or failed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ended: Counter[str] = Counter()
        self._guarded = Upkeep._guarded
        rounds = self

        async def count(upkeep: Upkeep, name: str, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
            await rounds._guarded(upkeep, name, action)
            rounds._ended[name] += 1

        monkeypatch.setattr(Upkeep, "_guarded", count)

    async def pass_by(self, node: NodeApp, name: str, count: int = 2, **tick: Any) -> None:
        """Send ticks until `count` more rounds have begun and ended; one that is under way does not count."""
        wanted = self._ended[name] + count + 1
        await tick_until(node, lambda: self._ended[name] >= wanted, **tick)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    return Rounds(monkeypatch)


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
