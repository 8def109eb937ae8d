"""What the kernel knows of a TCP connection (Linux: `struct tcp_info`, linux/tcp.h)."""

import fcntl
import socket
import struct
import sys
import termios
from typing import NamedTuple

# 8 one-byte fields, then u32s: rto, ato, snd_mss, rcv_mss, unacked, sacked, lost, retrans, fackets, last_data_sent,
# last_ack_sent, last_data_recv, last_ack_recv, pmtu, rcv_ssthresh, rtt, rttvar, snd_ssthresh, snd_cwnd, advmss,
# reordering, rcv_rtt, rcv_space, total_retrans; u64s: pacing_rate, max_pacing_rate, bytes_acked.
_LAYOUT = struct.Struct("=68xI28xI16xQ")
"""rtt, total_retrans and bytes_acked."""
_COUNT = struct.Struct("=i")


class TcpInfo(NamedTuple):
    rtt_ms: float | None
    """The smoothed round-trip time."""
    retransmits: int | None
    """Segments sent again since the connection began."""
    acknowledged_bytes: int = 0
    """What the peer's kernel has taken since then; 0 where nobody knows."""


UNKNOWN = TcpInfo(None, None)
TELLS_ROUND_TRIPS = sys.platform == "linux"


def tcp_info(connection: socket.socket | None) -> TcpInfo:
    """UNKNOWN for a closed socket and on systems other than Linux."""
    if connection is None or not TELLS_ROUND_TRIPS:
        return UNKNOWN
    try:
        found = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAYOUT.size)
    except OSError:
        return UNKNOWN
    if len(found) < _LAYOUT.size:
        return UNKNOWN
    rtt_us, retransmits, acknowledged_bytes = _LAYOUT.unpack_from(found)
    return TcpInfo(rtt_us / 1000, retransmits, acknowledged_bytes)


def undelivered_bytes(connection: socket.socket | None) -> int:
    """What the kernel holds that the peer's kernel has not acknowledged; 0 too where it does not tell."""
    if connection is None:
        return 0
    try:
        found = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(_COUNT.size))
    except (OSError, ValueError):  # ValueError: it is closed.
        return 0
    waiting: int = _COUNT.unpack(found)[0]
    return waiting
