"""What an encoder sent and what players got of it, and all that passed between them and the server meanwhile."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e import accepted
from tests.e2e.clips import Clips
from tests.e2e.programs import PLAYERS, PUBLISHERS, Keys, key_url, playing
from tests.media import Packet, read_packets
from tests.server_process import ServerProcess, wait_for
from tests.tools import find_tool, require_tool
from tests.wiretap.proxy import Connection, recorded

PYAV = "pyav"
PYAV_PACKETS = 200


@dataclass(frozen=True)
class Plan:
    publisher: str
    players: tuple[str, ...]
    form: str = "name"
    """How the key is given: see `programs.key_url`."""
    clip: str = "h264-aac"
    """One of `clips.Clips`."""

    @property
    def tools(self) -> list[str]:
        """What it needs."""
        players = (tool for name in self.players if name != PYAV for tool in PLAYERS[name].tools)
        return [*PUBLISHERS[self.publisher].tools, *players]

    def require(self) -> None:
        """Skips the calling test where a tool is missing."""
        for tool in self.tools:
            require_tool(tool)


PLANS = {
    **{
        f"{publisher}-{form}": Plan(publisher, ("ffmpeg", "rtmpdump", PYAV), form)
        for publisher in ("ffmpeg-debian", "ffmpeg-imageio", "pyav")
        for form in ("name", "query")
    },
    "rtmp2sink": Plan("rtmp2sink", ("rtmp2src", "vlc"), clip="sharp"),
    "rtmpsink": Plan("rtmpsink", ("rtmpsrc", "rtmpdump"), clip="sharp"),
    **{
        clip: Plan("ffmpeg-imageio", ("ffmpeg-imageio", PYAV), clip=clip)
        for clip in ("hevc-ac3", "h264-eac3", "av1-opus", "vp9-flac", "vvc-aac", "tracks")
    },
}


@dataclass
class Round:
    by_player: dict[str, list[Packet]]
    """The packets that each player got, which had asked for them before the encoder began."""
    connections: list[Connection]
    """All of them, byte for byte."""


class Rounds:
    """By the names of their plans; those whose tools are here."""

    def __init__(self, played: dict[str, Future[Round]]) -> None:
        self._played = played

    def __getitem__(self, name: str) -> Round:
        """Skips the calling test where a tool is missing; raises what went wrong in this round."""
        PLANS[name].require()
        return self._played[name].result()


def play_round(server: ServerProcess, key: dict[str, Any], clip: Path, folder: Path, name: str) -> Round:
    plan = PLANS[name]
    outputs = {player: folder / f"{name}-{player}.flv" for player in plan.players if player != PYAV}
    with recorded(server.rtmp) as proxy, ThreadPoolExecutor(1) as pool, ExitStack() as programs:
        url = f"{proxy.url}/live/{name}"
        ends = [programs.enter_context(playing(player, url, out)) for player, out in outputs.items()]
        if PYAV in plan.players:
            by_pyav = pool.submit(read_packets, url, limit=PYAV_PACKETS, timeout_s=120)
        wait_for(
            lambda: server.stream(f"live/{name}")["players"] == len(plan.players), timeout_s=90, what="all players wait"
        )
        assert server.stream(f"live/{name}")["state"] == "waiting"
        accepted.whole(server, lambda: PUBLISHERS[plan.publisher].publish(clip, key_url(key, proxy.url, plan.form)))
        for end in ends:
            end()
        packets = {PYAV: by_pyav.result(30)} if PYAV in plan.players else {}
    packets |= {player: read_packets(str(path)) for player, path in outputs.items()}
    return Round(packets, proxy.connections)


def play_all(server: ServerProcess, keys: Keys, clips: Clips, folder: Path) -> Rounds:
    """All at once, each on a stream of its own."""
    plans = {name: plan for name, plan in PLANS.items() if all(map(find_tool, plan.tools))}
    with ThreadPoolExecutor(len(PLANS)) as pool:
        return Rounds(
            {
                name: pool.submit(play_round, server, keys[name], clips[plan.clip], folder, name)
                for name, plan in plans.items()
            }
        )
