"""What an encoder sent, in all codecs, and what players got of it, and all that passed between them and the server."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.media import Packet, make_clip, make_enhanced_clip, read_packets
from tests.programs import PLAYERS, PUBLISHERS, Keys, playing, publish_whole
from tests.server_process import ServerProcess, wait_for
from tests.tools import find_tool, require_tool
from tests.wiretap.proxy import Connection, recorded

CODECS = {
    "hevc-ac3": (["hevc"], ["ac3"]),
    "h264-eac3": (["h264"], ["eac3"]),
    "av1-opus": (["av1"], ["opus"]),
    "vp9-flac": (["vp9"], ["flac"]),
    "tracks": (["h264", "hevc"], ["aac", "opus"]),
}
"""{clip: its video and audio codecs}: those that need Enhanced RTMP."""


class Clips:
    """By their codecs, each made when it is first asked for: few of the workers need them all."""

    def __init__(self, clip: Path, folder: Path) -> None:
        self._made = {"h264-aac": clip}
        self._folder = folder

    def __getitem__(self, name: str) -> Path:
        if name not in self._made:
            self._made[name] = self._make(name, self._folder / f"{name}.flv")
        return self._made[name]

    def _make(self, name: str, path: Path) -> Path:
        if name == "sharp":  # Its keyframes have more bytes than the server puts into a chunk.
            return make_clip(path, seconds=3, video_kbps=8_000, size="1280x720")
        if name == "vvc-aac":  # Whose encoder takes long for more than the smallest picture.
            return make_enhanced_clip(path, ["vvc"], ["aac"], seconds=5, size="160x90")
        return make_enhanced_clip(path, *CODECS[name], seconds=5)


PYAV = "pyav"
PYAV_PACKETS = 200


@dataclass(frozen=True)
class Plan:
    publisher: str
    players: tuple[str, ...]
    form: str = "name"
    """How the key is given: see `programs.key_url`."""
    clip: str = "h264-aac"
    """One of `Clips`."""

    @property
    def tools(self) -> list[str]:
        players = (tool for name in self.players if name != PYAV for tool in PLAYERS[name].tools)
        return [*PUBLISHERS[self.publisher].tools, *players]

    def require(self) -> None:
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
    with recorded(server.rtmp) as proxy, ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        url = f"{proxy.url}/live/{name}"
        ends = [stack.enter_context(playing(player, url, out)) for player, out in outputs.items()]
        if PYAV in plan.players:
            by_pyav = pool.submit(read_packets, url, limit=PYAV_PACKETS, timeout_s=120)
        wait_for(
            lambda: server.stream(f"live/{name}")["players"] == len(plan.players), timeout_s=90, what="all players wait"
        )
        assert server.stream(f"live/{name}")["state"] == "waiting"
        publish_whole(server, key, clip, plan.publisher, form=plan.form, rtmp=proxy.url)
        for end in ends:
            end()
        packets = {PYAV: by_pyav.result(30)} if PYAV in plan.players else {}
    packets |= {player: read_packets(str(path)) for player, path in outputs.items()}
    return Round(packets, proxy.connections)


def play_all(server: ServerProcess, keys: Keys, clips: Clips, folder: Path) -> Rounds:
    """All at once, each on a stream of its own."""
    plans = {name: clips[plan.clip] for name, plan in PLANS.items() if all(map(find_tool, plan.tools))}
    with ThreadPoolExecutor(len(PLANS)) as pool:
        return Rounds(
            {name: pool.submit(play_round, server, keys[name], clip, folder, name) for name, clip in plans.items()}
        )
