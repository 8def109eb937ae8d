"""The handshake, simple and with digests, which an independent checker and recordings of other programs judge."""

import hashlib
import hmac
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.rtmp import ClientConnection, LocalProtocolError, Phase, RemoteProtocolError, ServerConnection, events
from ingest.rtmp.handshake import ServerHandshake
from tests.pure.rtmp.pair import CLIENT_NONCE, SERVER_NONCE, ConnectionPair
from tests.recordings import NAMES, from_client

# --- An independent checker of digests: it shares nothing with the code under test, not even its keys ---

TAIL = bytes.fromhex("F0EEC24A8068BEE82E00D0D1029E7E576EEC5D2D29806FAB93B8E636CFEB31AE")
PLAYER = b"Genuine Adobe Flash Player 001"
SERVER = b"Genuine Adobe Flash Media Server 001"
BASES = {"schema0 (digest in 2nd half)": 772, "schema1 (digest in 1st half)": 8}


def mac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


def find_digest(part: bytes, key: bytes) -> tuple[str, int]:
    """The schema whose digest verifies, and where the digest stands; ("", 0) if none does."""
    for name, base in BASES.items():
        offset = sum(part[base : base + 4]) % 728 + base + 4
        if mac(key, part[:offset] + part[offset + 32 :]) == part[offset : offset + 32]:
            return name, offset
    return "", 0


def add_digest(part: bytes, key: bytes, base: int) -> bytes:
    """The part with its digest put where the four bytes at `base` say."""
    offset = sum(part[base : base + 4]) % 728 + base + 4
    return part[:offset] + mac(key, part[:offset] + part[offset + 32 :]) + part[offset + 32 :]


def add_signature(part: bytes, key: bytes, digest: bytes) -> bytes:
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
    c1_schema, c1_at = find_digest(c1, PLAYER)
    s1_schema, s1_at = find_digest(s1, SERVER)
    return Verdict(
        c1_schema,
        s1_schema,
        bool(c1_schema) and s2 == add_signature(s2, SERVER, c1[c1_at : c1_at + 32]),
        bool(s1_schema) and c2 == add_signature(c2, PLAYER, s1[s1_at : s1_at + 32]),
    )


# --- Tests ---

C1 = bytes.fromhex("01020304 00000000") + Random(3).randbytes(1528)
C2 = bytes(1536)


@pytest.fixture
def server() -> ServerConnection:
    return ServerConnection(nonce=SERVER_NONCE)


def phase(connection: ServerConnection) -> Phase:
    return connection.phase


def test_the_server_answers_once_c1_is_whole(server: ServerConnection) -> None:
    assert server.receive_data(b"\x03" + C1[:-1]) == []
    assert server.data_to_send() == b""
    assert server.receive_data(C1[-1:]) == []
    answer = server.data_to_send()
    assert answer == b"\x03" + bytes(8) + SERVER_NONCE + C1
    assert phase(server) is Phase.HANDSHAKE
    assert server.receive_data(C2) == [events.HandshakeCompleted(3)]
    assert phase(server) is Phase.CONNECTING
    assert server.data_to_send() == b""


def test_s1_and_s2_carry_the_epoch() -> None:
    answer = answer_to(b"\x03" + C1, epoch_ms=0x0A0B0C0D)
    assert answer[1:9] == bytes.fromhex("0a0b0c0d 00000000")
    assert answer[1537:1545] == C1[:4] + bytes.fromhex("0a0b0c0d")
    assert answer[1545:] == C1[8:]


@pytest.mark.parametrize("c2", [bytes(1536), b"\xff" * 1536, Random(4).randbytes(1536)], ids=["zero", "ones", "random"])
def test_c2_is_never_checked(server: ServerConnection, c2: bytes) -> None:
    assert server.receive_data(b"\x03" + C1 + c2) == [events.HandshakeCompleted(3)]


def test_version_is_0_until_the_first_byte_has_come() -> None:
    handshake = ServerHandshake(SERVER_NONCE, 0)
    assert (handshake.receive(b""), handshake.version) == ((b"", b""), 0)
    handshake.receive(b"\x03")
    assert handshake.version == 3


@pytest.mark.parametrize("version", [0, 1, 2, 4, 6, 8, 9, 31])
def test_other_versions_are_answered_with_3(server: ServerConnection, version: int) -> None:
    assert server.receive_data(bytes([version]) + C1 + C2) == [events.HandshakeCompleted(version)]
    assert server.data_to_send()[0] == 3


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
def test_other_protocols_are_refused_at_once(server: ServerConnection, first: bytes, words: str) -> None:
    with pytest.raises(RemoteProtocolError, match=words):
        server.receive_data(first)
    assert phase(server) is Phase.CLOSED
    assert server.data_to_send() == b""
    assert server.receive_data(b"more") == []


