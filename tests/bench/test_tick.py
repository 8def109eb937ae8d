"""The micro-benchmark of what happens once a second."""

from pathlib import Path

from bench.micro.tick import PARTS, run


async def test_each_part_is_measured(tmp_path: Path) -> None:
    found = await run(2, tmp_path, lambda: None, warm_up=1, measured=2)
    assert tuple(found) == PARTS
    assert found["telemetry"] > 0
