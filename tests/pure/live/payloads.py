"""FLV tag bodies, a reader of the messages that players get, and a stream under test."""

from typing import Any

from ingest.contracts import Labels, PublishLimits
from ingest.live import LiveSettings, LiveStream, Publisher, QueueLimits, Registry, SocketFigures, Subscriber
from ingest.live.message import ALL_EXTENSIONS
from ingest.live.publication import Publication
from tests.pure.rtmp.wire import Sent, chunked
from tests.rtmpdecode import decode_stream

LABELS: Labels = {"stream": 7, "key": 9}
PATH = "live/demo"
START_WALL = 1_700_000_000.0

AAC_HEADER = bytes.fromhex("af001190")  # AAC-LC, 48 kHz, 2 channels.


HD_SPS = bytes.fromhex("67640028acca401e0089f950")
"""A sequence parameter set of 1920x1080 in High 4.0, as `sps` in tests/pure/rtmp/codecs/test_video.py writes it."""


def avc_header(parameter_set: bytes = HD_SPS) -> bytes:
    """An AVC sequence header with this parameter set and one picture parameter set."""
    record = b"\x01" + parameter_set[1:4] + b"\xff\xe1" + len(parameter_set).to_bytes(2, "big") + parameter_set
    return b"\x17\x00\x00\x00\x00" + record + b"\x01\x00\x04\x68\xee\x3c\x80"


METADATA = b"\x02\x00\x0aonMetaData\x08..."
AVC_HEADER = avc_header()
HEADERS = [METADATA, AAC_HEADER, AVC_HEADER]


def keyframe(number: int = 0, size: int = 100) -> bytes:
    return b"\x17\x01\x00\x00\x00" + number.to_bytes(4, "big").ljust(size - 5, b"k")


def inter(number: int = 0, size: int = 50) -> bytes:
    return b"\x27\x01\x00\x00\x00" + number.to_bytes(4, "big").ljust(size - 5, b"p")


def sound(number: int = 0, size: int = 20) -> bytes:
    return b"\xaf\x01" + number.to_bytes(4, "big").ljust(size - 2, b"a")


def read_chunks(data: bytes, chunk_size: int = 60000) -> list[Sent]:
    """Read whole messages, each under a type 0 header (RTMP 1.0, section 5.3.1.2.1)."""
    found = decode_stream(data, 0, chunk_size)
    at = 0
    for message in found:
        assert data[at : message.end] == chunked(message, data[at] & 63, chunk_size), "each message stands for itself"
        at = message.end
    assert at == len(data)
    return found


class Player:
    def __init__(
        self,
        stream: LiveStream,
        now: float = 0.0,
        *,
        stream_id: int = 1,
        limits: QueueLimits | None = None,
        takes: int = ALL_EXTENSIONS,
    ) -> None:
        self.wakes = 0
        self.subscriber = Subscriber(stream_id, limits or QueueLimits(), self._wake, session_id="player", takes=takes)
        self.stream = stream
        stream.subscribe(self.subscriber, now)

    def _wake(self, subscriber: Subscriber) -> None:
        assert subscriber is self.subscriber
        self.wakes += 1

    def read(self) -> list[Sent]:
        return read_chunks(b"".join(self.subscriber.take()))

    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.read()]


def make_stream(settings: LiveSettings | None = None) -> LiveStream:
    return make_registry(settings).get_or_create(PATH, LABELS)


def make_registry(settings: LiveSettings | None = None) -> Registry:
    return Registry("node-1", settings)


def publisher(session_id: str = "session-1", **limits: Any) -> Publisher:
    allowed: PublishLimits = {
        "max_kbps": None,
        "over_limit": "warn",
        "idle_timeout_s": 10.0,
        "first_media_timeout_s": 20.0,
        "target_kbps": None,
        "expect_audio": True,
        "expect_video": True,
        **limits,  # type: ignore[typeddict-item]
    }
    return Publisher(session_id, "192.0.2.7", "test encoder", LABELS, allowed, START_WALL)


def send_headers(stream: LiveStream, now: float = 0.0) -> None:
    """Send metadata, audio and video headers, in the order of OBS."""
    stream.data(0, "onMetaData", [{"width": 1920.0}], METADATA, now)
    stream.audio(0, AAC_HEADER, now)
    stream.video(0, AVC_HEADER, now)


def relay(stream: LiveStream, *frames: tuple[int, bytes], now: float | None = None) -> None:
    """Relay audio and video, each with its timestamp in ms. They arrive `now`, or at that time."""
    for timestamp, payload in frames:
        take = stream.audio if payload.startswith(b"\xaf") else stream.video
        take(timestamp, payload, timestamp / 1000 if now is None else now)


def started(settings: LiveSettings | None = None, **limits: Any) -> LiveStream:
    stream = make_stream(settings)
    stream.start(publisher(**limits), 0.0)
    return stream


def on_air(settings: LiveSettings | None = None) -> LiveStream:
    stream = started(settings)
    send_headers(stream)
    return stream


def watched(settings: LiveSettings | None = None) -> tuple[LiveStream, Player]:
    """A stream that is on the air, and a player that has read the headers."""
    stream = on_air(settings)
    player = Player(stream)
    player.read()
    return stream, player


def session(stream: LiveStream) -> Publication:
    assert stream.publication is not None
    return stream.publication


class Socket:
    """Figures of a connection that a test sets."""

    def __init__(self, received: int = 0) -> None:
        self.figures = SocketFigures(received)

    def __call__(self) -> SocketFigures:
        return self.figures
