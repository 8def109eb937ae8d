"""The simple handshake, and what comes to the port that is not RTMP."""

from random import Random

import pytest

from ingest.rtmp import ClientConnection, LocalProtocolError, Phase, RemoteProtocolError, ServerConnection, events
from tests.ingest.rtmp.pair import CLIENT_NONCE, SERVER_NONCE, ConnectionPair

C1 = bytes.fromhex("01020304 00000000") + Random(3).randbytes(1528)
C2 = bytes(1536)


def server(epoch_ms: int = 0) -> ServerConnection:
    return ServerConnection(nonce=SERVER_NONCE, epoch_ms=epoch_ms)


def phase(connection: ServerConnection) -> Phase:
    return connection.phase


def test_the_server_answers_once_c1_is_whole() -> None:
    connection = server()
    assert connection.receive_data(b"\x03" + C1[:-1]) == []
    assert connection.data_to_send() == b""
    assert connection.receive_data(C1[-1:]) == []
    answer = connection.data_to_send()
    assert answer == b"\x03" + bytes(8) + SERVER_NONCE + C1
    assert phase(connection) is Phase.HANDSHAKE
    assert connection.receive_data(C2) == [events.HandshakeCompleted(3)]
    assert phase(connection) is Phase.CONNECTING
    assert connection.data_to_send() == b""


def test_s1_and_s2_carry_the_epoch() -> None:
    connection = server(epoch_ms=0x0A0B0C0D)
    connection.receive_data(b"\x03" + C1)
    answer = connection.data_to_send()
    assert answer[1:9] == bytes.fromhex("0a0b0c0d 00000000")
    assert answer[1537:1545] == C1[:4] + bytes.fromhex("0a0b0c0d")
    assert answer[1545:] == C1[8:]


@pytest.mark.parametrize("c2", [bytes(1536), b"\xff" * 1536, Random(4).randbytes(1536)], ids=["zero", "ones", "random"])
def test_c2_is_never_judged(c2: bytes) -> None:
    connection = server()
    assert connection.receive_data(b"\x03" + C1 + c2) == [events.HandshakeCompleted(3)]


@pytest.mark.parametrize("version", [0, 1, 2, 4, 6, 8, 9, 31])
def test_other_versions_are_answered_with_3(version: int) -> None:
    connection = server()
    assert connection.receive_data(bytes([version]) + C1 + C2) == [events.HandshakeCompleted(version)]
    assert connection.data_to_send()[0] == 3


def test_a_c1_with_a_version_and_no_digest_is_echoed() -> None:
    c1 = C1[:4] + bytes.fromhex("09007c02") + C1[8:]
    connection = server()
    connection.receive_data(b"\x03" + c1)
    assert connection.data_to_send() == b"\x03" + bytes(8) + SERVER_NONCE + c1[:4] + bytes(4) + c1[8:]


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"POST /fcs/ident2 HTTP/1.1\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "TLS"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "text"),
        (b"\x80\x2e\x01", "not RTMP"),
        (b"\xff", "not RTMP"),
        (b" ", "text"),
    ],
)
def test_other_protocols_are_refused_at_once(first: bytes, words: str) -> None:
    connection = server()
    with pytest.raises(RemoteProtocolError, match=words):
        connection.receive_data(first)
    assert phase(connection) is Phase.CLOSED
    assert connection.data_to_send() == b""
    assert connection.receive_data(b"more") == []


def test_tls_is_recognised_by_its_second_byte() -> None:
    connection = server()
    assert connection.receive_data(b"\x16") == []
    with pytest.raises(RemoteProtocolError, match="TLS"):
        connection.receive_data(b"\x03")


def test_what_follows_c2_is_processed_at_once() -> None:
    pair = ConnectionPair()
    pair.run()
    pair.client.connect("live", "rtmp://127.0.0.1/live")
    connect = pair.client.data_to_send()
    found = server().receive_data(b"\x03" + C1 + C2 + connect)
    assert [type(event) for event in found] == [events.HandshakeCompleted, events.ConnectRequested]


def test_byte_by_byte() -> None:
    connection = server()
    data = b"\x03" + C1 + C2
    found = [event for at in range(len(data)) for event in connection.receive_data(data[at : at + 1])]
    assert found == [events.HandshakeCompleted(3)]
    assert connection.bytes_received == len(data)


def test_garbage_after_the_handshake() -> None:
    connection = server()
    connection.receive_data(b"\x03" + C1 + C2)
    with pytest.raises(RemoteProtocolError):
        connection.receive_data(b"\xff" * 100)
    assert phase(connection) is Phase.CLOSED


class TestClient:
    def test_it_begins_by_itself(self) -> None:
        connection = ClientConnection(nonce=CLIENT_NONCE, epoch_ms=5)
        assert connection.data_to_send() == b"\x03\x00\x00\x00\x05\x00\x00\x00\x00" + CLIENT_NONCE

    def test_it_sends_c2_when_s1_is_there_and_waits_for_s2(self) -> None:
        connection = ClientConnection(nonce=CLIENT_NONCE)
        connection.data_to_send()
        assert connection.receive_data(b"\x03" + C1) == []
        assert connection.data_to_send() == C1
        assert connection.receive_data(bytes(1535)) == []
        assert connection.receive_data(bytes(1)) == [events.HandshakeCompleted(3)]

    def test_a_server_of_another_version(self) -> None:
        connection = ClientConnection(nonce=CLIENT_NONCE)
        with pytest.raises(RemoteProtocolError):
            connection.receive_data(b"\x06")


@pytest.mark.parametrize("size", [0, 1527, 1529])
def test_the_nonce_has_1528_bytes(size: int) -> None:
    with pytest.raises(LocalProtocolError):
        ServerConnection(nonce=bytes(size))
