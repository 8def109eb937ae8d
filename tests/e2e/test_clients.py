"""Real encoders publish, real players play: what arrives equals what was sent, byte for byte.

Wireshark's dissector for RTMP, which shares no code with this project, finds no fault with it, and reads the same
messages as the tests' own decoder. Known limits of the dissector (4.0), which are not faults of the traffic:

- a chunk header with an extended timestamp that the end of a TCP segment cuts: it loses the stream ("Unknown (0x0)",
  "Dissector bug ... length <= 0x7FFFFFFF"), in any server's traffic. In other segments it reads the same bytes
- type 3 chunks that omit an extended timestamp, as some encoders do: it takes four bytes of the content for one
- it does not look into, and never complains of, codecs of Enhanced RTMP (its names of formats mean nothing there),
  audio and video after the first byte, bodies of shared objects, arguments of user control messages
"""

import asyncio
import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import CLIP_S
from tests.loops import LoopThread
from tests.media import Packet, assert_begins, is_run_of, make_clip, make_enhanced_clip, of_kind, read_packets
from tests.programs import PLAYERS, PUBLISHERS, Keys, key_url, on_air, playing, publish, publish_whole, publishing
from tests.rtmpdecode import decode_stream
from tests.server_process import ServerProcess, wait_for
from tests.tools import find_tool, require_tool

# The first test plays all rounds at once, in real time, once every player waits: see `play_round`.
pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(240)]

# --- A proxy on loopback: it records what passes, in order, and acts as a bad network when a test says so ---

PIECE_BYTES = 1 << 16
PIECES_PER_S = 20
"""A limited connection is served evenly, in so many pieces."""
UPLINK_BYTES = 16 * 1024
"""A buffer so small that data of an encoder waits in the encoder."""


@dataclass(frozen=True)
class Piece:
    from_client: bool
    data: bytes


@dataclass
class Connection:
    client_port: int
    server_port: int
    pieces: list[Piece] = field(default_factory=list)
    """In the order in which they came to the proxy, from both sides."""

    def sent(self, *, from_client: bool) -> bytes:
        """All bytes of one direction."""
        return b"".join(piece.data for piece in self.pieces if piece.from_client is from_client)


class Proxy:
    """Clients connect to `url`, such as rtmp://127.0.0.1:40001. All connections have the same limit."""

    def __init__(self, loop: LoopThread, target: str, buffer_bytes: int) -> None:
        self._target, self._loop, self._buffer_bytes = urlsplit(target), loop, buffer_bytes
        self._bytes_per_s: float | None = None
        self._changed = asyncio.Event()
        self.connections: list[Connection] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: list[asyncio.Task[None]] = []

    def limit(self, bytes_per_s: float | None) -> None:
        """Limit what goes to the server. None: no limit. 0: nothing passes either way, as in a pulled cable."""
        self._loop.call(self._set_limit, bytes_per_s)

    def _set_limit(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s
        self._changed.set()
        self._changed = asyncio.Event()

    async def open(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer_bytes)
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=self._buffer_bytes)
        self._port = int(listening.getsockname()[1])
        self.url = f"rtmp://127.0.0.1:{self._port}"

    async def close(self) -> None:
        """Stop listening, and end what is still open."""
        self._server.close()
        self._set_limit(None)
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._serving)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.append(asyncio.create_task(self._pass_both(reader, writer)))

    async def _pass_both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(writer.get_extra_info("peername")[1], self._port)
        self.connections.append(connection)
        upstream, server = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._writers += [writer, server]
        await asyncio.gather(
            self._pass(reader, server, connection, from_client=True),
            self._pass(upstream, writer, connection, from_client=False),
        )

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection, *, from_client: bool
    ) -> None:
        """Pass data on until one side closes, then close the other side, unless the limit is 0."""
        with contextlib.suppress(OSError):
            while True:
                await self._wait_open()
                bytes_per_s = self._bytes_per_s if from_client else None
                data = await reader.read(max(1, int(bytes_per_s / PIECES_PER_S)) if bytes_per_s else PIECE_BYTES)
                await self._wait_open()
                if not data:
                    break
                connection.pieces.append(Piece(from_client, data))
                writer.write(data)
                await writer.drain()
                if bytes_per_s:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), len(data) / bytes_per_s)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _wait_open(self) -> None:
        while self._bytes_per_s == 0:
            await self._changed.wait()


