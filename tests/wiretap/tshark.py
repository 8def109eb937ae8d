"""What Wireshark's dissector for RTMP, which shares nothing with this project, finds in recorded connections.

Known limits of the dissector (4.0), which are not the traffic's:

- a chunk header with an extended timestamp that the end of a TCP segment cuts: it loses the stream ("Unknown (0x0)",
  "Dissector bug ... length <= 0x7FFFFFFF"), in any server's traffic. In other segments it reads the same bytes whole
- type 3 chunks that omit an extended timestamp, as some encoders do: it takes four bytes of the content for one
- what it does not look into, and never complains of: codecs of Enhanced RTMP (its names of formats mean nothing there),
  audio and video after the first byte, bodies of shared objects, arguments of user control messages

It reads a capture file, as no test may capture from an interface: Wireshark's text2pcap makes one of each connection,
in segments that an Ethernet frame takes, with the headers of IPv4 and TCP, and mergecap makes one of them all."""

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.rtmpdecode import decode_stream
from tests.tools import require_tool
from tests.wiretap.proxy import Connection

SEGMENT_BYTES = 1460
LINE = r"^(?<dir>[IO]) (?<data>[0-9a-f]+)$"
"""A segment in hexadecimal digits, with its direction as text2pcap has it."""


def write_capture(path: Path, connections: Iterable[Connection]) -> Path:
    """All connections into one file, one after the other."""
    captures = []
    for number, connection in enumerate(connections):
        text, capture = path.with_suffix(f".{number}.txt"), path.with_suffix(f".{number}.pcap")
        text.write_text("".join(_lines(connection)))
        ports = f"{connection.client_port},{connection.server_port}"
        _run("text2pcap", "-q", "-r", LINE, "-4", "127.0.0.1,127.0.0.1", "-T", ports, str(text), str(capture))
        captures.append(str(capture))
    _run("mergecap", "-a", "-w", str(path), *captures)
    return path


def _lines(connection: Connection) -> Iterator[str]:
    for piece in connection.pieces:
        for start in range(0, len(piece.data), SEGMENT_BYTES):
            yield f"{'I' if piece.from_client else 'O'} {piece.data[start : start + SEGMENT_BYTES].hex()}\n"


def _run(program: str, *arguments: str) -> str:
    """What it writes. All are of Wireshark."""
    command = [str(Path(require_tool("tshark")).with_name(program)), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


NAMES = {
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
"""{how the dissector calls a message: its type id}"""

HANDSHAKE = {True: ["Handshake C0+C1", "Handshake C2"], False: ["Handshake S0+S1+S2"]}
"""Its names, by whether the client sent them."""

PROTOCOL = "Real Time Messaging Protocol ("
WARNING = 0x600000
"""The severities of Wireshark: chat 0x200000, note 0x400000, warning 0x600000, error 0x800000."""

MOST_BYTES = "rtmpt.max_packet_size:16777215"
"""Of a message that it reads."""
FIELDS = ("tcp.stream", "tcp.srcport", "rtmpt", "_ws.malformed", "_ws.expert.severity", "_ws.expert.message")
SEVERAL = "\x01"
"""Between several values of a field in one packet."""


@dataclass
class Dissected:
    """One connection."""

    handshake: dict[bool, list[str]] = field(default_factory=lambda: {True: [], False: []})
    """Its parts by their names, by whether the client sent them."""
    types: dict[bool, list[int]] = field(default_factory=lambda: {True: [], False: []})
    """The messages' type ids in the order of their ends, by whether the client sent them."""
    complaints: list[str] = field(default_factory=list)
    """Malformed packets, unknown types of messages, and whatever else it calls a warning or an error."""


def dissect(file: Path, connections: Iterable[Connection]) -> list[Dissected]:
    """Each connection as tshark reads it from a capture, which is written to `file`."""
    given = list(connections)
    found = [Dissected() for _ in given]
    write_capture(file, given)
    arguments = ["-n", "-r", str(file), "-T", "fields", "-E", f"aggregator={SEVERAL}", "-o", MOST_BYTES]
    for port in {connection.server_port for connection in given}:
        arguments += ["-d", f"tcp.port=={port},rtmpt"]
    for name in FIELDS:
        arguments += ["-e", name]
    for line in _run("tshark", *arguments).splitlines():
        stream, source, messages, malformed, severities, texts = line.split("\t")
        connection, dissected = given[int(stream)], found[int(stream)]
        for name in filter(None, messages.split(SEVERAL)):
            _take(dissected, name.removeprefix(PROTOCOL).removesuffix(")"), int(source) == connection.client_port)
        if malformed or any(int(severity) >= WARNING for severity in severities.split(SEVERAL) if severity):
            dissected.complaints.append(f"{malformed} {texts}".replace(SEVERAL, "; ").strip())
    return found


def _take(dissected: Dissected, name: str, from_client: bool) -> None:
    """`name`: such as "AMF0 Command connect('live')"."""
    type_id = next((NAMES[known] for known in NAMES if name.startswith(known)), None)
    if type_id is not None:
        dissected.types[from_client].append(type_id)
    elif name.startswith("Handshake"):
        dissected.handshake[from_client].append(name)
    else:
        dissected.complaints.append(name)


def messages(connection: Connection, *, from_client: bool) -> list[int]:
    """The type ids as `tests/rtmpdecode.py` reads them."""
    return [message.type_id for message in decode_stream(connection.sent(from_client=from_client))]


def agrees(dissected: Dissected, connection: Connection) -> bool:
    """Whether the dissector has read what the decoder reads, both ways."""
    return all(dissected.types[side] == messages(connection, from_client=side) for side in (True, False))


def assert_no_fault(file: Path, connections: list[Connection]) -> None:
    """The dissector has nothing to complain of. `file`: the capture that it reads them from, which is written."""
    for connection, dissected in zip(connections, dissect(file, connections), strict=True):
        assert dissected.complaints == [], dissected.complaints
        assert dissected.handshake == HANDSHAKE
        assert agrees(dissected, connection)
