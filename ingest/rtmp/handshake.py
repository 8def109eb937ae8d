"""The handshake (RTMP 1.0, section 5.2): C0, C1, C2 from the client, S0, S1, S2 from the server.

    C0, S0  version (1 byte)
    C1, S1  time (4), zero (4), random (1528)
    C2, S2  the peer's time (4), time2 (4), the peer's random bytes (1528)

C2 and S2 are never checked: common clients fill them in ways of their own.

Flash Player 9 and later, FFmpeg and librtmp put their version where the zero is, and a digest among the random bytes.
That stands in no specification: Flash Player 9 began it, for H.264 and AAC.

    C1, S1  time (4), version (4, not zero), random bytes with a digest (32) among them
    C2, S2  random (1504), signature of them (32), made with the digest of the part that is answered

    digest     HMAC-SHA256(the end's name, the part without its digest)
    signature  HMAC-SHA256(HMAC-SHA256(the end's name and SALT, the peer's digest), the first 1504 bytes)

Four bytes of the part tell where its digest stands. Which four, is the scheme: two are in use, and the server answers
in the client's. The digests prove nothing, as everybody knows the keys, but clients go by them. Our own client sends
none.
"""

import hmac
from enum import Enum
from typing import Final

from ingest.rtmp.errors import LocalProtocolError, RemoteProtocolError

DIGEST_BYTES: Final = 32
DIGEST_POSITIONS: Final = 728
"""How many places a digest may have within its half of a part."""

SALT: Final = bytes.fromhex("F0EEC24A8068BEE82E00D0D1029E7E576EEC5D2D29806FAB93B8E636CFEB31AE")
CLIENT_NAME: Final = b"Genuine Adobe Flash Player 001"
SERVER_NAME: Final = b"Genuine Adobe Flash Media Server 001"


class Scheme(Enum):
    """The half of a part that has the digest; the other one has a key for encryption (RTMPE).

    The value is where the four bytes stand whose sum gives the place. What clients use most comes first.
    """

    DIGEST_FIRST = 8
    KEY_FIRST = 772


def find_digest(c1: bytes) -> tuple[Scheme, bytes] | None:
    """The digest of C1, if it verifies under a scheme. One or two HMACs over 1.5 kB."""
    for scheme in Scheme:
        at = _digest_position(c1, scheme)
        digest = c1[at : at + DIGEST_BYTES]
        if _digest(c1, at, CLIENT_NAME) == digest:
            return scheme, digest
    return None


def sign_part(s1: bytes, scheme: Scheme) -> tuple[bytes, bytes]:
    """S1 with its digest in place, and that digest."""
    at = _digest_position(s1, scheme)
    digest = _digest(s1, at, SERVER_NAME)
    return s1[:at] + digest + s1[at + DIGEST_BYTES :], digest


def _digest_position(part: bytes, scheme: Scheme) -> int:
    base = scheme.value
    return sum(part[base : base + 4]) % DIGEST_POSITIONS + base + 4


def _digest(part: bytes, at: int, name: bytes) -> bytes:
    return hmac.digest(name, part[:at] + part[at + DIGEST_BYTES :], "sha256")


def _signature(part: bytes, digest: bytes, name: bytes) -> bytes:
    key = hmac.digest(name + SALT, digest, "sha256")
    return hmac.digest(key, part[:-DIGEST_BYTES], "sha256")


VERSION: Final = 3
PART_BYTES: Final = 1536
NONCE_BYTES: Final = PART_BYTES - 8
HANDSHAKE_BYTES: Final = 1 + 2 * PART_BYTES
"""What each side sends."""

FIRST_TEXT_VERSION: Final = 32
"""Versions from here on are not allowed, so that text protocols can be told from RTMP (section 5.2.2)."""
TLS_HANDSHAKE: Final = b"\x16\x03"
"""A TLS record of type handshake and the major version, which is 3 in all versions of TLS."""

SIMPLE: Final = bytes(4)
"""Bytes 4 to 7 of a part without a digest."""
SERVER_VERSION: Final = bytes((4, 5, 0, 1))
"""Of an S1 with a digest, as Flash Media Server's. FFmpeg's players check the digests of servers from 3 on."""


