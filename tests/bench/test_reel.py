"""What publishers put on the wire: read back by the server's own protocol."""

import pytest

from bench.load.clip import Clip, Media, from_flv, synthetic
from bench.load.reel import Packet, read_stamp, reel
from bench.micro.ingest import publishing
from ingest.rtmp import Message, MessageType, ServerConnection, encode_message, events
from ingest.rtmp.chunk_writer import CSID_CONTROL

STREAM_ID = 1


@pytest.fixture(scope="module")
def clip() -> Clip:
    return synthetic(1)


@pytest.fixture(params=[128, 373, 4096, 60_000])
def chunk_size(request: pytest.FixtureRequest) -> int:
    """373: the last chunk of an audio message has fewer bytes than a stamp."""
    size: int = request.param
    return size


@pytest.fixture
def server(chunk_size: int) -> ServerConnection:
    """On it message stream 1 publishes in chunks of that size."""
    connection = publishing()
    message = Message(MessageType.SET_CHUNK_SIZE, 0, 0, chunk_size.to_bytes(4, "big"))
    connection.receive_data(encode_message(message, chunk_stream_id=CSID_CONTROL, chunk_size=128))
    return connection


def received(server: ServerConnection, data: bytes) -> list[events.AudioReceived | events.VideoReceived]:
    found = server.receive_data(data)
    return [event for event in found if isinstance(event, events.AudioReceived | events.VideoReceived)]


def test_rounds_follow_one_another(server: ServerConnection, clip: Clip, chunk_size: int) -> None:
    made = reel(clip, chunk_size, STREAM_ID)
    found = []
    for packet in made.opening + made.repeat + made.repeat:
        found += received(server, packet.data)
    wanted = [(media.timestamp, media.payload) for media in clip.headers]
    for number in range(3):
        wanted += [(number * clip.length_ms + media.timestamp, media.payload) for media in clip.frames]
    assert [(event.timestamp, event.payload) for event in found] == wanted


def test_a_stamp_is_the_end_of_the_payload_and_nothing_else(
    server: ServerConnection, clip: Clip, chunk_size: int
) -> None:
    sent_ns = 0x0102030405060708
    made = reel(clip, chunk_size, STREAM_ID)
    packets = made.opening[: len(clip.headers) + 20]
    stamped = [packet.stamped(sent_ns) if packet.stamp else packet.data for packet in packets]
    found = [event for data in stamped for event in received(server, data)]
    assert [read_stamp(event.payload) for event in found] == [None] * len(clip.headers) + [sent_ns] * 20
    for event, media in zip(found, clip.headers + clip.frames, strict=False):
        assert len(event.payload) == len(media.payload)
        assert event.payload[:-16] == media.payload[:-16]


def test_stamping_leaves_the_shared_bytes_alone(clip: Clip) -> None:
    packet: Packet = reel(clip, 4096, STREAM_ID).repeat[0]
    before = bytes(packet.data)
    assert packet.stamped(1) != before
    assert packet.data == before


@pytest.mark.parametrize("mbps", [1, 5])
def test_filler_has_the_size_and_pace_of_an_encoders_stream(mbps: float) -> None:
    made = synthetic(mbps)
    assert made.kbps == pytest.approx(mbps * 1000, rel=0.01)
    assert len(made.frames) / made.length_ms * 1000 == pytest.approx(73, abs=0.5)
    assert [media.timestamp for media in made.frames] == sorted(media.timestamp for media in made.frames)


def test_flv_is_read_as_audio_and_video() -> None:
    def tag(kind: int, timestamp: int, payload: bytes) -> bytes:
        low, high = (timestamp & 0xFFFFFF).to_bytes(3, "big"), (timestamp >> 24).to_bytes(1, "big")
        head = bytes((kind,)) + len(payload).to_bytes(3, "big") + low + high + bytes(3)
        return head + payload + (len(head) + len(payload)).to_bytes(4, "big")

    video, sound = b"\x17\x01\x00\x00\x00picture", b"\xaf\x01sound"
    file = b"FLV\x01\x05\x00\x00\x00\x09" + bytes(4)
    file += tag(18, 0, b"\x02\x00\x0aonMetaData") + tag(9, 0, b"\x17\x00header") + tag(8, 0, b"\xaf\x00header")
    file += tag(9, 0x1000010, video) + tag(8, 0x1000020, sound) + tag(9, 0x1000030, b"\x17\x02\x00\x00\x00")
    made = from_flv(file)
    assert made.headers == [Media(9, 0, b"\x17\x00header"), Media(8, 0, b"\xaf\x00header")]
    assert made.frames == [Media(9, 0x1000010, video), Media(8, 0x1000020, sound)]
