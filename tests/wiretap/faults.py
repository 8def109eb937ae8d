"""Recorded connections as two decoders read them: Wireshark's dissector and `tests/rtmpdecode.py`."""

from pathlib import Path

from tests.rtmpdecode import decode_stream
from tests.wiretap.proxy import Connection
from tests.wiretap.tshark import HANDSHAKE, Dissected, dissect


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
