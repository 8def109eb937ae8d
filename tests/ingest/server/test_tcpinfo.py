"""What the kernel tells of a connection."""

import socket
import sys

import pytest

from ingest.server.sockets import UNKNOWN, tcp_info


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is Linux's")
def test_a_loopback_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        server, _ = listener.accept()
        with server:
            client.sendall(b"x" * 1000)
            assert len(server.recv(2000)) == 1000
            found = tcp_info(client)
            assert found.rtt_ms is not None
            assert 0 < found.rtt_ms < 1000
            assert found.retransmits == 0


def test_nothing_is_known_of_a_closed_socket() -> None:
    closed = socket.socket()
    closed.close()
    assert tcp_info(closed) == UNKNOWN
    assert tcp_info(None) == UNKNOWN