def test_tls_is_recognised_by_its_second_byte(server: ServerConnection) -> None:
    assert server.receive_data(b"\x16") == []
    with pytest.raises(RemoteProtocolError, match="TLS"):
        server.receive_data(b"\x03")


def test_bytes_after_c2_are_processed_at_once(server: ServerConnection, unconnected: ConnectionPair) -> None:
    unconnected.client.connect("live", "rtmp://127.0.0.1/live")
    found = server.receive_data(b"\x03" + C1 + C2 + unconnected.client.data_to_send())
    assert [type(event) for event in found] == [events.HandshakeCompleted, events.ConnectRequested]


def test_garbage_after_the_handshake_closes_the_connection(server: ServerConnection) -> None:
    server.receive_data(b"\x03" + C1 + C2)
    with pytest.raises(RemoteProtocolError):
        server.receive_data(b"\xff" * 100)
    assert phase(server) is Phase.CLOSED


class TestSimpleClient:
    def test_client_sends_c0_and_c1_unasked(self) -> None:
        connection = ClientConnection(nonce=CLIENT_NONCE, epoch_ms=5)
        assert connection.data_to_send() == b"\x03\x00\x00\x00\x05\x00\x00\x00\x00" + CLIENT_NONCE

    def test_client_sends_c2_upon_s1_and_completes_upon_s2(self) -> None:
        connection = ClientConnection(nonce=CLIENT_NONCE)
        connection.data_to_send()
        assert connection.receive_data(b"\x03" + C1) == []
        assert connection.data_to_send() == C1
        assert connection.receive_data(bytes(1535)) == []
        assert connection.receive_data(bytes(1)) == [events.HandshakeCompleted(3)]

    def test_client_refuses_a_server_of_another_version(self) -> None:
        connection = ClientConnection(nonce=CLIENT_NONCE)
        with pytest.raises(RemoteProtocolError):
            connection.receive_data(b"\x06")


@pytest.mark.parametrize("size", [0, 1527, 1529])
def test_the_nonce_has_1528_bytes(size: int) -> None:
    with pytest.raises(LocalProtocolError):
        ServerConnection(nonce=bytes(size))


SCHEMA1 = list(BASES)[1]

PLACES = [b"\x00\x00\x00\x00", b"\xff\xff\xd9\x00", b"\xff\xff\xda\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x01"]
"""First place, last one, around once (728), the largest sum, the second place."""

RECORDED = [name for name in NAMES if name.startswith(("ffmpeg", "rtmpdump-play-digest"))]


def c1_with_digest(base: int, place: bytes, version: bytes = b"\x09\x00\x7c\x02") -> bytes:
    part = bytearray(b"\x00\x00\x12\x34" + version + Random(6).randbytes(1528))
    part[base : base + 4] = place
    return add_digest(bytes(part), PLAYER, base)


def answer_to(c0_c1: bytes, epoch_ms: int = 0) -> bytes:
    connection = ServerConnection(nonce=SERVER_NONCE, epoch_ms=epoch_ms)
    assert connection.receive_data(c0_c1) == []
    return connection.data_to_send()


class TestDigest:
    @pytest.mark.parametrize("place", PLACES, ids=bytes.hex)
    @pytest.mark.parametrize("schema", BASES)
    def test_a_c1_with_a_digest_is_answered_in_its_scheme(self, schema: str, place: bytes) -> None:
        c1 = c1_with_digest(BASES[schema], place)
        answer = answer_to(b"\x03" + c1, epoch_ms=0x01020304)
        assert len(answer) == 3073
        assert answer[:9] == bytes.fromhex("03 01020304 04050001")
        assert verdict(b"\x03" + c1 + bytes(1536), answer) == Verdict(schema, schema, True, False)
        assert answer[1537:1545] == c1[:4] + bytes.fromhex("01020304")

    def test_s1_keeps_its_random_bytes_but_for_the_digest(self) -> None:
        answer = answer_to(b"\x03" + c1_with_digest(8, PLACES[1]))
        s1 = answer[1:1537]
        _, at = find_digest(s1, SERVER)
        assert s1[8:at] + s1[at + 32 :] == SERVER_NONCE[: at - 8] + SERVER_NONCE[at + 24 :]

    @pytest.mark.parametrize("schema", BASES)
    @pytest.mark.parametrize("broken", [0, 5, 700, 1535])
    def test_a_c1_whose_digest_is_wrong_is_echoed(self, schema: str, broken: int) -> None:
        c1 = bytearray(c1_with_digest(BASES[schema], PLACES[2]))
        c1[broken] ^= 1
        answer = answer_to(b"\x03" + c1)
        assert answer == b"\x03" + bytes(8) + SERVER_NONCE + c1[:4] + bytes(4) + c1[8:]

    def test_c1_that_announces_no_digest_is_echoed_even_if_it_has_one(self) -> None:
        c1 = c1_with_digest(8, PLACES[0], version=bytes(4))
        assert answer_to(b"\x03" + c1) == b"\x03" + bytes(8) + SERVER_NONCE + c1

    def test_nothing_is_answered_before_all_of_c1_is_there(self, server: ServerConnection) -> None:
        data = b"\x03" + c1_with_digest(8, PLACES[0])
        for at in range(len(data)):
            assert server.data_to_send() == b""
            server.receive_data(data[at : at + 1])
        assert server.data_to_send() == answer_to(data)

    @pytest.mark.parametrize("name", RECORDED)
    def test_recorded_clients_are_answered_with_what_they_verify(self, server: ServerConnection, name: str) -> None:
        data = from_client(name)
        has_digest = data[5:9] != bytes(4)
        # Their C2 answers the S1 of another server.
        assert server.receive_data(data[:3073]) == [events.HandshakeCompleted(3, echoed=False)]
        schema = SCHEMA1 if has_digest else ""
        found = verdict(data, server.data_to_send())
        assert found == Verdict(schema, schema, has_digest, False)

    def test_most_recordings_have_a_digest(self) -> None:
        assert sum(from_client(name)[5:9] != bytes(4) for name in RECORDED) > 35


