"""The handshake (RTMP 1.0, section 5.2): C0, C1, C2 from the client, S0, S1, S2 from the server.

    C0, S0  version (1 byte)
    C1, S1  time (4), zero (4), random (1528)
    C2, S2  the peer's time (4), time2 (4), the peer's random bytes (1528)

Flash Player 9 and later, FFmpeg and librtmp put their version where the zero is, and a digest among the random bytes:
see `digest`. C2 and S2 are never judged: common clients fill them in ways of their own.
"""

from ingest.rtmp.handshake.digest import Scheme
from ingest.rtmp.handshake.ends import (
    HANDSHAKE_BYTES,
    NONCE_BYTES,
    PART_BYTES,
    VERSION,
    ClientHandshake,
    Proof,
    ServerHandshake,
)

__all__ = [
    "HANDSHAKE_BYTES",
    "NONCE_BYTES",
    "PART_BYTES",
    "VERSION",
    "ClientHandshake",
    "Proof",
    "Scheme",
    "ServerHandshake",
]
