"""What a node counts since its start, as its ticks tell it."""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from ingest.server.process import BOUNDS_S, LoopDelay
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.plays.clients import Stage

HAS_PROC = Path("/proc/self/statm").exists()


def told(app: ScriptedApplication) -> list[dict[str, Any]]:
    """The node's figures, of each second."""
    return [tick["figures"] for instance in app.instances for tick in instance.of("node.tick")]


async def test_media_are_counted_and_nothing_ever_falls(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve()
    async with Stage(server.addresses[0][1]) as stage:
        camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
        await camera.send(key=True, count=5)
        await viewer.hear(5)
        await app.wait_until(lambda: any(each["counters"]["video_frames"] == 5 for each in told(app)))
    await app.wait_until(lambda: told(app)[-1]["connections"] == 0)
    seconds = len(told(app))
    await app.wait_until(lambda: len(told(app)) > seconds)
    counted = [each["counters"] for each in told(app)]
    for before, after in pairwise(counted):
        assert all(after[name] >= before[name] for name in before)
    published = (await app.event("rtmp.unpublish", connection=0))["totals"]
    played = (await app.event("rtmp.stop", connection=1))["totals"]
    assert counted[-1] == {
        "received_bytes": published["bytes_in"],
        "sent_bytes": played["bytes_out"],
        "video_frames": 5,
        "audio_frames": 5,
        "dropped_frames": 0,
    }
    assert played["bytes_out"] > 0


async def test_what_the_process_takes_and_how_late_its_loop_is(app: ScriptedApplication, serve: Serve) -> None:
    await serve()
    await app.wait_until(lambda: len(told(app)) > 1)
    first, last = told(app)[0], told(app)[-1]
    for figures in (first, last):
        assert len(figures["loop_delays"]["counts"]) == len(figures["loop_delays"]["bounds_s"]) + 1
    assert sum(last["loop_delays"]["counts"]) > sum(first["loop_delays"]["counts"]) > 0
    process = last["process"]
    assert first["process"]["cpu_s"] <= process["cpu_s"]
    assert process["started_at"] < time.time()
    if HAS_PROC:
        assert process["resident_bytes"] > 1024 * 1024
        assert 3 < process["open_files"] < process["most_files"]


def test_delays_by_their_bounds() -> None:
    delay = LoopDelay()
    for late_s in (-0.0001, 0.001, 0.0011, 0.3, 7.0):
        delay.add(late_s)
    figures = delay.figures
    found = dict(zip((*figures["bounds_s"], "over"), figures["counts"], strict=True))
    assert {bound: count for bound, count in found.items() if count} == {0.001: 2, 0.0025: 1, 0.5: 1, "over": 1}
    assert figures["sum_s"] == round(0.001 + 0.0011 + 0.3 + 7.0, 6)
    assert (delay.take_most(), delay.take_most()) == (7.0, 0.0)
    assert list(BOUNDS_S) == sorted(BOUNDS_S)
