"""What Wireshark's dissector for RTMP, which shares nothing with this project, finds in recorded connections.

Known limits of the dissector (4.0), which are not the traffic's:

- a chunk header with an extended timestamp that the end of a TCP segment cuts: it loses the stream ("Unknown (0x0)",
  "Dissector bug ... length <= 0x7FFFFFFF"), in any server's traffic. In other segments it reads the same bytes whole
- type 3 chunks that omit an extended timestamp, as some encoders do: it takes four bytes of the content for one
- what it does not look into, and never complains of: codecs of Enhanced RTMP (its names of formats mean nothing there),
  audio and video after the first byte, bodies of shared objects, arguments of user control messages

It reads a capture file in libpcap's format, with IPv4 packets and no link layer, as no test may capture from an
interface. Each connection has its three-way handshake, segments that an Ethernet frame takes, each acknowledged at once
(no window gets full), checksums, and the FIN of both."""

import struct
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.rtmpdecode import decode_stream
from tests.tools import require_tool
from tests.wiretap.proxy import Connection

LINKTYPE_IPV4 = 228
SEGMENT_BYTES = 1460
LOOPBACK = bytes([127, 0, 0, 1])
TCP = 6
FIN, SYN, PSH, ACK = 1, 2, 8, 16
WINDOW = 65535


def write_capture(path: Path, connections: Iterable[Connection]) -> Path:
    """All connections into one file, one after the other."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, WINDOW, LINKTYPE_IPV4))
        for connection in connections:
            for at, packet in _packets(connection):
                seconds, fraction = divmod(at, 1)
                file.write(struct.pack("<IIII", int(seconds), int(fraction * 1e6), len(packet), len(packet)))
                file.write(packet)
    return path


def _packets(connection: Connection) -> Iterator[tuple[float, bytes]]:
    """(seconds since the epoch, IPv4 packet)."""
    ports = {True: connection.client_port, False: connection.server_port}
    sent = {True: 0, False: 0}
    """The next sequence number of each side; both begin with 0."""

    def segment(from_client: bool, flags: int, data: bytes = b"") -> bytes:
        acknowledged = sent[not from_client] if flags & ACK else 0
        source, target = ports[from_client], ports[not from_client]
        head = struct.pack("!HHIIBBHHH", source, target, sent[from_client], acknowledged, 5 << 4, flags, WINDOW, 0, 0)
        pseudo = LOOPBACK + LOOPBACK + struct.pack("!BBH", 0, TCP, len(head) + len(data))
        check = _checksum(pseudo + head + data)
        sent[from_client] += len(data) + bool(flags & (SYN | FIN))
        return _ip(head[:16] + struct.pack("!H", check) + head[18:] + data)

    begin = connection.pieces[0].at if connection.pieces else 0.0
    yield begin, segment(True, SYN)
    yield begin, segment(False, SYN | ACK)
    yield begin, segment(True, ACK)
    at = begin
    for piece in connection.pieces:
        at = piece.at
        for start in range(0, len(piece.data), SEGMENT_BYTES):
            yield at, segment(piece.from_client, PSH | ACK, piece.data[start : start + SEGMENT_BYTES])
            yield at, segment(not piece.from_client, ACK)
    yield at, segment(True, FIN | ACK)
    yield at, segment(False, FIN | ACK)
    yield at, segment(True, ACK)


def _ip(payload: bytes) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, TCP, 0) + LOOPBACK + LOOPBACK
    return head[:10] + struct.pack("!H", _checksum(head)) + head[12:] + payload


def _checksum(data: bytes) -> int:
    """RFC 1071."""
    total: int = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


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

OPTIONS = {"rtmpt.max_packet_size": "16777215", "ip.check_checksum": "TRUE", "tcp.check_checksum": "TRUE"}
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
    tshark = require_tool("tshark")
    given = list(connections)
    found = [Dissected() for _ in given]
    write_capture(file, given)
    arguments = ["-n", "-r", str(file), "-T", "fields", "-E", f"aggregator={SEVERAL}"]
    for name, value in OPTIONS.items():
        arguments += ["-o", f"{name}:{value}"]
    for port in {connection.server_port for connection in given}:
        arguments += ["-d", f"tcp.port=={port},rtmpt"]
    for name in FIELDS:
        arguments += ["-e", name]
    output = subprocess.run([tshark, *arguments], capture_output=True, text=True, check=True, timeout=120).stdout
    for line in output.splitlines():
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
