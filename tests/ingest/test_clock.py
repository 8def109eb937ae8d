"""The node's time of day, while the machine's clock is set, leaps and drifts; and nodes whose clocks are wrong, beside
others: what they compare goes by the clock that they share."""

import logging
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.utils import timezone

from ingest import clock
from ingest.clock import SteadyClock
from ingest.consumers import active, upkeep
from ingest.models import Lease, Node, Session, Stream
from ingest.services import keys
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.control import NODE, Connection, NodeApp
from tests.ingest.ticks import is_up, published, tick_until
from tests.pure.live.payloads import START_WALL

HOUR = 3600.0


class Machine:
    """Its clock, and the time that passes."""

    def __init__(self) -> None:
        self.passed = 100.0
        self.set_by = 0.0
        self.steady = SteadyClock(lambda: START_WALL + self.passed + self.set_by, lambda: self.passed)

    def go_on(self, seconds: int) -> list[float]:
        """What the steady clock says at each second, as seconds since the time at which all of them agreed."""
        found = []
        for _ in range(seconds):
            self.passed += 1.0
            found.append(self.steady.now() - START_WALL - 100.0)
        return found


@pytest.mark.parametrize("leap_s", [HOUR, -HOUR, 86_400 * 365, 10.0, -10.0])
def test_a_leap_that_passes_is_not_followed(leap_s: float, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    before = machine.go_on(5)
    machine.set_by = leap_s
    during = machine.go_on(33)
    machine.set_by = 0.0
    after = machine.go_on(5)
    assert [*before, *during, *after] == pytest.approx(range(1, 44))
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 2
    assert f"leapt by {leap_s:+.0f} s" in said[0]
    assert said[1] == "The machine's clock is back."


@pytest.mark.parametrize("leap_s", [HOUR, -HOUR])
def test_lasting_clock_leap_is_followed_at_once_after_a_minute(leap_s: float) -> None:
    machine = Machine()
    machine.set_by = leap_s
    said = machine.go_on(70)
    assert said[:60] == pytest.approx(range(1, 61))
    assert said[61:] == pytest.approx([leap_s + second for second in range(62, 71)])


def test_a_clock_that_leaps_about_is_not_followed_before_it_rests() -> None:
    machine = Machine()
    said = []
    for leap_s in (HOUR, -HOUR, 2 * HOUR, 60.0):
        machine.set_by = leap_s
        said += machine.go_on(40)
    assert said == pytest.approx(range(1, 161))
    assert machine.go_on(30)[-1] == pytest.approx(190 + 60.0)


@pytest.mark.parametrize("set_by", [2.0, -2.0])
def test_clock_offset_of_seconds_is_followed_gradually(set_by: float, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.set_by = set_by
    said = machine.go_on(60)
    assert all(0.94 < after - before < 1.06 for before, after in pairwise(said))
    assert said[-1] == pytest.approx(60 + set_by)
    assert not caplog.records


HOUR_S = 3600.0
SOON = timedelta(minutes=1)


@pytest.fixture
def off_s(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """This process's clock is off by so much; the machine's is, too, where the database has its own."""
    found: float = request.param
    monkeypatch.setattr(clock, "_clock", SteadyClock(lambda: time.time() + found))
    if connection.vendor == "postgresql":
        monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + timedelta(seconds=found))
    return found


@pytest.mark.both_forms
@pytest.mark.parametrize("off_s", [HOUR_S, -HOUR_S], indirect=True)
async def test_node_with_wrong_clock_sweeps_only_dead_nodes_and_stays_up(
    process: HistoryWriter, off_s: float, stream: Stream, key: NewKey
) -> None:
    now = datetime.now(UTC)
    other = await Node.objects.acreate(name="node-b", state="up", seen_at=now)
    dead = await Node.objects.acreate(name="node-c", state="up", seen_at=now - timedelta(minutes=2))
    held = await Stream.objects.acreate(application_id=stream.application_id, name="cam2")
    there = await Session.objects.acreate(kind="publish", app="live", name="cam2", stream=held, node=other)
    await Lease.objects.acreate(stream=held, session=there, node=other, expires_at=now + SOON)
    node = NodeApp()
    await node.tell("node.started")
    await is_up()
    encoder, _ = await published(key)
    second, rival = await sync_to_async(keys.create)(stream=held), Connection()
    await rival.connect()
    assert (await rival.publish(second.secret))["type"] == "rtmp.publish.reject", "node-b lives, and has the stream"
    await tick_until(node, Node.objects.filter(pk=dead.pk, state="down").exists)
    assert (await Session.objects.aget(pk=there.pk)).ended_at is None
    assert (await Node.objects.aget(pk=other.pk)).state == "up"
    own, lease = await Node.objects.aget(name=NODE), await Lease.objects.aget(stream=stream)
    now = datetime.now(UTC)
    assert abs(own.seen_at - now) < SOON
    assert abs(lease.expires_at - now) < SOON
    await encoder.disconnect()
    await rival.disconnect()
    await node.stop()


@pytest.mark.parametrize("leap_s", [HOUR_S, -HOUR_S])
async def test_a_leap_of_the_shared_clock_ends_nothing(
    process: HistoryWriter, stream: Stream, key: NewKey, monkeypatch: pytest.MonkeyPatch, leap_s: float
) -> None:
    """As of the one of a machine that has all processes and the database's file."""
    if connection.vendor == "postgresql":
        pytest.skip("It has a clock of its own, which nobody can set here.")
    monkeypatch.setattr(active, "BREAK", timedelta(seconds=5))
    monkeypatch.setattr(upkeep, "SWEEP_S", 0.0)
    node = NodeApp()
    await node.tell("node.started")
    await is_up()
    active.REACH._since = timezone.now() - timedelta(minutes=5)
    encoder, session = await published(key)
    other = await Node.objects.acreate(name="node-b", state="up", seen_at=timezone.now())
    there = await Session.objects.acreate(kind="play", app="live", name="cam1", stream=stream, node=other)
    monkeypatch.setattr(timezone, "now", lambda: datetime.now(UTC) + timedelta(seconds=leap_s))
    await tick_until(node, lambda: abs(Node.objects.get(name=NODE).seen_at - timezone.now()) <= SOON)
    assert not await Session.objects.filter(pk__in=[session, there.pk], ended_at__isnull=False).aexists()
    assert {found.state async for found in Node.objects.all()} == {"up"}
    await encoder.disconnect()
    await node.stop()
