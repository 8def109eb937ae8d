"""Writes recorded connections as a capture file that tshark reads, as no test may capture from an interface.

The format is libpcap's, with IPv4 packets and no link layer. Each connection has its three-way handshake, segments that
an Ethernet frame takes, each acknowledged at once (no window gets full), checksums, and the FIN of both.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.wiretap.proxy import Connection

LINKTYPE_IPV4 = 228
SEGMENT_BYTES = 1460
LOOPBACK = bytes([127, 0, 0, 1])
TCP = 6
FIN, SYN, PSH, ACK = 1, 2, 8, 16
WINDOW = 65535


def write(path: Path, connections: Iterable[Connection]) -> Path:
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
