"""What real encoders, players and servers sent, replayed against our end: all recordings, in both directions."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from ingest.rtmp import RemoteProtocolError, ServerConnection, events
from ingest.rtmp.amf import EcmaArray
from tests.pure.rtmp.replay import Replay, follow, in_pieces, raw, read_chunks, serve
from tests.recordings import NAMES, RECORDINGS, decoded, from_client, from_server
from tests.rtmp_client import decode_all
from tests.rtmpdecode import HANDSHAKE_BYTES, Raw, parts_of

SIZES = (1, 2, 3, 11, 127, 128, 129, 1448, 4096, 65536)


def whole(data: bytes) -> Iterator[bytes]:
    yield data


def random_pieces(data: bytes, seed: str | int) -> Iterator[bytes]:
    random = Random(seed)
    at = 0
    while at < len(data):
        size = random.choice(SIZES)
        yield data[at : at + size]
        at += size


SET_CHUNK_SIZE, ABORT, AUDIO, VIDEO, DATA, COMMAND_AMF3, COMMAND, AGGREGATE = 1, 2, 8, 9, 18, 17, 20, 22


# --- Chunks to messages, either direction ---


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("direction", "bytes_of"), [("up", from_client), ("down", from_server)], ids=["up", "down"])
def test_all_messages_are_those_of_the_independent_decoder(
    name: str, direction: str, bytes_of: Callable[[str], bytes]
) -> None:
    data = bytes_of(name)
    expected = raw(decoded(data))
    counted = next(recording for recording in RECORDINGS if recording["name"] == name)[direction]
    assert {str(type_id): count for type_id, count in Counter(kind for kind, *_ in expected).items()} == counted
    # The reader keeps to itself what concerns chunks alone.
    expected = [message for message in expected if message[0] not in (SET_CHUNK_SIZE, ABORT)]
    chunks = data[HANDSHAKE_BYTES:]
    assert read_chunks([chunks]) == (expected, "")
    for seed in range(3):
        assert read_chunks(random_pieces(chunks, f"{name}{seed}")) == (expected, "")


@pytest.mark.parametrize("player", ["ffmpeg5", "gst-rtmp2src", "rtmpdump"])
def test_servers_that_leave_out_the_extended_timestamp_are_read_as_those_that_repeat_it(player: str) -> None:
    """FFmpeg's and librtmp's readers lose the stream; GStreamer's and ours look for it. The same clip for all."""
    right = media_alone(decoded(from_server("gst-rtmp2src-play-extts-rep")))
    assert right[-1][1] > 0xFFFFFF
    wrong = media_alone(decoded(from_server(f"{player}-play-extts-norep")))
    assert len(wrong) > 70
    assert wrong == right[: len(wrong)]


def media_alone(messages: list[Any]) -> list[tuple[int, int, bytes]]:
    return [(kind, timestamp, payload) for kind, timestamp, _, payload in raw(messages, AUDIO, VIDEO)]


# --- The server's end ---


def replay(pieces: Iterator[bytes]) -> Replay:
    """The server's end after it was given the pieces and said yes to all requests."""
    played = serve(pieces)
    if played.error:
        raise played.error
    return played


def media_of(happened: list[Any]) -> list[Raw]:
    types = {events.AudioReceived: AUDIO, events.VideoReceived: VIDEO, events.DataReceived: DATA}
    return [
        (types[type(event)], event.timestamp, event.stream_id, event.payload)
        for event in happened
        if type(event) in types
    ]


def expected_media(data: bytes) -> list[Raw]:
    """By the independent decoder. These clients all send metadata as `@setDataFrame`, which is not relayed."""
    prefix = b"\x02\x00\x0d@setDataFrame"
    return [(*head, payload.removeprefix(prefix)) for *head, payload in raw(decoded(data), AUDIO, VIDEO, DATA)]  # type: ignore[misc]


