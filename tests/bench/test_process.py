"""The accounting of processor time and memory, by a process of which both are known."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from bench.process import TICKS_PER_S, usage

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


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    """Idle itself, with a busy child."""
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.communicate(timeout=10)


def test_children_count(parent: subprocess.Popen[str]) -> None:
    """While they run, and what they used when they are gone. 0.3 s is what two starts of Python may take on top."""
    assert parent.stdin is not None
    assert parent.stdout is not None
    assert parent.stdout.readline() == "busy no more\n"
    found = usage(parent.pid)
    assert BUSY_S - UNTOLD_S < found.cpu_s < BUSY_S + 0.3
    assert HELD_BYTES < found.rss_bytes < 2 * HELD_BYTES
    parent.stdin.write("\n")
    parent.stdin.flush()
    assert parent.stdout.readline() == "child gone\n"
    after = usage(parent.pid)
    assert BUSY_S - UNTOLD_S < after.cpu_s < BUSY_S + 0.3
    assert after.rss_bytes < HELD_BYTES
