"""The simple handshake (RTMP 1.0, section 5.2): C0, C1, C2 from the client, S0, S1, S2 from the server.

    C0, S0  version (1 byte)
    C1, S1  time (4), zero (4), random (1528)
    C2, S2  the peer's time (4), time2 (4), the peer's random bytes (1528)

C2 and S2 are never judged: common clients fill them in ways of their own.
"""

from typing import Final

from ingest.rtmp.errors import LocalProtocolError, RemoteProtocolError

VERSION: Final = 3
PART_BYTES: Final = 1536
"""C1, C2, S1 and S2."""
NONCE_BYTES: Final = PART_BYTES - 8
HANDSHAKE_BYTES: Final = 1 + 2 * PART_BYTES
"""What each side sends."""

FIRST_TEXT_VERSION: Final = 32
"""Versions from here on are not allowed, so that text protocols can be told from RTMP (section 5.2.2)."""
TLS_HANDSHAKE: Final = b"\x16\x03"
"""A TLS record of type handshake and the major version, which is 3 in all versions of TLS."""


def _part(time_ms: int, nonce: bytes) -> bytes:
    if len(nonce) != NONCE_BYTES:
        raise LocalProtocolError(f"the handshake needs {NONCE_BYTES} random bytes")
    return (time_ms & 0xFFFFFFFF).to_bytes(4, "big") + bytes(4) + nonce


class _Handshake:
    def __init__(self, nonce: bytes, epoch_ms: int) -> None:
        self._part1 = _part(epoch_ms, nonce)
        self._time2 = (epoch_ms & 0xFFFFFFFF).to_bytes(4, "big")
        self._data = bytearray()
        self._answered = False
        self.version = 0
        """The version that the peer asked for (C0), or chose (S0)."""
        self.completed = False

    def receive(self, data: bytes | bytearray | memoryview) -> tuple[bytes, bytes]:
        """Takes bytes; gives what to send, and once completed also the bytes that follow the handshake."""
        self._data += data
        self._judge_version()
        answer = b""
        if not self._answered and len(self._data) > PART_BYTES:
            self._answered = True
            answer = self._answer(bytes(self._data[1 : 1 + PART_BYTES]))
        if len(self._data) < HANDSHAKE_BYTES:
            return answer, b""
        self.completed = True
        rest = bytes(self._data[HANDSHAKE_BYTES:])
        # A connection lives long: it doesn't keep what only the handshake needed.
        self._data = bytearray()
        self._part1 = b""
        return answer, rest

    def _judge_version(self) -> None:
        raise NotImplementedError

    def _answer(self, part1: bytes) -> bytes:
        """What is sent when the peer's first part is there."""
        raise NotImplementedError

    def _echo(self, part1: bytes) -> bytes:
        """Time2 is the reading of our clock, which starts at our epoch, when the peer's part came: it is that epoch."""
        return part1[:4] + self._time2 + part1[8:]


class ServerHandshake(_Handshake):
    """Answers C0 and C1 by S0, S1 and S2 at once, and waits for C2."""

    def _judge_version(self) -> None:
        """Refuses other protocols by their first bytes. Unknown versions of RTMP are answered with ours."""
        if not self._data:
            return
        self.version = self._data[0]
        if self.version >= FIRST_TEXT_VERSION:
            kind = "text, perhaps HTTP" if self.version < 127 else "not RTMP"
            raise RemoteProtocolError(f"the connection begins with {kind} (byte {self.version:#04x})")
        if self._data[:2] == TLS_HANDSHAKE:
            raise RemoteProtocolError("the connection begins with TLS, and this is the port for plain RTMP")

    def _answer(self, part1: bytes) -> bytes:
        return bytes((VERSION,)) + self._part1 + self._echo(part1)


class ClientHandshake(_Handshake):
    """Sends C0 and C1, then C2 when S1 is there."""

    def begin(self) -> bytes:
        return bytes((VERSION,)) + self._part1

    def _judge_version(self) -> None:
        if not self._data:
            return
        self.version = self._data[0]
        if self.version != VERSION:
            raise RemoteProtocolError(f"the server chose version {self.version}")

    def _answer(self, part1: bytes) -> bytes:
        return self._echo(part1)
