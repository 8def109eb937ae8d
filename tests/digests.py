"""An independent checker of handshakes with digests: it shares nothing with the code under test, not even its keys."""

import hashlib
import hmac
from dataclasses import dataclass

TAIL = bytes.fromhex("F0EEC24A8068BEE82E00D0D1029E7E576EEC5D2D29806FAB93B8E636CFEB31AE")
PLAYER = b"Genuine Adobe Flash Player 001"
SERVER = b"Genuine Adobe Flash Media Server 001"
BASES = {"schema0 (digest in 2nd half)": 772, "schema1 (digest in 1st half)": 8}


def mac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


def find(part: bytes, key: bytes) -> tuple[str, int]:
    """The schema whose digest verifies, and where the digest stands; ("", 0) if none does."""
    for name, base in BASES.items():
        offset = sum(part[base : base + 4]) % 728 + base + 4
        if mac(key, part[:offset] + part[offset + 32 :]) == part[offset : offset + 32]:
            return name, offset
    return "", 0


def make(part: bytes, key: bytes, base: int) -> bytes:
    """The part with its digest put where the four bytes at `base` say."""
    offset = sum(part[base : base + 4]) % 728 + base + 4
    return part[:offset] + mac(key, part[:offset] + part[offset + 32 :]) + part[offset + 32 :]


def sign(part: bytes, key: bytes, digest: bytes) -> bytes:
    """The part with its signature put at its end."""
    return part[:1504] + mac(mac(key + TAIL, digest), part[:1504])


@dataclass
class Verdict:
    """On both sides' whole handshakes."""

    c1: str
    """The schema of C1's digest, or ""."""
    s1: str
    s2_signed: bool
    c2_signed: bool


def verdict(to_server: bytes, to_client: bytes) -> Verdict:
    """`to_server`: C0, C1, C2; `to_client`: S0, S1, S2; what follows them doesn't matter."""
    c1, c2 = to_server[1:1537], to_server[1537:3073]
    s1, s2 = to_client[1:1537], to_client[1537:3073]
    c1_schema, c1_at = find(c1, PLAYER)
    s1_schema, s1_at = find(s1, SERVER)
    return Verdict(
        c1_schema,
        s1_schema,
        bool(c1_schema) and s2 == sign(s2, SERVER, c1[c1_at : c1_at + 32]),
        bool(s1_schema) and c2 == sign(c2, PLAYER, s1[s1_at : s1_at + 32]),
    )
