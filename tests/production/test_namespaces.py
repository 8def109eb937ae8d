"""Two media nodes in network namespaces of their own, with a cable between them: as on two machines."""

import time
from pathlib import Path

import pytest

from tests.namespaces import Machine, plug, pull, two_machines
from tests.production.parts import MediaNode
from tests.production.test_relays import BACK_S, FORGET_SOCKETS, KNOWN
from tests.programs import LOOPED, key_url, publishing
from tests.server_process import Installation, program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.production, pytest.mark.timeout(300)]

PULLED_S = 6.0
"""Longer than a relay waits for a sign of life."""


class NodeThere(MediaNode):
    def __init__(self, name: str, folder: Path, installation: Installation, machine: Machine) -> None:
        super().__init__(
            name, folder, installation.environment | {"RTMPWEB_NODE_URL": f"rtmp://{machine.address}:1935"}
        )
        self._environment["RTMPWEB_RTMP"] = f"{machine.address}:1935"
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
