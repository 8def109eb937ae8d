"""What Wireshark's dissector for RTMP, which shares nothing with this project, finds in recorded connections.

Known limits of the dissector (4.0), which are not the traffic's:

- a chunk header with an extended timestamp that the end of a TCP segment cuts: it loses the stream ("Unknown (0x0)",
  "Dissector bug ... length <= 0x7FFFFFFF"), in any server's traffic. In other segments it reads the same bytes whole
- type 3 chunks that omit an extended timestamp, as some encoders do: it takes four bytes of the content for one
- what it does not look into, and never complains of: codecs of Enhanced RTMP (its names of formats mean nothing there),
  audio and video after the first byte, bodies of shared objects, arguments of user control messages
"""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.tools import require_tool
from tests.wiretap import pcap
from tests.wiretap.proxy import Connection

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

OPTIONS = {
    "rtmpt.max_packet_size": "16777215",
    "ip.check_checksum": "TRUE",
    "tcp.check_checksum": "TRUE",
}
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
    pcap.write(file, given)
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