class TestEcho:
    """Whether C2 shows that it was sent after S1 had come, so that the time between them is a round trip."""

    @pytest.mark.parametrize("has_digest", [True, False])
    @pytest.mark.parametrize(
        ("c2_of", "echoed"),
        [
            ("copy", True),
            ("own time2", True),
            ("signed", True),
            ("signed for another", False),
            ("own time", False),
            ("zero", False),
        ],
    )
    def test_c2_counts_as_echo_only_if_it_answers_s1(self, has_digest: bool, c2_of: str, echoed: bool) -> None:
        connection = ServerConnection(nonce=SERVER_NONCE, epoch_ms=77)
        connection.receive_data(b"\x03" + (c1_with_digest(8, PLACES[0]) if has_digest else bytes(1536)))
        s1 = connection.data_to_send()[1:1537]
        _, at = find_digest(s1, SERVER)
        c2 = {
            "copy": s1,
            "own time2": s1[:4] + b"\x00\x00\x01\x02" + s1[8:],
            "signed": add_signature(bytes(1536), PLAYER, s1[at : at + 32]),
            "signed for another": add_signature(bytes(1536), PLAYER, bytes(32)),
            "own time": b"\x00\x00\x00\x78" + s1[4:],
            "zero": bytes(1536),
        }[c2_of]
        told = echoed and (has_digest or c2_of != "signed")  # After the simple handshake none is signed.
        assert connection.receive_data(c2) == [events.HandshakeCompleted(3, told)]


class TestClient:
    def test_both_ends_answer_each_other(self) -> None:
        pair = ConnectionPair().connected()
        assert verdict(bytes(pair.to_server), bytes(pair.to_client)) == Verdict("", "", False, False)
        completed = events.HandshakeCompleted(3, echoed=True)
        assert pair.take_client(events.HandshakeCompleted) == pair.take_server(events.HandshakeCompleted) == [completed]

    def test_client_accepts_s1_without_checking_a_digest(self) -> None:
        client = ClientConnection(nonce=CLIENT_NONCE)
        sent = client.data_to_send()
        s1 = b"\x00\x00\x00\x00\x04\x05\x00\x01" + SERVER_NONCE
        assert client.receive_data(b"\x03" + s1 + sent[1:]) == [events.HandshakeCompleted(3, echoed=True)]
        assert client.data_to_send() == s1[:4] + bytes(4) + s1[8:]


parts = st.builds(
    lambda head, place, at, fill: (head + fill * 191)[:at] + place + (head + fill * 191)[at + 4 :],
    st.binary(min_size=8, max_size=8),
    st.binary(min_size=4, max_size=4),
    st.sampled_from((8, 772)),
    st.binary(min_size=8, max_size=8),
)


@given(c0=st.integers(0, 31), c1=parts, c2=parts)
@example(c0=0x16, c1=b"\x02" * 1536, c2=bytes(1536))
def test_any_bytes_are_taken_as_c1_and_c2(c0: int, c1: bytes, c2: bytes) -> None:
    if (c0, c1[0]) == (0x16, 3):
        return  # TLS.
    connection = ServerConnection(nonce=SERVER_NONCE)
    (completed,) = connection.receive_data(bytes((c0,)) + c1 + c2)
    assert isinstance(completed, events.HandshakeCompleted)
    assert len(connection.data_to_send()) == 3073


@given(s1=parts, s2=parts)
def test_any_bytes_are_taken_as_s1_and_s2(s1: bytes, s2: bytes) -> None:
    connection = ClientConnection(nonce=CLIENT_NONCE)
    (completed,) = connection.receive_data(b"\x03" + s1 + s2)
    assert isinstance(completed, events.HandshakeCompleted)
    assert len(connection.data_to_send()) == 3073
