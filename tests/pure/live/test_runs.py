"""Audio and video that is taken in runs, and the same bytes message by message: whatever comes, both end up alike."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.live import LiveStream
from ingest.rtmp import Limits, RemoteProtocolError, ServerConnection, events
from ingest.rtmp.media import write_video
from ingest.rtmp.message_streams import MessageStream
from ingest.rtmp.run_reader import Run
from tests.pure.live.payloads import AAC_HEADER, Player, avc_header, inter, keyframe, session, sound, started
from tests.pure.live.test_extended import SENT
from tests.pure.rtmp.codecs.test_video import sps
from tests.pure.rtmp.pair import ConnectionPair
from tests.pure.rtmp.wire import Sender, Sent, abort, set_chunk_size

AUDIO, VIDEO, DATA = 8, 9, 18
LIMITS = Limits(media_message_bytes=200_000, chunks_per_read=400)
LINE = ("frames", "last", "dts", "gaps", "regressions", "jumped", "missing")
LEAPS = [-40, -900, 2000, 40_000, 2**31]


class OneByOne(ServerConnection):
    """Takes no runs."""

    __slots__ = ()

    def _one_publishing(self) -> MessageStream | None:
        return None


class Sink:
    def __init__(self, stream: LiveStream) -> None:
        self.stream = stream
        self.now = 0.0
        self.in_runs = 0

    def audio(self, timestamp: int, payload: bytes) -> None:
        self.stream.audio(timestamp, payload, self.now)

    def video(self, timestamp: int, payload: bytes) -> None:
        self.stream.video(timestamp, payload, self.now)

    def run(self, run: Run) -> None:
        self.in_runs += len(run.messages)
        self.stream.run(run, self.now)


class Ingest:
    """A server's connection that publishes, and its stream. `watched`: somebody plays it."""

    def __init__(self, connection: type[ServerConnection], *, watched: bool) -> None:
        self.stream = started()
        self.player = Player(self.stream) if watched else None
        self.sink = Sink(self.stream)
        pair = ConnectionPair(decide=self._decide, server_limits=LIMITS)
        pair.server.__class__ = connection
        pair.run()
        pair.client.connect("live", "rtmp://127.0.0.1/live")
        pair.run()
        pair.client.create_stream()
        pair.run()
        pair.client.publish(1, "cam")
        pair.run()
        self.server = pair.server
        self.buffer = bytearray(1 << 20)
        self.seen: list[Any] = []
        self.out = b""
        self.sent = b""

    def _decide(self, server: ServerConnection, event: Any) -> None:
        match event:
            case events.ConnectRequested():
                server.accept_connect(event.request_id)
            case events.PublishRequested():
                server.accept_publish(event.request_id, "Publishing.", public_name="cam", sink=self.sink)

    def read(self, data: bytes, now: float) -> None:
        """As the shell does it."""
        self.sink.now = now
        self.buffer[: len(data)] = data
        view = memoryview(self.buffer)[: len(data)]
        try:
            taken = self.server.take_media(view)
            if taken < len(data):
                self.seen += self.server.receive_data(view[taken:])
        except RemoteProtocolError as error:
            self.seen.append(str(error))
        self.buffer[: len(data)] = bytes(len(data))  # It is used again.
        self.out += self.server.data_to_send()
        if self.player is not None:
            self.sent += b"".join(self.player.subscriber.take())

    def state(self) -> dict[str, Any]:
        stream, meter = self.stream, session(self.stream).meter
        late = Player(stream)
        given = b"".join(late.subscriber.take())
        stream.unsubscribe(late.subscriber)
        lines = [
            (*(getattr(line, name) for name in LINE), list(line._steps))
            for line in (meter.video_line, meter.audio_line)
        ]
        return {
            "late": given,
            "sent": self.sent,
            "lines": lines,
            "counters": (meter.video_bytes, meter.audio_bytes, meter.data_bytes, meter.keyframes, meter.media_faults),
            "last": (meter.first_media, meter.last_media, meter.last_video, meter.last_audio, meter.last_keyframe),
            "intervals": list(meter.keyframe_intervals),
            "time": (stream.time.latest, stream.time.latest_arrival, stream.time.repairs),
            "media": stream.media,
            "seen": self.seen,
            "out": self.out,
            "received": (self.server.bytes_received, self.server.media_messages, self.server.phase),
        }


