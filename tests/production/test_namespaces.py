"""Two media nodes in network namespaces of their own, with a cable between them: as on two machines."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import SkipTest

import pytest

from tests.production.parts import MediaNode
from tests.production.test_relays import BACK_S, FORGET_SOCKETS, KNOWN
from tests.programs import LOOPED, key_url, publishing
from tests.server_process import Installation, program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.production, pytest.mark.timeout(300)]

PULLED_S = 6.0
"""Longer than a relay waits for a sign of life."""

NETWORK = "10.213.77"
CABLE = "cable"


@dataclass(frozen=True)
class Machine:
    """`address`: its end of the cable's."""

    pid: int
    """Of the process that keeps it."""
    address: str

    def command(self, *words: str) -> list[str]:
        """The same, run there."""
        return ["nsenter", "--target", str(self.pid), "--net", "--", *words]

    def run(self, *words: str) -> None:
        subprocess.run(self.command(*words), check=True, capture_output=True, timeout=10)


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """Raises SkipTest where this machine allows none: the calling test is skipped."""
    keepers = [_keeper(), _keeper()]
    try:
        for keeper in keepers:
            assert keeper.stdout is not None
            if keeper.stdout.readline() != b"ready\n":
                raise SkipTest("network namespaces are not allowed on this machine")
        one, other = (Machine(keeper.pid, f"{NETWORK}.{end}") for end, keeper in enumerate(keepers, 1))
        try:
            one.run(*f"ip link add {CABLE} type veth peer name {CABLE} netns {other.pid}".split())
        except subprocess.CalledProcessError as error:
            raise SkipTest(f"no cable between network namespaces: {error.stderr.decode().strip()}") from None
        for machine in (one, other):
            machine.run("ip", "address", "add", f"{machine.address}/24", "dev", CABLE)
            for device in ("lo", CABLE):
                machine.run("ip", "link", "set", device, "up")
        yield one, other
    finally:
        for keeper in keepers:
            keeper.kill()
            keeper.communicate()


def _keeper() -> "subprocess.Popen[bytes]":
    """Lives as long as its standard input is open, and says that it does."""
    return subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def pull(machine: Machine) -> None:
    """The cable, at this end: nobody is told."""
    machine.run("ip", "link", "set", CABLE, "down")


def plug(machine: Machine) -> None:
    machine.run("ip", "link", "set", CABLE, "up")


class NodeThere(MediaNode):
    def __init__(self, name: str, folder: Path, installation: Installation, machine: Machine) -> None:
        super().__init__(
            name, folder, installation.environment | {"RTMPWEB_NODE_URL": f"rtmp://{machine.address}:1935"}
        )
        self.variables["RTMPWEB_RTMP"] = f"{machine.address}:1935"
        self.command = machine.command(*self.command)
        self.there = f"rtmp://{machine.address}:1935"


def test_relayed_player_goes_on_after_the_cable_is_plugged_in_again(tmp_path: Path, clip: Path) -> None:
    """FFmpeg, which plays on the other machine, is given all that comes afterwards by the same connection."""
    require_tool("ffmpeg")
    installation = Installation(tmp_path / "data")
    installation.put_tables()
    installation.manage("application", "set", "live")
    key, played = installation.create_key("live/cam"), tmp_path / "played.flv"
    with (
        two_machines() as (here, there),
        NodeThere("node-a", tmp_path, installation, here) as first,
        NodeThere("node-b", tmp_path, installation, there) as second,
    ):
        wait_for(lambda: installation.rows(KNOWN) == [(2,)], timeout_s=10, what="the nodes' rows")
        installation.rows(FORGET_SOCKETS)
        encode = here.command(*publishing(clip, key_url(key, first.there), *LOOPED))
        play = there.command(*f"ffmpeg -v error -i {second.there}/live/cam -c copy -f flv -y {played}".split())
        with program(*encode), program(*play) as player:
            wait_for(lambda: grows(played), timeout_s=BACK_S, what="media come")
            pull(here)
            time.sleep(PULLED_S)  # What is tested.
            assert not grows(played)
            plug(here)
            wait_for(lambda: grows(played), timeout_s=BACK_S, what="media come again")
            assert player.poll() is None


def grows(file: Path) -> bool:
    """Whether something is written to it within half a second."""
    if not file.exists():
        return False
    size, until = file.stat().st_size, time.monotonic() + 0.5
    while time.monotonic() < until:
        if file.stat().st_size > size:
            return True
        time.sleep(0.05)
    return False