@contextlib.contextmanager
def recorded(target: str, *, buffer_bytes: int = PIECE_BYTES) -> Iterator[Proxy]:
    """A proxy to `target` (rtmp://HOST:PORT) during the block. `buffer_bytes`: of its reader and its socket."""
    with LoopThread("proxy") as loop:
        proxy = Proxy(loop, target, buffer_bytes)
        loop.run(proxy.open())
        try:
            yield proxy
        finally:
            loop.run(proxy.close())


# --- Rounds: an encoder sends a clip, players get it, and a proxy records all connections ---

PYAV = "pyav"
PYAV_PACKETS = 200


@dataclass(frozen=True)
class Plan:
    publisher: str
    players: tuple[str, ...]
    form: str = "name"
    """How the encoder presents its key: see `programs.key_url`."""
    clip: str = "h264-aac"

    @property
    def tools(self) -> list[str]:
        players = (tool for name in self.players if name != PYAV for tool in PLAYERS[name].tools)
        return [*PUBLISHERS[self.publisher].tools, *players]


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

CODECS = {
    "hevc-ac3": (["hevc"], ["ac3"]),
    "h264-eac3": (["h264"], ["eac3"]),
    "av1-opus": (["av1"], ["opus"]),
    "vp9-flac": (["vp9"], ["flac"]),
    "tracks": (["h264", "hevc"], ["aac", "opus"]),
    "vvc-aac": (["vvc"], ["aac"]),
}
"""{clip: its video and audio codecs}: those that need Enhanced RTMP."""


