"""Ports for programs that run beside the tests."""

import os
import subprocess
import sys

import pytest

from tests import background
from tests.background import ROOT, free_port

FEW = 30_000 + os.getpid() % 400 * 6
"""Six behind `PORTS`; other runs of the tests have others."""

DRAW = f"""
from tests import background
background.PORTS = range({FEW}, {FEW + 6})
print(*(background.free_port() for _ in range(3)), flush=True)
input()
"""


def test_no_port_is_given_twice_to_whatever_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nobody listens there yet."""
    monkeypatch.setattr(background, "PORTS", range(FEW, FEW + 6))
    with subprocess.Popen(
        [sys.executable, "-c", DRAW], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        others = {int(word) for word in other.stdout.readline().split()}
        mine = {free_port() for _ in range(3)}
        other.communicate("\n")
    assert others | mine == set(background.PORTS)
