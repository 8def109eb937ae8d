"""Both ends of the handshake: bytes in, bytes to send out."""

from enum import Enum
from typing import ClassVar, Final

from ingest.rtmp.errors import LocalProtocolError, RemoteProtocolError
from ingest.rtmp.handshake import digest
from ingest.rtmp.handshake.digest import End, Scheme

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

SIMPLE: Final = bytes(4)
"""Bytes 4 to 7 of a part without a digest."""
SERVER_VERSION: Final = bytes((4, 5, 0, 1))
"""Of an S1 with a digest, as Flash Media Server's. FFmpeg's players check the digests of servers from 3 on."""
CLIENT_VERSION: Final = bytes((9, 0, 124, 2))
"""Of a C1 with a digest, as FFmpeg's: a Flash Player that knows H.264."""


class Proof(Enum):
    """What came of the digests that the peer sent."""

    NONE = "none"
    """It sent none, or none was asked for."""
    VERIFIED = "verified"
    WRONG = "wrong"
    """It announced a digest, and none verified under either scheme. It was given the echo, and is taken like any."""


class _Handshake:
    own: ClassVar[End]
    peer: ClassVar[End]

    def __init__(self, nonce: bytes, epoch_ms: int) -> None:
        if len(nonce) != NONCE_BYTES:
            raise LocalProtocolError(f"the handshake needs {NONCE_BYTES} random bytes")
        self._time = (epoch_ms & 0xFFFFFFFF).to_bytes(4, "big")
        self._part1 = self._time + SIMPLE + nonce
        self._digest = b""
        """Of our part, if we signed it."""
        self._data = bytearray()
        self._answered = False
        self.version = 0
        """The version that the peer asked for (C0), or chose (S0)."""
        self.proof = Proof.NONE
        self.echoed = False
        """Whether the peer's second part answers our first: proof that it came after ours had arrived."""
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
        self._look_at_echo(bytes(self._data[1 + PART_BYTES : HANDSHAKE_BYTES]))
        self.completed = True
        rest = bytes(self._data[HANDSHAKE_BYTES:])
        # A connection lives long: it doesn't keep what only the handshake needed.
        self._data = bytearray()
        self._part1 = self._digest = b""
        return answer, rest

    def _judge_version(self) -> None:
        raise NotImplementedError

    def _answer(self, part1: bytes) -> bytes:
        """What is sent when the peer's first part is there."""
        raise NotImplementedError

    def _look_for_digest(self, part1: bytes) -> digest.Found | None:
        """The peer's digest, if it has one that verifies. Kept in `proof`."""
        if part1[4:8] == SIMPLE:
            return None
        found = digest.find(part1, self.peer)
        self.proof = Proof.VERIFIED if found else Proof.WRONG
        return found

    def _sign(self, version: bytes, scheme: Scheme) -> None:
        part = self._part1[:4] + version + self._part1[8:]
        self._part1, self._digest = digest.sign(part, scheme, self.own)

    def _echo(self, part1: bytes, found: digest.Found | None) -> bytes:
        """C2 or S2, signed if the peer's part was.

        Time2 is the reading of our clock, which starts at our epoch, when the peer's part came: it is that epoch.
        """
        echo = part1[:4] + self._time + part1[8:]
        return digest.seal(echo, found.digest, self.own) if found else echo

    def _look_at_echo(self, part2: bytes) -> None:
        # Time2 is the peer's own; who copies the part whole repeats what stands there.
        plain = part2[:4] == self._part1[:4] and part2[8:] == self._part1[8:]
        self.echoed = plain or (self._digest != b"" and digest.is_sealed(part2, self._digest, self.peer))


class ServerHandshake(_Handshake):
    """Answers C0 and C1 by S0, S1 and S2 at once, and waits for C2. Signs where C1 has a digest, in its scheme."""

    own = End.SERVER
    peer = End.CLIENT

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
        found = self._look_for_digest(part1)
        if found:
            self._sign(SERVER_VERSION, found.scheme)
        return bytes((VERSION,)) + self._part1 + self._echo(part1, found)


class ClientHandshake(_Handshake):
    """Sends C0 and C1, then C2 when S1 is there."""

    own = End.CLIENT
    peer = End.SERVER

    def __init__(self, nonce: bytes, epoch_ms: int, scheme: Scheme | None = None) -> None:
        """`scheme`: send a digest, and check the server's if it sends one. A wrong one ends nothing: see `proof`."""
        super().__init__(nonce, epoch_ms)
        self._scheme = scheme

    def begin(self) -> bytes:
        if self._scheme:
            self._sign(CLIENT_VERSION, self._scheme)
        return bytes((VERSION,)) + self._part1

    def _judge_version(self) -> None:
        if not self._data:
            return
        self.version = self._data[0]
        if self.version != VERSION:
            raise RemoteProtocolError(f"the server chose version {self.version}")

    def _answer(self, part1: bytes) -> bytes:
        return self._echo(part1, self._look_for_digest(part1) if self._scheme else None)

    def _look_at_echo(self, part2: bytes) -> None:
        super()._look_at_echo(part2)
        if self.proof is Proof.VERIFIED and not digest.is_sealed(part2, self._digest, self.peer):
            self.proof = Proof.WRONG
