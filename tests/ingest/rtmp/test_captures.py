"""What real encoders and players sent, replayed against the server's end of a connection."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ingest.rtmp import RemoteProtocolError, ServerConnection, amf0, events
from tests.ingest.rtmp.pair import SERVER_NONCE, accept
from tests.rtmpdecode import decode_stream

CAPTURES = Path(__file__).parents[2] / "captures"
RECORDINGS = json.loads((CAPTURES / "recordings.json").read_text())
NAMES = [recording["name"] for recording in RECORDINGS]

AUDIO, VIDEO, DATA = 8, 9, 18


def read(name: str) -> bytes:
    return (CAPTURES / f"{name}.c2s.bin").read_bytes()


def replay(pieces: Iterator[bytes]) -> tuple[ServerConnection, list[Any], bytes]:
    """The server's end after it was given the pieces and said yes to all requests; its events, and what it sent."""
    server = ServerConnection(nonce=SERVER_NONCE)
    happened: list[Any] = []
    sent = b""
    for piece in pieces:
        found = server.receive_data(piece)
        while found:
            happened += found
            for event in found:
                accept(server, event)
            found = server.events()
        sent += server.data_to_send()
    return server, happened, sent


def whole(data: bytes) -> Iterator[bytes]:
    yield data


def single_bytes(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


def random_pieces(data: bytes, seed: str) -> Iterator[bytes]:
    random = Random(seed)
    at = 0
    while at < len(data):
        size = random.choice((1, 2, 3, 11, 127, 128, 129, 1448, 4096, 65536))
        yield data[at : at + size]
        at += size


def media_of(happened: list[Any]) -> list[tuple[int, int, int, bytes]]:
    types = {events.AudioReceived: AUDIO, events.VideoReceived: VIDEO, events.DataReceived: DATA}
    return [
        (types[type(event)], event.timestamp, event.stream_id, event.payload)
        for event in happened
        if type(event) in types
    ]


def expected_media(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """By the independent decoder. These clients all send metadata as `@setDataFrame`, which is not relayed."""
    prefix = b"\x02\x00\x0d@setDataFrame"
    return [
        (message.type_id, message.timestamp, message.stream_id, message.payload.removeprefix(prefix))
        for message in decode_stream(data)
        if message.type_id in (AUDIO, VIDEO, DATA)
    ]


@pytest.mark.parametrize("recording", RECORDINGS, ids=NAMES)
def test_replays_without_an_error(recording: dict[str, Any]) -> None:
    data = read(recording["name"])
    server, happened, _ = replay(whole(data))
    media = media_of(happened)
    assert media == expected_media(data)
    counts = Counter(kind for kind, *_ in media)
    assert (counts[AUDIO], counts[VIDEO], counts[DATA]) == (recording["audio"], recording["video"], recording["data"])
    kinds = Counter(type(event) for event in happened)
    assert kinds[events.ConnectRequested] == 1
    assert kinds[events.PublishRequested] == recording["publishes"]
    assert kinds[events.PlayRequested] == recording["plays"]
    assert kinds[events.UnknownMessage] == 0
    assert not server.paused
    assert server.ignored_messages == 0
    assert server.bytes_received == len(data)


@pytest.mark.parametrize("name", NAMES)
def test_the_split_makes_no_difference(name: str) -> None:
    data = read(name)
    _, happened, sent = replay(whole(data))
    for seed in ("a", "b", "c"):
        assert replay(random_pieces(data, name + seed))[1:] == (happened, sent)


@pytest.mark.parametrize(
    "name",
    [
        "ffmpeg-publish-srvchunk128",
        "ffmpeg5-publish-extts",
        "gst-rtmp2sink-publish",
        "gst-rtmpsink-publish",
        "obs-publish",
        "rtmpdump-play-acks",
    ],
)
def test_byte_at_a_time(name: str) -> None:
    data = read(name)
    _, happened, sent = replay(whole(data))
    assert replay(single_bytes(data))[1:] == (happened, sent)


def test_a_shared_read_buffer_may_be_used_again() -> None:
    data = read("obs-publish")
    shared = bytearray(4096)

    def through_the_buffer() -> Iterator[Any]:
        for at in range(0, len(data), len(shared)):
            piece = data[at : at + len(shared)]
            shared[: len(piece)] = piece
            yield memoryview(shared)[: len(piece)]
            shared[:] = b"\xff" * len(shared)

    _, happened, _ = replay(through_the_buffer())
    assert media_of(happened) == expected_media(data)


@pytest.mark.parametrize("name", [recording["name"] for recording in RECORDINGS if recording["data"]])
def test_damaged_recordings_are_refused_or_taken(name: str) -> None:
    """Whatever is damaged, nothing but RemoteProtocolError is raised."""
    data = read(name)
    random = Random(name)
    for _ in range(30):
        damaged = bytearray(data)
        for _ in range(random.randint(1, 4)):
            # Mostly in the commands, which come first.
            at = random.randint(3073, random.choice((4000, len(data))) - 1)
            damaged[at] = random.choice((0, 0xFF, random.randrange(256)))
        if random.random() < 0.3:
            at = random.randint(3073, len(data) - 1)
            del damaged[at : at + random.randint(1, 20)]
        try:
            replay(random_pieces(bytes(damaged), name))
        except RemoteProtocolError:
            continue


def test_names_are_never_repeated_to_the_client() -> None:
    """The recordings publish under `name?secret`; what the server sends has the public part at most."""
    for name in ("ffmpeg-publish", "gst-rtmp2sink-publish", "obs-publish"):
        _, happened, sent = replay(whole(read(name)))
        (request,) = (event for event in happened if isinstance(event, events.PublishRequested))
        secret = request.name.split("?")[1]
        assert secret.encode() not in sent
        assert secret not in repr(happened)


def test_how_each_publisher_ends() -> None:
    ends = {}
    for recording in RECORDINGS:
        if recording["video"]:
            _, happened, _ = replay(whole(read(recording["name"])))
            tail = [event for event in happened if isinstance(event, events.PublishStopped | events.StreamDeleted)]
            ends[recording["name"]] = tail
    # OBS was killed. Everybody else says FCUnpublish, then deleteStream: with the id, GStreamer with the name.
    assert ends.pop("obs-publish") == []
    assert len(ends) > 15
    for name, tail in ends.items():
        assert tail == [events.PublishStopped(1, "FCUnpublish"), events.StreamDeleted(1)], name


def test_metadata_of_a_recording() -> None:
    _, happened, _ = replay(whole(read("ffmpeg-publish")))
    (data,) = (event for event in happened if isinstance(event, events.DataReceived))
    assert data.name == "onMetaData"
    assert isinstance(data.values[0], amf0.EcmaArray)
    assert (data.values[0]["width"], data.values[0]["height"], data.values[0]["framerate"]) == (320.0, 180.0, 15.0)


def test_play_requests_of_the_recorded_players() -> None:
    """Live players ask in several units: FFmpeg in thousandths, GStreamer as the specification says."""
    starts = {}
    for name in ("ffmpeg-play", "rtmpdump-play", "gst-rtmp2src-play", "gst-rtmpsrc-play", "rtmpdump-play-vod-start"):
        _, happened, _ = replay(whole(read(name)))
        (request,) = (event for event in happened if isinstance(event, events.PlayRequested))
        starts[name] = (request.start, request.duration)
    assert starts == {
        "ffmpeg-play": (-2.0, -1.0),
        "rtmpdump-play": (-1.0, -1.0),
        "gst-rtmp2src-play": (-2.0, -1.0),
        "gst-rtmpsrc-play": (-1.0, -1.0),
        "rtmpdump-play-vod-start": (10000.0, 3000.0),
    }
