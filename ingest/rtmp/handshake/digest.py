"""The handshake with digests. It stands in no specification: Flash Player 9 began it, for H.264 and AAC.

    C1, S1  time (4), version (4, not zero), random bytes with a digest (32) among them
    C2, S2  random (1504), signature of them (32), made with the digest of the part that is answered

    digest     HMAC-SHA256(the end's name, the part without its digest)
    signature  HMAC-SHA256(HMAC-SHA256(the end's name and SALT, the peer's digest), the first 1504 bytes)

Four bytes of the part tell where its digest stands. Which four, is the scheme: two are in use, and a server answers in
the client's. The digests prove nothing, as everybody knows the keys, but clients go by them.
"""

import hmac
from enum import Enum
from typing import Final, NamedTuple

DIGEST_BYTES: Final = 32
PLACES: Final = 728
"""How many places a digest may have within its half of a part."""

SALT: Final = bytes.fromhex("F0EEC24A8068BEE82E00D0D1029E7E576EEC5D2D29806FAB93B8E636CFEB31AE")


class Scheme(Enum):
    """The half of a part that has the digest; the other one has a key for encryption (RTMPE).

    The value is where the four bytes stand whose sum gives the place. What clients use most comes first.
    """

    DIGEST_FIRST = 8
    KEY_FIRST = 772


class End(Enum):
    """The name with which an end makes its digest."""

    CLIENT = b"Genuine Adobe Flash Player 001"
    SERVER = b"Genuine Adobe Flash Media Server 001"


class Found(NamedTuple):
    scheme: Scheme
    digest: bytes


def find(part: bytes, end: End) -> Found | None:
    """The digest of C1 or S1, if it verifies under a scheme. One or two HMACs over 1.5 kB."""
    for scheme in Scheme:
        at = _place(part, scheme)
        if _digest(part, at, end) == part[at : at + DIGEST_BYTES]:
            return Found(scheme, part[at : at + DIGEST_BYTES])
    return None


def sign(part: bytes, scheme: Scheme, end: End) -> tuple[bytes, bytes]:
    """C1 or S1 with its digest in place, and that digest."""
    at = _place(part, scheme)
    made = _digest(part, at, end)
    return part[:at] + made + part[at + DIGEST_BYTES :], made


def seal(part: bytes, digest: bytes, end: End) -> bytes:
    """C2 or S2: the part with its last bytes replaced by the signature that answers the peer's digest."""
    return part[:-DIGEST_BYTES] + _signature(part, digest, end)


def is_sealed(part: bytes, digest: bytes, end: End) -> bool:
    """Whether C2 or S2 of that end answers our digest."""
    return part[-DIGEST_BYTES:] == _signature(part, digest, end)


def _place(part: bytes, scheme: Scheme) -> int:
    base = scheme.value
    return sum(part[base : base + 4]) % PLACES + base + 4


def _digest(part: bytes, at: int, end: End) -> bytes:
    return hmac.digest(end.value, part[:at] + part[at + DIGEST_BYTES :], "sha256")


def _signature(part: bytes, digest: bytes, end: End) -> bytes:
    key = hmac.digest(end.value + SALT, digest, "sha256")
    return hmac.digest(key, part[:-DIGEST_BYTES], "sha256")