@pytest.mark.parametrize("recording", RECORDINGS, ids=NAMES)
def test_server_replays_recorded_clients_with_all_their_media(recording: dict[str, Any]) -> None:
    data = from_client(recording["name"])
    played = replay(whole(data))
    server, happened = played.connection, played.events
    assert isinstance(server, ServerConnection)
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
    data = from_client(name)
    at_once = replay(whole(data))
    for seed in ("a", "b", "c"):
        cut = replay(random_pieces(data, name + seed))
        assert (cut.events, cut.sent) == (at_once.events, at_once.sent)


BY_BYTE = ["ffmpeg-publish-srvchunk128", "ffmpeg5-publish-extts", "gst-rtmp2sink-publish", "gst-rtmpsink-publish"]


@pytest.mark.parametrize("name", [*BY_BYTE, "obs-publish", "rtmpdump-play-acks"])
def test_replay_byte_by_byte_is_the_same_as_at_once(name: str) -> None:
    data = from_client(name)
    at_once, by_byte = replay(whole(data)), replay(in_pieces(data, 1))
    assert (by_byte.events, by_byte.sent) == (at_once.events, at_once.sent)


def test_a_shared_read_buffer_may_be_used_again() -> None:
    data = from_client("obs-publish")
    shared = bytearray(4096)

    def through_the_buffer() -> Iterator[Any]:
        for at in range(0, len(data), len(shared)):
            piece = data[at : at + len(shared)]
            shared[: len(piece)] = piece
            yield memoryview(shared)[: len(piece)]
            shared[:] = b"\xff" * len(shared)

    assert media_of(replay(through_the_buffer()).events) == expected_media(data)


@pytest.mark.parametrize("name", [recording["name"] for recording in RECORDINGS if recording["data"]])
def test_damaged_recordings_are_refused_or_taken(name: str) -> None:
    """Whatever is damaged, nothing but RemoteProtocolError is raised."""
    data = from_client(name)
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
        played = replay(whole(from_client(name)))
        happened, sent = played.events, played.sent
        (request,) = (event for event in happened if isinstance(event, events.PublishRequested))
        secret = request.name.split("?")[1]
        assert secret.encode() not in sent
        assert secret not in repr(happened)


def test_recorded_publishers_end_by_fc_unpublish_and_delete_stream() -> None:
    ends = {}
    for recording in RECORDINGS:
        if recording["video"]:
            played = replay(whole(from_client(recording["name"])))
            ended = [event for event in played.events if isinstance(event, events.PublishStopped)]
            assert isinstance(played.connection, ServerConnection)
            ends[recording["name"]] = ended, len(played.connection.streams)
    # OBS was killed. Everybody else says FCUnpublish, then deleteStream: with the id, GStreamer with the name.
    assert ends.pop("obs-publish") == ([], 1)
    assert len(ends) > 15
    for name, tail in ends.items():
        assert tail == ([events.PublishStopped(1, "FCUnpublish")], 0), name


def test_metadata_of_a_recording_are_read_as_an_ecma_array() -> None:
    happened = replay(whole(from_client("ffmpeg-publish"))).events
    (data,) = (event for event in happened if isinstance(event, events.DataReceived))
    assert data.name == "onMetaData"
    assert isinstance(data.values[0], EcmaArray)
    assert (data.values[0]["width"], data.values[0]["height"], data.values[0]["framerate"]) == (320.0, 180.0, 15.0)


def test_play_start_and_duration_of_recorded_players_are_normalised() -> None:
    """Live players ask in several units: FFmpeg in thousandths, GStreamer as the specification says."""
    starts = {}
    for name in ("ffmpeg-play", "rtmpdump-play", "gst-rtmp2src-play", "gst-rtmpsrc-play", "rtmpdump-play-vod-start"):
        happened = replay(whole(from_client(name))).events
        (request,) = (event for event in happened if isinstance(event, events.PlayRequested))
        starts[name] = (request.start, request.duration)
    assert starts == {
        "ffmpeg-play": (-2.0, -1.0),
        "rtmpdump-play": (-1.0, -1.0),
        "gst-rtmp2src-play": (-2.0, -1.0),
        "gst-rtmpsrc-play": (-1.0, -1.0),
        "rtmpdump-play-vod-start": (10000.0, 3000.0),
    }


