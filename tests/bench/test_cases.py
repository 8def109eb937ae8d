"""What is measured by itself: chunks, a second's tick, DuckDB's side, slow players; and the accounting of a process."""

import os
from contextlib import closing
from datetime import UTC, datetime
from math import isnan
from pathlib import Path
from typing import cast

import duckdb
import pytest

from analytics.synthetic import World, generate
from bench.analytics.duck import GROUPS, Duck
from bench.cases import Field, fanout
from bench.micro import tick
from bench.micro.chunks import READS, reads, run
from bench.micro.ingest import CHUNK_SIZES
from bench.micro.live_fanout import AUDIO, VIDEO
from bench.peers.rtmpweb import Template
from bench.process import TICKS_PER_S, cores, usage
from bench.slowplayer import AS_IT_IS, WAYS, Broadcast, simulate, table
from ingest.live import Subscriber
from tests.background import Dialog


@pytest.mark.parametrize("chunk_size", CHUNK_SIZES)
@pytest.mark.parametrize("read_bytes", READS.values(), ids=READS.keys())
def test_every_message_is_read(chunk_size: int, read_bytes: int) -> None:
    given = reads(chunk_size, read_bytes, seconds=1)
    assert max(map(len, given)) == read_bytes
    cost = run(chunk_size, given)
    assert cost.messages == VIDEO + AUDIO
    assert cost.mb_per_s > 0
    assert cost.us_per_message > 0


async def test_tick_measurement_covers_each_part(tmp_path: Path) -> None:
    found = await tick.run(2, tmp_path, lambda: None, warm_up=1, measured=2)
    assert tuple(found) == tick.PARTS
    assert found["telemetry"] > 0


def test_duckdb_counts_each_sample_once_in_each_dimension(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    start = datetime(2026, 3, 2, 20, tzinfo=UTC)
    made = generate(lake, streams=4, start=start, hours=1, world=World(twice=1.0, always_on=1.0))
    samples = sorted(lake.glob("samples/v=1/*/*/*.parquet"))
    counted = "SELECT dimension, sum(samples), count(*) FROM read_parquet($file) GROUP BY ALL"
    with closing(Duck(1, tmp_path)) as duck:
        whole = str(duck.whole(samples))
        found = duckdb.execute(counted, {"file": whole}).fetchall()
        assert {dimension: count for dimension, count, _ in found} == dict.fromkeys(GROUPS, made.samples)
        summed = {dimension: sums[3] for dimension, _, *sums in duck.sums(whole)}
        assert summed == dict.fromkeys(GROUPS, made.samples)
        file = duck.streams_alone(samples)
        alone = duckdb.execute("SELECT sum(samples) FROM read_parquet($file)", {"file": str(file)})
        assert alone.fetchall() == [(2 * made.samples,)]


def test_fanout_case_compares_several_workers_with_a_single_process() -> None:
    field = Field("node", cast("Template", None), against="none")
    assert list(fanout(field, 10, 1, (0,), (1, 2)).servers) == ["rtmpweb", "rtmpweb, 2 workers"]
    of_server, of_generator = cores(1)
    assert len(of_server) == 1
    assert cores(64) == (os.sched_getaffinity(0), max(os.sched_getaffinity(0)))
    assert of_generator not in of_server or len(os.sched_getaffinity(0)) == 1


BUSY_S = 0.4
UNTOLD_S = 2 * 2 / TICKS_PER_S
"""By so much less may be told: the kernel tells whole ticks, of user and of system time, of each of both processes."""
HELD_BYTES = 64 << 20

PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", '''
import sys, time
held = bytearray(b"x") * {HELD_BYTES}
while time.process_time() < {BUSY_S}:
    pass
print("busy no more", flush=True)
sys.stdin.read()
'''], stdin=subprocess.PIPE)
sys.stdin.readline()
child.communicate()
print("child gone", flush=True)
sys.stdin.read()
"""


def test_process_usage_includes_running_and_ended_children() -> None:
    """While they run, and what they used when they are gone: of an idle process with a busy child. 0.3 s is what two
    starts of Python may take on top.
    """
    with Dialog("-c", PARENT) as parent:
        assert parent.read() == "busy no more"
        found = usage(parent.pid)
        assert parent.ask("") == "child gone"
        after = usage(parent.pid)
    assert BUSY_S - UNTOLD_S < found.cpu_s < BUSY_S + 0.3
    assert HELD_BYTES < found.rss_bytes < 2 * HELD_BYTES
    assert BUSY_S - UNTOLD_S < after.cpu_s < BUSY_S + 0.3
    assert after.rss_bytes < HELD_BYTES


SECONDS = 90.0


@pytest.mark.parametrize("share", [0.6, 0.4])
def test_slow_player_loses_pictures_evenly_and_no_sound(share: float) -> None:
    found = simulate(AS_IT_IS, share, SECONDS, Broadcast(gop_s=2.0))
    assert found.pictures > 30 * share * 0.65
    assert found.longest_hole_s <= 2.5
    assert found.delay_s < 5
    assert found.lost_sounds == 0
    assert isnan(found.ended_s)
    assert found.slow_looks == 1, "at each look"


def test_dropping_frames_only_at_full_bounds_leaves_long_picture_holes() -> None:
    before = simulate(WAYS[0], 0.6, SECONDS, Broadcast(gop_s=2.0))
    assert before.longest_hole_s > 7
    assert before.slow_looks == 1


def test_player_with_room_for_little_more_than_sound_is_ended() -> None:
    assert simulate(AS_IT_IS, 0.04, SECONDS, Broadcast()).ended_s < 40


def test_player_that_keeps_up_gets_every_picture() -> None:
    found = simulate(AS_IT_IS, 1.5, SECONDS, Broadcast(has_spares=True))
    assert found.pictures == pytest.approx(30, rel=0.01)
    assert (found.slow_looks, found.sheds) == (0, 0)


def test_the_table_has_a_row_for_each_way() -> None:
    found = [(way, simulate(way, 0.6, 40.0, Broadcast())) for way in WAYS]
    lines = table(found).splitlines()
    assert len(lines) == 2 + len(WAYS)
    assert {line.count("|") for line in lines} == {8}
    assert all(issubclass(way.queue, Subscriber) for way in WAYS)
