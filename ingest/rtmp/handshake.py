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

Four bytes of the part tell where its digest stands. Which four, is the scheme: two are in use, and a server answers in
the client's. The digests prove nothing, as everybody knows the keys, but clients go by them."""

import hmac
from enum import Enum
from typing import ClassVar, Final, NamedTuple

from ingest.rtmp.errors import LocalProtocolError, RemoteProtocolError

DIGEST_BYTES: Final = 32
DIGEST_POSITIONS: Final = 728
"""How many places a digest may have within its half of a part."""

SALT: Final = bytes.fromhex("F0EEC24A8068BEE82E00D0D1029E7E576EEC5D2D29806FAB93B8E636CFEB31AE")


class Scheme(Enum):
    """The half of a part that has the digest; the other one has a key for encryption (RTMPE).

    The value is where the four bytes stand whose sum gives the place. What clients use most comes first.
    """

    DIGEST_FIRST = 8
    KEY_FIRST = 772


class Role(Enum):
    """The name with which an end makes its digest."""

    CLIENT = b"Genuine Adobe Flash Player 001"
    SERVER = b"Genuine Adobe Flash Media Server 001"


class FoundDigest(NamedTuple):
    scheme: Scheme
    digest: bytes


def find_digest(part: bytes, role: Role) -> FoundDigest | None:
    """The digest of C1 or S1, if it verifies under a scheme. One or two HMACs over 1.5 kB."""
    for scheme in Scheme:
        at = _digest_position(part, scheme)
        if _digest(part, at, role) == part[at : at + DIGEST_BYTES]:
            return FoundDigest(scheme, part[at : at + DIGEST_BYTES])
    return None


def sign_part(part: bytes, scheme: Scheme, role: Role) -> tuple[bytes, bytes]:
    """C1 or S1 with its digest in place, and that digest."""
    at = _digest_position(part, scheme)
    made = _digest(part, at, role)
    return part[:at] + made + part[at + DIGEST_BYTES :], made


def sign_answer(part: bytes, digest: bytes, role: Role) -> bytes:
    """C2 or S2: the part with its last bytes replaced by the signature that answers the peer's digest."""
    return part[:-DIGEST_BYTES] + _signature(part, digest, role)


def is_signed_answer(part: bytes, digest: bytes, role: Role) -> bool:
    """Whether C2 or S2 of that end answers our digest."""
    return part[-DIGEST_BYTES:] == _signature(part, digest, role)


def _digest_position(part: bytes, scheme: Scheme) -> int:
    base = scheme.value
    return sum(part[base : base + 4]) % DIGEST_POSITIONS + base + 4


def _digest(part: bytes, at: int, role: Role) -> bytes:
    return hmac.digest(role.value, part[:at] + part[at + DIGEST_BYTES :], "sha256")


def _signature(part: bytes, digest: bytes, role: Role) -> bytes:
    key = hmac.digest(role.value + SALT, digest, "sha256")
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
    own: ClassVar[Role]
    peer: ClassVar[Role]

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
        if self._data:
            self.version = self._data[0]
            self._check_version()
        answer = b""
        if not self._answered and len(self._data) > PART_BYTES:
            self._answered = True
            answer = self._answer(bytes(self._data[1 : 1 + PART_BYTES]))
        if len(self._data) < HANDSHAKE_BYTES:
            return answer, b""
        self._check_echo(bytes(self._data[1 + PART_BYTES : HANDSHAKE_BYTES]))
        self.completed = True
        rest = bytes(self._data[HANDSHAKE_BYTES:])
        # A connection lives long: it doesn't keep what only the handshake needed.
        self._data = bytearray()
        self._part1 = self._digest = b""
        return answer, rest

    def _check_version(self) -> None:
        raise NotImplementedError

    def _answer(self, part1: bytes) -> bytes:
        """What is sent when the peer's first part is there."""
        raise NotImplementedError

    def _find_digest(self, part1: bytes) -> FoundDigest | None:
        """The peer's digest, if it has one that verifies. Kept in `proof`."""
        if part1[4:8] == SIMPLE:
            return None
        found = find_digest(part1, self.peer)
        self.proof = Proof.VERIFIED if found else Proof.WRONG
        return found

    def _sign(self, version: bytes, scheme: Scheme) -> None:
        part = self._part1[:4] + version + self._part1[8:]
        self._part1, self._digest = sign_part(part, scheme, self.own)

    def _echo(self, part1: bytes, found: FoundDigest | None) -> bytes:
        """C2 or S2, signed if the peer's part was.

        Time2 is the reading of our clock, which starts at our epoch, when the peer's part came: it is that epoch.
        """
        echo = part1[:4] + self._time + part1[8:]
        return sign_answer(echo, found.digest, self.own) if found else echo

    def _check_echo(self, part2: bytes) -> None:
        # Time2 is the peer's own; who copies the part whole repeats what stands there.
        plain = part2[:4] == self._part1[:4] and part2[8:] == self._part1[8:]
        self.echoed = plain or (self._digest != b"" and is_signed_answer(part2, self._digest, self.peer))


class ServerHandshake(_Handshake):
    """Answers C0 and C1 by S0, S1 and S2 at once, and waits for C2. Signs where C1 has a digest, in its scheme."""

    own = Role.SERVER
    peer = Role.CLIENT

    def _check_version(self) -> None:
        """Refuses other protocols by their first bytes. Unknown versions of RTMP are answered with ours."""
        if self.version >= FIRST_TEXT_VERSION:
            kind = "text, perhaps HTTP" if self.version < 127 else "not RTMP"
            raise RemoteProtocolError(f"the connection begins with {kind} (byte {self.version:#04x})")
        if self._data[:2] == TLS_HANDSHAKE:
            raise RemoteProtocolError("the connection begins with TLS, and this is the port for plain RTMP")

    def _answer(self, part1: bytes) -> bytes:
        found = self._find_digest(part1)
        if found:
            self._sign(SERVER_VERSION, found.scheme)
        return bytes((VERSION,)) + self._part1 + self._echo(part1, found)


class ClientHandshake(_Handshake):
    """Sends C0 and C1, then C2 when S1 is there."""

    own = Role.CLIENT
    peer = Role.SERVER

    def __init__(self, nonce: bytes, epoch_ms: int, scheme: Scheme | None = None) -> None:
        """`scheme`: send a digest, and check the server's if it sends one. A wrong one ends nothing: see `proof`."""
        super().__init__(nonce, epoch_ms)
        self._scheme = scheme

    def begin(self) -> bytes:
        if self._scheme:
            self._sign(CLIENT_VERSION, self._scheme)
        return bytes((VERSION,)) + self._part1

    def _check_version(self) -> None:
        if self.version != VERSION:
            raise RemoteProtocolError(f"the server chose version {self.version}")

    def _answer(self, part1: bytes) -> bytes:
        return self._echo(part1, self._find_digest(part1) if self._scheme else None)

    def _check_echo(self, part2: bytes) -> None:
        super()._check_echo(part2)
        if self.proof is Proof.VERIFIED and not is_signed_answer(part2, self._digest, self.peer):
            self.proof = Proof.WRONG
