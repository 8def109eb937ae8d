"""The checks of a node."""

import pytest

from ingest.contracts import NodeFigures, ProcessFigures
from ingest.contracts.health import NODE_CHECKS as NODE_CHECK_NAMES
from ingest.live.health import NODE_CHECKS, HealthEngine
from tests.ingest.live.payloads import START_WALL

N = "\u00a0"


def figures(cpu: float | None = 20.0, disk: float | None = 60.0, hangs_s: float = 0.0, dropped: int = 0) -> NodeFigures:
    return {
        "node": "node-1",
        "at": START_WALL,
        "streams": 0,
        "publishers": 0,
        "players": 0,
        "connections": 0,
        "refused_connections": 0,
        "in_kbps": 0.0,
        "out_kbps": 0.0,
        "loop_delay_ms": 0.0,
        "cpu_percent": cpu,
        "disk_free_percent": disk,
        "disk_hangs_s": hangs_s,
        "caches_dropped": dropped,
    }


def with_files(open_files: int | None, most_files: int | None) -> NodeFigures:
    process: ProcessFigures = {
        "started_at": START_WALL,
        "cpu_s": 1.0,
        "resident_bytes": None,
        "open_files": open_files,
        "most_files": most_files,
    }
    return {**figures(), "process": process}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (with_files(None, 1024), None),
        (with_files(5000, None), None),
        (with_files(800, 1000), None),
        (with_files(801, 1000), "warning"),
        (with_files(951, 1000), "bad"),
    ],
)
def test_open_files_are_judged_at_once(found: NodeFigures, expected: str | None) -> None:
    issues = HealthEngine(0.0, NODE_CHECKS).update(found, 1.0, START_WALL)
    assert [(issue["check"], issue["level"]) for issue in issues] == ([("node_files", expected)] if expected else [])
    if expected == "bad":
        assert issues[0]["title"] == f"The node has 951 of 1,000 files open that it may, 95{N}%."


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (figures(), []),
        (figures(cpu=None, disk=None), []),
        (figures(cpu=90.0), []),
        (figures(cpu=90.1), [("node_cpu", "warning")]),
        (figures(cpu=180.0), [("node_cpu", "warning")]),
        (figures(disk=10.0), []),
        (figures(disk=9.9), [("disk_free", "warning")]),
        (figures(disk=2.9), [("disk_free", "bad")]),
        (figures(cpu=99.0, disk=1.0), [("disk_free", "bad"), ("node_cpu", "warning")]),
    ],
)
def test_limits(found: NodeFigures, expected: list[tuple[str, str]]) -> None:
    engine = HealthEngine(0.0, NODE_CHECKS)
    assert engine.update(found, 100.0, START_WALL) == []
    assert [(each["check"], each["level"]) for each in engine.update(found, 110.0, START_WALL + 10)] == expected
    assert {check for check, _ in expected} <= set(NODE_CHECK_NAMES)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (figures(disk=None, hangs_s=5.0), []),
        (figures(disk=None, hangs_s=5.1), [("disk_hangs", "warning")]),
        (figures(disk=None, hangs_s=31.0), [("disk_hangs", "bad")]),
        (figures(dropped=1), [("caches_full", "warning")]),
    ],
)
def test_what_is_told_at_once(found: NodeFigures, expected: list[tuple[str, str]]) -> None:
    issues = HealthEngine(0.0, NODE_CHECKS).update(found, 100.0, START_WALL)
    assert [(each["check"], each["level"]) for each in issues] == expected


def test_words() -> None:
    engine = HealthEngine(0.0, NODE_CHECKS)
    engine.update(figures(cpu=97.3, disk=2.0), 100.0, START_WALL)
    disk, cpu = engine.update(figures(cpu=97.3, disk=2.0), 145.0, START_WALL + 45)
    assert cpu["title"] == f"The node uses 97{N}% of a processor (90{N}% at most), for 45{N}s."
    assert (disk["title"], disk["expected"]) == (f"2.0{N}% of the disk is free (3{N}% at least).", f"3{N}% at least")
    (hanging,) = HealthEngine(0.0, NODE_CHECKS).update(figures(disk=None, hangs_s=72.0), 100.0, START_WALL)
    assert hanging["title"] == f"The data folder's disk has not answered for 1{N}min 12{N}s."