class _Handshake:
    def __init__(self, nonce: bytes, epoch_ms: int) -> None:
        if len(nonce) != NONCE_BYTES:
            raise LocalProtocolError(f"the handshake needs {NONCE_BYTES} random bytes")
        self._time = (epoch_ms & 0xFFFFFFFF).to_bytes(4, "big")
        self._part1 = self._time + SIMPLE + nonce
        self._data = bytearray()
        self._answered = False
        self.version = 0
        """The version that the peer asked for (C0), or chose (S0); 0 before its first byte has come."""
        self.echoed = False
        """Whether the peer's second part answers our first: proof that it came after ours had arrived."""
        self.completed = False

    def receive(self, data: bytes | bytearray | memoryview) -> tuple[bytes, bytes]:
        """Takes bytes; gives what to send, and once completed also the bytes that follow the handshake."""
        self._data += data
        if self._data:
            self.version = self._data[0]
            self._check_version()
        answer = b""
        if not self._answered and len(self._data) > PART_BYTES:
            self._answered = True
            answer = self._answer(bytes(self._data[1 : 1 + PART_BYTES]))
        if len(self._data) < HANDSHAKE_BYTES:
            return answer, b""
        self.echoed = self._is_echo(bytes(self._data[1 + PART_BYTES : HANDSHAKE_BYTES]))
        self.completed = True
        rest = bytes(self._data[HANDSHAKE_BYTES:])
        # A connection lives long: it doesn't keep what only the handshake needed.
        self._data = bytearray()
        self._part1 = b""
        return answer, rest

    def _check_version(self) -> None:
        raise NotImplementedError

    def _answer(self, part1: bytes) -> bytes:
        """C2 or S2, the echo: what is sent when the peer's first part is there.

        Time2 is the reading of our clock, which starts at our epoch, when the peer's part came: it is that epoch.
        """
        return part1[:4] + self._time + part1[8:]

    def _is_echo(self, part2: bytes) -> bool:
        # Time2 is the peer's own; who copies the part whole repeats what stands there.
        return part2[:4] == self._part1[:4] and part2[8:] == self._part1[8:]


class ServerHandshake(_Handshake):
    """Answers C0 and C1 by S0, S1 and S2 at once, and waits for C2. Signs where C1 has a digest, in its scheme."""

    _digest = b""
    """Of S1, if it was signed."""

    def _check_version(self) -> None:
        """Refuses other protocols by their first bytes. Unknown versions of RTMP are answered with ours."""
        if self.version >= FIRST_TEXT_VERSION:
            kind = "text, perhaps HTTP" if self.version < 127 else "not RTMP"
            raise RemoteProtocolError(f"the connection begins with {kind} (byte {self.version:#04x})")
        if self._data[:2] == TLS_HANDSHAKE:
            raise RemoteProtocolError("the connection begins with TLS, and this is the port for plain RTMP")

    def _answer(self, part1: bytes) -> bytes:
        echo = super()._answer(part1)
        found = find_digest(part1) if part1[4:8] != SIMPLE else None
        if found:
            scheme, digest = found
            s1 = self._part1[:4] + SERVER_VERSION + self._part1[8:]
            self._part1, self._digest = sign_part(s1, scheme)
            echo = echo[:-DIGEST_BYTES] + _signature(echo, digest, SERVER_NAME)
        return bytes((VERSION,)) + self._part1 + echo

    def _is_echo(self, part2: bytes) -> bool:
        is_signed = self._digest and part2[-DIGEST_BYTES:] == _signature(part2, self._digest, CLIENT_NAME)
        return bool(is_signed) or super()._is_echo(part2)


class ClientHandshake(_Handshake):
    """Sends C0 and C1, then C2 when S1 is there."""

    def begin(self) -> bytes:
        return bytes((VERSION,)) + self._part1

    def _check_version(self) -> None:
        if self.version != VERSION:
            raise RemoteProtocolError(f"the server chose version {self.version}")