@pytest.fixture(scope="module")
def clips(clip: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("clips")
    # A keyframe of `sharp` has more bytes than a chunk of the server. The encoder of VVC is slow.
    sharp = make_clip(folder / "sharp.flv", seconds=3, video_kbps=8_000, size="1280x720")
    sizes = {"vvc-aac": "160x90"}
    enhanced = {
        name: make_enhanced_clip(folder / f"{name}.flv", *codecs, seconds=5, size=sizes.get(name, "640x360"))
        for name, codecs in CODECS.items()
    }
    return {"h264-aac": clip, "sharp": sharp, **enhanced}


@dataclass
class Round:
    by_player: dict[str, list[Packet]]
    """The packets of each player, which waited before the encoder began."""
    connections: list[Connection]


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
        publish_whole(server, key, clip, plan.publisher, url=key_url(key, proxy.url, plan.form))
        for end in ends:
            end()
        packets = {PYAV: by_pyav.result(30)} if PYAV in plan.players else {}
    packets |= {player: read_packets(str(path)) for player, path in outputs.items()}
    return Round(packets, proxy.connections)


class Rounds:
    """By the names of their plans. A round whose tools are missing was not played."""

    def __init__(self, played: dict[str, Future[Round]]) -> None:
        self._played = played

    def __getitem__(self, name: str) -> Round:
        """Skip the calling test if a tool is missing; raise the error of this round."""
        for tool in PLANS[name].tools:
            require_tool(tool)
        return self._played[name].result()


@pytest.fixture(scope="module")
def rounds(server: ServerProcess, clips: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    """All at once, each on its own stream."""
    folder, keys = tmp_path_factory.mktemp("rounds"), server.create_keys(f"live/{name}" for name in PLANS)
    plans = {name: clips[plan.clip] for name, plan in PLANS.items() if all(map(find_tool, plan.tools))}
    with ThreadPoolExecutor(len(PLANS)) as pool:
        played = {
            name: pool.submit(play_round, server, keys[f"live/{name}"], clip, folder, name)
            for name, clip in plans.items()
        }
    return Rounds(played)


PLAYED = [(name, player) for name, plan in PLANS.items() for player in plan.players]


@pytest.mark.parametrize(("name", "player"), PLAYED)
def test_players_that_wait_get_every_packet_from_the_first(
    rounds: Rounds, clips: dict[str, Path], name: str, player: str
) -> None:
    """Of the first track of each kind: none of these programs says in `connect` that it knows of others."""
    received = rounds[name].by_player[player]
    sent = read_packets(str(clips[PLANS[name].clip]))
    assert_begins(received, sent, least=120 // len({(packet.kind, packet.track) for packet in sent}))
    assert {packet.track for packet in received} == {0}


@pytest.mark.parametrize("name", PLANS)
def test_messages_reach_players_as_they_were_sent(rounds: Rounds, name: str) -> None:
    """With their headers, in their order, whatever the codec; but for those of other tracks."""
    connections = rounds[name].connections
    (sent,) = [found for it in connections if (found := media_of(it, from_client=True))]
    plain = [(type_id, payload) for type_id, payload in sent if not has_tracks(type_id, payload)]
    assert (len(plain) < len(sent)) == (PLANS[name].clip == "tracks")
    for received in [found for it in connections if (found := media_of(it, from_client=False))]:
        assert received == plain[: len(received)]


def has_tracks(type_id: int, payload: bytes) -> bool:
    """Multitrack of Enhanced RTMP: packet type 6 of video, 5 of sound."""
    return payload[:1] in ((b"\x96", b"\xa6", b"\xd6") if type_id == 9 else (b"\x95",))


def media_of(connection: Connection, *, from_client: bool) -> list[tuple[int, bytes]]:
    """(type id, payload) of all audio and video."""
    messages = decode_stream(connection.sent(from_client=from_client))
    return [(message.type_id, message.payload) for message in messages if message.type_id in (8, 9)]


@pytest.mark.journey
def test_a_player_that_joins_later_starts_at_a_keyframe(server: ServerProcess, keys: Keys, clip: Path) -> None:
    began = time.monotonic()
    with on_air(server, keys["joined"], clip):
        wait_for(lambda: server.stream("live/joined")["keyframe_interval"], timeout_s=10, what="a second keyframe")
        packets = read_packets(f"{server.rtmp}/live/joined", limit=80)
    took_s = time.monotonic() - began
    sent = [packet for packet in read_packets(str(clip)) if packet.kind == "video"] * 2
    video = [packet for packet in packets if packet.kind == "video"]
    assert {packet.kind for packet in packets} == {"video", "audio"}, "FFmpeg takes the metadata for no track"
    assert video[0].is_keyframe
    start = is_run_of([packet.data for packet in video], [packet.data for packet in sent])
    assert start >= 0
    assert start > 0 or took_s > CLIP_S, "it got what was sent before it came"
    assert sent[start].is_keyframe


@pytest.mark.journey
def test_a_session_is_recorded_with_its_totals_and_events(server: ServerProcess, keys: Keys, short_clip: Path) -> None:
    publish_whole(server, keys["recorded"], short_clip)
    session = server.wait_for_end("live/recorded")
    sent = read_packets(str(short_clip))
    assert session["end_reason"] == "client_unpublish"
    assert session["video_frames"] == len(of_kind(sent, "video"))
    assert session["audio_frames"] == len(of_kind(sent, "audio"))
    assert session["keyframes"] == sum(packet.is_keyframe for packet in sent if packet.kind == "video")
    assert (session["width"], session["height"]) == (640, 360)
    events = server.items(f"/api/v1/sessions/{session['id']}/events")
    assert "NetStream.Publish.Start" in {event["code"] for event in events}
    sequences = [event["sequence"] for event in events]
    assert sorted(sequences) == list(range(min(sequences), max(sequences) + 1))


@pytest.mark.journey
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("live/no-such-key", "key_unknown"),
        ("live/demo?key=rk_00000000000000000000000000000000", "key_unknown"),
        ("nowhere/anything", "unknown_app"),
    ],
)
def test_a_refused_publisher_ends_at_once_and_is_recorded_with_the_reason(
    server: ServerProcess, clip: Path, path: str, reason: str
) -> None:
    known = len(server.items(f"/api/v1/attempts?reason={reason}"))
    done = subprocess.run(publishing(clip, f"{server.rtmp}/{path}"), timeout=20, capture_output=True)
    assert done.returncode != 0

    def is_written() -> bool:
        return len(server.items(f"/api/v1/attempts?reason={reason}")) == known + 1

    wait_for(is_written, timeout_s=20, what="the attempt")


@pytest.mark.journey
@pytest.mark.slow("encoders publish in real time")
def test_a_second_publisher_is_refused_and_the_first_goes_on(server: ServerProcess, keys: Keys, clip: Path) -> None:
    with on_air(server, keys["busy"], clip) as (_, live):
        second = subprocess.run(publishing(clip, key_url(keys["busy"], server.rtmp)), timeout=30, capture_output=True)
        assert second.returncode != 0
        assert server.stream("live/busy")["session_id"] == live["session_id"]
        asked = "/api/v1/attempts?reason=busy&app=live&name=busy"
        attempts = wait_for(lambda: server.items(asked), timeout_s=20, what="the attempt")
    assert [attempt["name"] for attempt in attempts] == ["busy"]


@pytest.mark.journey
def test_revoking_the_key_in_another_process_ends_the_session(server: ServerProcess, keys: Keys, clip: Path) -> None:
    """How soon: see tests/production/test_form.py, which measures it."""
    with on_air(server, keys["revoked"], clip) as (_, live):
        server.manage("streamkey", "revoke", "live/revoked")
        assert server.wait_for_end("live/revoked", live["session_id"])["end_reason"] == "key_revoked"


# --- Wireshark's dissector ---

# No test may capture from an interface, so Wireshark's text2pcap makes a capture file of each connection, in segments
# that fit an Ethernet frame and with headers of IPv4 and TCP. mergecap joins these files.
SEGMENT_BYTES = 1460
LINE = r"^(?<dir>[IO]) (?<data>[0-9a-f]+)$"
"""A segment in hexadecimal digits, with its direction as text2pcap names it."""

TYPES = {
    "Set Chunk Size": 1,
    "Abort Message": 2,
    "Acknowledgement": 3,
    "User Control Message": 4,
    "Window Acknowledgement Size": 5,
    "Set Peer Bandwidth": 6,
    "Audio Data": 8,
    "Video Data": 9,
    "AMF3 Data": 15,
    "AMF3 Shared Object": 16,
    "AMF3 Command": 17,
    "AMF0 Data": 18,
    "AMF0 Shared Object": 19,
    "AMF0 Command": 20,
    "Aggregate": 22,
}
"""{the dissector's name of a message: its type id}"""
HANDSHAKE = {True: ["Handshake C0+C1", "Handshake C2"], False: ["Handshake S0+S1+S2"]}
"""The dissector's names, by whether the client sent them."""

PROTOCOL = "Real Time Messaging Protocol ("
WARNING = 0x600000
"""Wireshark's severities are chat 0x200000, note 0x400000, warning 0x600000 and error 0x800000."""
FIELDS = ("tcp.stream", "tcp.srcport", "rtmpt", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message")
SEPARATOR = "\x01"
"""Between the values of one field in one packet."""


@dataclass
class Dissected:
    """What tshark found in one connection; the keys say whether the client sent it."""

    handshake: dict[bool, list[str]] = field(default_factory=lambda: {True: [], False: []})
    types: dict[bool, list[int]] = field(default_factory=lambda: {True: [], False: []})
    """The messages' type ids in the order of their ends."""
    complaints: list[str] = field(default_factory=list)
    """Malformed packets, unknown types of messages, and everything that it calls a warning or an error."""


def _run(program: str, *arguments: str) -> str:
    command = [str(Path(require_tool("tshark")).with_name(program)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def _write_capture(path: Path, connections: Sequence[Connection]) -> None:
    captures = []
    for number, connection in enumerate(connections):
        text, capture = path.with_suffix(f".{number}.txt"), path.with_suffix(f".{number}.pcap")
        with text.open("w") as lines:
            for piece in connection.pieces:
                for start in range(0, len(piece.data), SEGMENT_BYTES):
                    segment = piece.data[start : start + SEGMENT_BYTES]
                    lines.write(f"{'I' if piece.from_client else 'O'} {segment.hex()}\n")
        ports = f"{connection.client_port},{connection.server_port}"
        _run("text2pcap", "-q", "-r", LINE, "-4", "127.0.0.1,127.0.0.1", "-T", ports, str(text), str(capture))
        captures.append(str(capture))
    _run("mergecap", "-a", "-w", str(path), *captures)


def dissect(file: Path, connections: Sequence[Connection]) -> list[Dissected]:
    """Return each connection as tshark reads it from a capture, which is written to `file`."""
    _write_capture(file, connections)
    found = [Dissected() for _ in connections]
    # The dissector must read messages of all lengths.
    arguments = ["-n", "-r", str(file), "-T", "fields", "-E", f"aggregator={SEPARATOR}"]
    arguments += ["-o", "rtmpt.max_packet_size:16777215"]
    for port in {connection.server_port for connection in connections}:
        arguments += ["-d", f"tcp.port=={port},rtmpt"]
    for name in FIELDS:
        arguments += ["-e", name]
    for line in _run("tshark", *arguments).splitlines():
        stream, source, names, malformed, severities, texts = line.split("\t")
        dissected, from_client = found[int(stream)], int(source) == connections[int(stream)].client_port
        for raw in filter(None, names.split(SEPARATOR)):
            name = raw.removeprefix(PROTOCOL).removesuffix(")")  # Such as "AMF0 Command connect('live')".
            type_id = next((type_id for known, type_id in TYPES.items() if name.startswith(known)), None)
            if type_id is not None:
                dissected.types[from_client].append(type_id)
            elif name.startswith("Handshake"):
                dissected.handshake[from_client].append(name)
            else:
                dissected.complaints.append(name)
        if malformed or any(int(severity) >= WARNING for severity in severities.split(SEPARATOR) if severity):
            dissected.complaints.append(f"{malformed} {texts}".replace(SEPARATOR, "; ").strip())
    return found


def messages(connection: Connection, *, from_client: bool) -> list[int]:
    """Return the type ids as our decoder in the tests reads them."""
    return [message.type_id for message in decode_stream(connection.sent(from_client=from_client))]


def agrees(dissected: Dissected, connection: Connection) -> bool:
    """Return True if the dissector and the decoder read the same, both ways."""
    return all(dissected.types[side] == messages(connection, from_client=side) for side in (True, False))


def assert_no_fault(file: Path, connections: Sequence[Connection]) -> None:
    """Assert that the dissector has no complaints. `file`: the capture, which is written."""
    for connection, dissected in zip(connections, dissect(file, connections), strict=True):
        assert dissected.complaints == [], dissected.complaints
        assert dissected.handshake == HANDSHAKE
        assert agrees(dissected, connection)


CHUNK_BYTES = 60_000
"""The server's; a message of more has chunks of type 3."""

VIDEO, COMMAND = 9, 20


@pytest.mark.parametrize("name", PLANS)
def test_wireshark_finds_no_fault_in_encoder_and_player_connections(rounds: Rounds, tmp_path: Path, name: str) -> None:
    connections = rounds[name].connections
    assert len(connections) == 1 + len(PLANS[name].players)
    assert_no_fault(tmp_path / "round.pcap", connections)
    for connection in connections:
        media = [messages(connection, from_client=side).count(VIDEO) for side in (True, False)]
        assert min(media) == 0, "each publishes or plays"
        assert max(media) > 60


def test_recorded_connections_contain_multi_chunk_messages_both_ways(rounds: Rounds) -> None:
    """Both ways, keyframes take more than one."""
    connections = rounds["rtmp2sink"].connections + rounds["rtmpsink"].connections
    longest = {
        side: max(len(message.payload) for it in connections for message in decode_stream(it.sent(from_client=side)))
        for side in (True, False)
    }
    assert min(longest.values()) > CHUNK_BYTES


def refusal(server: ServerProcess, clip: Path, publisher: str) -> Connection:
    for tool in PUBLISHERS[publisher].tools:
        require_tool(tool)
    with recorded(server.rtmp) as proxy, pytest.raises(subprocess.CalledProcessError):
        publish(publisher, clip, f"{proxy.url}/live/rk_00000000000000000000000000000000")
    (connection,) = proxy.connections
    return connection


@pytest.mark.parametrize("publisher", ["ffmpeg-debian", "ffmpeg-imageio", "rtmp2sink", "rtmpsink"])
def test_wireshark_finds_no_fault_in_a_refused_connection(
    server: ServerProcess, clip: Path, tmp_path: Path, publisher: str
) -> None:
    connection = refusal(server, clip, publisher)
    assert_no_fault(tmp_path / "refusal.pcap", [connection])
    assert messages(connection, from_client=False).count(COMMAND) >= 2, "the answer to connect, and the refusal"


FAULTS = {
    "a type that no one knows": bytes.fromhex("02 000000 000004 63 00000000 00000000"),
    "a string that goes past its command's end": bytes.fromhex("03 000000 000006 14 00000000 02ffff616263"),
    "a user control message without its type": bytes.fromhex("02 000000 000001 04 00000000 00"),
    "a window of two bytes": bytes.fromhex("02 000000 000002 05 00000000 0000"),
}
"""What the dissector finds when there is something to find."""


@pytest.fixture(scope="module")
def refused(server: ServerProcess, clip: Path) -> Connection:
    """A connection without a fault."""
    return refusal(server, clip, "ffmpeg-debian")


@pytest.mark.parametrize("fault", FAULTS)
def test_wireshark_check_detects_an_injected_fault(refused: Connection, tmp_path: Path, fault: str) -> None:
    faulty = replace(refused, pieces=[*refused.pieces, Piece(from_client=False, data=FAULTS[fault])])
    (dissected,) = dissect(tmp_path / "faulty.pcap", [faulty])
    assert len(dissected.complaints) == 1


def test_wireshark_check_detects_a_lost_byte(refused: Connection, tmp_path: Path) -> None:
    """The messages after it differ from what was sent."""
    answer = next(at for at, piece in enumerate(refused.pieces) if not piece.from_client and b"_result" in piece.data)
    pieces = list(refused.pieces)
    pieces[answer] = replace(pieces[answer], data=pieces[answer].data.replace(b"_result", b"_esult", 1))
    (dissected,) = dissect(tmp_path / "faulty.pcap", [replace(refused, pieces=pieces)])
    assert dissected.complaints or not agrees(dissected, refused)