# --- The client's end ---


def commands_of(name: str) -> list[list[Any]]:
    """Message stream, then name, transaction id, command object and arguments of each command of the client."""
    return [
        [message.stream_id, *decode_all(message.payload, 1 if message.type_id == COMMAND_AMF3 else 0)]
        for message in decoded(from_client(name))
        if message.type_id in (COMMAND, COMMAND_AMF3)
    ]


def after_connect(data: bytes) -> int:
    """Where the server's answer to connect ends: all that follows it are answers to later calls."""
    commands = (message.end for message in decoded(data) if message.type_id in (COMMAND, COMMAND_AMF3))
    return next(commands, HANDSHAKE_BYTES)


def follow_as(name: str, split: Callable[[bytes], Iterator[bytes]]) -> Replay:
    """Our client in the recorded one's place: it makes the same calls, hence with the same transaction ids, all that
    come after connect as soon as that was accepted.
    """
    (_, _, _, properties, *_), *calls = commands_of(name)

    def react(client: Any, event: Any) -> None:
        match event:
            case events.HandshakeCompleted():
                client.connect(properties["app"], properties["tcUrl"])
            case events.ResultReceived("connect", _, True):
                for stream_id, procedure, transaction, _, *arguments in calls:
                    if transaction:
                        assert client.call(procedure, *arguments, stream_id=stream_id) == transaction
                    else:
                        client.notify(procedure, *arguments, stream_id=stream_id)

    data = from_server(name)
    answered = after_connect(data)
    parts = data[:HANDSHAKE_BYTES], data[HANDSHAKE_BYTES:answered], data[answered:]
    return follow((piece for part in parts for piece in split(part)), react=react)


def expected_of_server(data: bytes) -> list[Raw]:
    """Those within aggregates too."""
    found = (part for each in decoded(data) for part in (parts_of(each) if each.type_id == AGGREGATE else [each]))
    return raw(found, AUDIO, VIDEO, DATA)


@pytest.mark.parametrize("recording", RECORDINGS, ids=NAMES)
def test_client_replays_recorded_servers_with_all_their_media(recording: dict[str, Any]) -> None:
    name = recording["name"]
    data = from_server(name)
    played = follow_as(name, whole)
    assert played.error is None
    assert media_of(played.events) == expected_of_server(data)
    answers = [message for message in decoded(data) if message.type_id in (COMMAND, COMMAND_AMF3)]
    kinds = Counter(type(event) for event in played.events)
    told = kinds[events.ResultReceived] + kinds[events.StatusReceived] + kinds[events.CallReceived]
    # FFmpeg and GStreamer call releaseStream without an id at times, and are answered all the same.
    assert 0 <= len(answers) - told <= 2
    assert kinds[events.UnknownMessage] == 0
    for seed in ("a", "b"):
        assert follow_as(name, partial(random_pieces, seed=name + seed)).events == played.events


@pytest.mark.parametrize("player", ["gst-rtmp2src", "rtmpdump"])
def test_a_clip_in_aggregates_is_the_same_as_one_by_one(player: str) -> None:
    """The same server sent it both ways: ten messages in each, 1000 ms off, and none of the last that are fewer."""
    gathered = from_server(f"{player}-play-aggregate")
    assert Counter(each.type_id for each in decoded(gathered))[AGGREGATE] == 29
    single = media_alone(decoded(from_server("rtmpdump-play-bwdone")))
    played = follow_as(f"{player}-play-aggregate", whole)
    found = [message for message in media_of(played.events) if message[0] in (AUDIO, VIDEO)]
    assert [(kind, timestamp, payload) for kind, timestamp, _, payload in found] == single[:290]