Odd = Callable[["Traffic"], bytes]


class Traffic:
    """What a publisher might send: mostly as it should be."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.chunk_size = 128
        self.senders = {csid: Sender(csid) for csid in (4, 6, 7, 300)}
        self.at = random.choice([0, 5, 0xFFFFFF - 300, 2**32 - 300])
        self.number = 0

    def __iter__(self) -> Iterator[bytes]:
        yield from self.begin(self.random.choice([128, 129, 1000, 4096, 60_000, 64]))
        for _ in range(self.random.randrange(20, 120)):
            yield self.step()

    def begin(self, chunk_size: int) -> Iterator[bytes]:
        yield self.resize(chunk_size)
        yield self.message(VIDEO, avc_header(), 6)
        yield self.message(AUDIO, AAC_HEADER, 4)

    def step(self) -> bytes:
        random, roll = self.random, self.random.random()
        self.at = (self.at + random.choice([0, 10, 17, 23, 33, 40])) % 2**32
        if roll < 0.42:
            return self.message(VIDEO, self.picture(), 6)
        if roll < 0.84:
            return self.message(AUDIO, sound(self.number, random.choice([20, 20, 150, 371])), 4)
        return random.choice(ODD)(self)

    def picture(self) -> bytes:
        self.number += 1
        size = self.random.choice([50, 90, 500, 3000, 20_700, 61_000])
        return keyframe(self.number, size) if self.random.random() < 0.1 else inter(self.number, size)

    def message(self, type_id: int, payload: bytes, csid: int, stream_id: int = 1) -> bytes:
        sender = self.senders[csid]
        message = Sent(type_id, self.at, stream_id, payload)
        data = sender.begin(message, self.random.choice(sender.kinds(message)), self.chunk_size)
        while sender.rest:
            data += sender.proceed(self.chunk_size)
        return data

    def resize(self, size: int) -> bytes:
        data, self.chunk_size = set_chunk_size(size, self.chunk_size), size
        return data

    def leap(self) -> bytes:
        self.at = (self.at + self.random.choice(LEAPS)) % 2**32
        return self.message(VIDEO, self.picture(), 6)

    def far_leaps(self) -> bytes:
        """By differences that need an extended timestamp, which the next header may leave out."""
        data = b""
        for _ in range(3):
            self.at = (self.at + 2**24) % 2**32
            data += self.message(AUDIO, sound(1, 40), 4)
        return data

    def interleaved(self) -> bytes:
        """Sound between the chunks of a picture."""
        video, audio = self.senders[6], self.senders[4]
        message = Sent(VIDEO, self.at, 1, inter(self.number, 3000))
        data = video.begin(message, 0, self.chunk_size)
        data += audio.begin(Sent(AUDIO, self.at, 1, sound(1, 40)), 0, self.chunk_size)
        while audio.rest:
            data += audio.proceed(self.chunk_size)
        while video.rest:
            data += video.proceed(self.chunk_size)
        return data

    def wrong_header(self) -> bytes:
        """A chunk that goes on where none is under way, or belongs to another chunk stream."""
        data = bytearray(self.message(VIDEO, inter(1, 3 * self.chunk_size if self.chunk_size < 30_000 else 50), 6))
        if self.chunk_size < 3000:
            data[-1 - self.chunk_size] ^= 1
        return bytes(data)


def odd(kind: int, payload: bytes, csid: int, stream_id: int = 1) -> Odd:
    return lambda traffic: traffic.message(kind, payload, csid, stream_id)


ODD: list[Odd] = [
    Traffic.leap,
    Traffic.far_leaps,
    Traffic.interleaved,
    lambda traffic: traffic.resize(traffic.random.choice([128, 1000, 4096, 60_000])),
    *(odd(VIDEO, avc_header(sps(width_mbs=80, height_units=height)), 6) for height in (9, 10)),
    lambda traffic: traffic.message(VIDEO, write_video(traffic.random.choice(SENT)[0]), 6),
    odd(VIDEO, b"\xa1hvc1\x00\x00\x00" + bytes(60), 7),
    odd(AUDIO, b"\x91Opus" + bytes(60), 300),
    odd(AUDIO, b"\x90OpusOpusHead\x01\x02" + bytes(9), 300),
    odd(AUDIO, b"\x2e" + bytes(60), 4),
    lambda traffic: traffic.message(AUDIO, traffic.random.randbytes(traffic.random.randrange(12)), 4),
    lambda traffic: traffic.message(VIDEO, traffic.random.randbytes(traffic.random.randrange(12)), 6),
    odd(DATA, b"\x02\x00\x0aonCuePoint\x05", 4),
    odd(VIDEO, inter(1, 60), 7, stream_id=2),
    odd(VIDEO, inter(1, 60), 300),
    lambda traffic: abort(6),
]
RARE: list[Odd] = [Traffic.wrong_header, odd(VIDEO, bytes(250_000), 6)]


def cut(random: Random, messages: list[bytes]) -> Iterator[bytes]:
    """As the socket might give it: whole messages, or anything."""
    data, manner = b"".join(messages), random.randrange(3)
    if manner == 0:
        while messages:
            count = random.randrange(1, 6)
            yield b"".join(messages[:count])
            messages = messages[count:]
    else:
        most = 40 if manner == 1 and len(data) < 100_000 else 30_000
        while data:
            size = random.randrange(1, most)
            yield data[:size]
            data = data[size:]


def compare(seed: int) -> int:
    """How many messages were taken in runs."""
    random = Random(seed)
    watched = random.random() < 0.5
    in_runs, one_by_one = (Ingest(kind, watched=watched) for kind in (ServerConnection, OneByOne))
    traffic = Traffic(random)
    messages = list(traffic)
    if random.random() < 0.3:
        messages.insert(random.randrange(len(messages)), random.choice(RARE)(traffic))
    now = 0.0
    for number, data in enumerate(cut(random, messages)):
        now += random.choice([0.0, 0.01, 0.1])
        for ingest in (in_runs, one_by_one):
            ingest.read(data, now)
            if number % 7 == 6:
                ingest.stream.tick(now, now)
    assert in_runs.state() == one_by_one.state()
    return in_runs.sink.in_runs


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_media_taken_in_runs_and_message_by_message_give_the_same_state(seed: int) -> None:
    compare(seed)


@pytest.mark.parametrize("chunk_size", [128, 4096, 60_000])
def test_a_regular_stream_is_taken_in_runs(chunk_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the headers, the first frames, and those of a message that is not whole yet."""
    looked_at = 0
    take = LiveStream.video

    def video(stream: LiveStream, timestamp: int, payload: bytes, now: float) -> None:
        nonlocal looked_at
        looked_at += 1
        take(stream, timestamp, payload, now)

    monkeypatch.setattr(LiveStream, "video", video)
    ingest = Ingest(ServerConnection, watched=False)
    traffic = Traffic(Random(1))
    data = [*traffic.begin(chunk_size), traffic.message(VIDEO, keyframe(0, 9000), 6)]
    for number in range(100):
        traffic.at += 20
        data.append(traffic.message(VIDEO, inter(number, 3000), 6))
        data.append(traffic.message(AUDIO, sound(number, 371), 4))
    whole = b"".join(data)
    reads = range(0, len(whole), 20_000)
    for at in reads:
        ingest.read(whole[at : at + 20_000], at / 1e6)
    assert ingest.sink.in_runs > 170
    assert looked_at <= len(reads) + 5, "one of each read is not whole, and the first ones are new"
    assert session(ingest.stream).meter.video_line.frames == 101
