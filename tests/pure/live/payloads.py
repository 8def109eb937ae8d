"""FLV tag bodies written bit by bit, a reader of what players get, and a stream under test."""

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


class Bits:
    """Writes bits, most significant first."""

    def __init__(self) -> None:
        self.text = ""

    def u(self, count: int, value: int) -> "Bits":
        self.text += format(value, f"0{count}b") if count else ""
        return self

    def ue(self, value: int) -> "Bits":
        digits = format(value + 1, "b")
        self.text += "0" * (len(digits) - 1) + digits
        return self

    def se(self, value: int) -> "Bits":
        return self.ue(2 * value - 1 if value > 0 else -2 * value)

    def to_bytes(self) -> bytes:
        padded = self.text + "1"
        padded += "0" * (-len(padded) % 8)
        return int(padded, 2).to_bytes(len(padded) // 8, "big")


def sps(
    *,
    width_mbs: int,
    height_units: int,
    profile: int = 100,
    constraints: int = 0,
    level: int = 40,
    crop: tuple[int, int, int, int] | None = None,
    frame_mbs_only: bool = True,
    chroma: int = 1,
    scaling: bool = False,
    set_id: int = 0,
) -> bytes:
    """A sequence parameter set with its NAL header, emulation prevention included."""
    bits = Bits().u(8, profile).u(8, constraints).u(8, level).ue(set_id)
    if profile >= 100:
        bits.ue(chroma)
        if chroma == 3:
            bits.u(1, 0)
        bits.ue(0).ue(0).u(1, 0).u(1, int(scaling))
        if scaling:
            # One list that ends at once (8 - 8 = 0), one of 16 differences of 0; the others are not given.
            bits.u(1, 1).se(-8).u(1, 1)
            for _ in range(16):
                bits.se(0)
            bits.u(6 if chroma != 3 else 10, 0)
    bits.ue(0).ue(0).ue(4)  # Frame numbers, picture order by its type 0.
    bits.ue(3).u(1, 0).ue(width_mbs - 1).ue(height_units - 1).u(1, int(frame_mbs_only))
    if not frame_mbs_only:
        bits.u(1, 0)
    bits.u(1, 1)
    bits.u(1, 1 if crop else 0)
    for edge in crop or ():
        bits.ue(edge)
    bits.u(1, 0)
    raw = bits.to_bytes()
    protected, zeros = b"", 0
    for byte in raw:
        if zeros >= 2 and byte <= 3:
            protected += b"\x03"
            zeros = 0
        protected += bytes((byte,))
        zeros = zeros + 1 if byte == 0 else 0
    return b"\x67" + protected


def avc_header(parameter_set: bytes | None = None) -> bytes:
    """An AVC sequence header, of 1920x1080 High 4.0 unless it is told otherwise."""
    if parameter_set is None:
        parameter_set = sps(width_mbs=120, height_units=68, crop=(0, 0, 0, 4))
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
    """Whole messages, each under a type 0 header (RTMP 1.0, section 5.3.1.2.1)."""
    found = []
    at = 0
    for decoded in decode_stream(data, 0, chunk_size):
        message = Sent(decoded.type_id, decoded.timestamp, decoded.stream_id, decoded.payload)
        assert data[at : decoded.end] == chunked(message, data[at] & 63, chunk_size), "each message stands for itself"
        found.append(message)
        at = decoded.end
    assert at == len(data)
    return found


class Player:
    """A subscriber that reads all that it is given."""

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
    }
    allowed.update(limits)  # type: ignore[typeddict-item]
    return Publisher(
        session_id=session_id,
        address="192.0.2.7",
        encoder="test encoder",
        labels=LABELS,
        limits=allowed,
        started=START_WALL,
    )


def send_headers(stream: LiveStream, now: float = 0.0) -> None:
    """In the order of OBS: metadata, audio, video."""
    stream.data(0, "onMetaData", [{"width": 1920.0}], METADATA, now)
    stream.audio(0, AAC_HEADER, now)
    stream.video(0, AVC_HEADER, now)


def relay(stream: LiveStream, *frames: tuple[int, bytes], now: float | None = None) -> None:
    """Sound and picture, each with its timestamp (ms): they come `now`, or else at that time."""
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
    """And a player that has got the headers."""
    stream = on_air(settings)
    player = Player(stream)
    player.read()
    return stream, player


def session(stream: LiveStream) -> Publication:
    """Which publishes the stream now."""
    assert stream.publication is not None
    return stream.publication


class Socket:
    """Figures of a connection that a test sets."""

    def __init__(self, received: int = 0) -> None:
        self.figures = SocketFigures(received)

    def __call__(self) -> SocketFigures:
        return self.figures
