"""A live stream: what its players get, and in which order."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.contracts import MediaInfo
from ingest.live import LiveSettings
from ingest.live.description import describe_video
from ingest.live.fanout import ALL_KINDS
from ingest.live.media import video_tag
from ingest.live.stream_log import LogLimits
from tests.pure.live.payloads import (
    AAC_HEADER,
    AVC_HEADER,
    HEADERS,
    METADATA,
    Player,
    avc_header,
    inter,
    keyframe,
    make_stream,
    on_air,
    publisher,
    relay,
    send_headers,
    session,
    sound,
    started,
    watched,
)
from tests.pure.rtmp.codecs.test_video import sps

OTHER_METADATA = b"\x02\x00\x0aonMetaData\x08,,,"
OTHER_AVC_HEADER = avc_header(sps(width_mbs=80, height_units=45))


def test_a_player_that_was_there_first_gets_everything_as_it_comes() -> None:
    stream = make_stream()
    player = Player(stream)
    stream.start(publisher(), 1.0)
    send_headers(stream, 1.0)
    relay(stream, (5, keyframe(1)), (7, sound(2)), now=1.0)
    stream.video(38, inter(3), 1.1)
    assert [(message.type_id, message.timestamp, message.payload) for message in player.read()] == [
        (18, 0, METADATA),
        (8, 0, AAC_HEADER),
        (9, 0, AVC_HEADER),
        (9, 5, keyframe(1)),
        (8, 7, sound(2)),
        (9, 38, inter(3)),
    ]
    assert stream.state == "live"


def test_a_late_player_gets_the_headers_then_the_group_of_pictures() -> None:
    stream = on_air()
    relay(stream, (0, keyframe(1)), (33, inter(2)), (2000, keyframe(3)), (2010, sound(4)), (2033, inter(5)))
    player = Player(stream, 2.04)
    stream.video(2066, inter(6), 2.06)
    found = player.read()
    assert [message.payload for message in found] == [*HEADERS, keyframe(3), sound(4), inter(5), inter(6)]
    assert [message.timestamp for message in found] == [0, 2000, 2000, 2000, 2010, 2033, 2066]
    assert player.subscriber.dropped_frames == 0


def test_metadata_are_sent_with_timestamp_zero() -> None:
    """FFmpeg takes those of another time than 0 for a track of subtitles."""
    stream = make_stream()
    early = Player(stream)
    stream.start(publisher(), 0.0)
    stream.data(700, "onMetaData", [{}], METADATA, 0.0)
    stream.video(5000, keyframe(1), 5.0)
    stream.data(5010, "onMetaData", [{}], OTHER_METADATA, 5.1)
    stream.data(5010, "onCue", [], b"cue", 5.1)
    stream.data(5010, "onKept", [], b"kept", 5.1, kept=True)
    late, muted = Player(stream, 5.2), Player(stream, 5.2)
    muted.read()
    stream.mute(muted.subscriber, ALL_KINDS, 5.25)
    stream.data(5300, "onMetaData", [{}], METADATA, 5.3)
    stream.mute(muted.subscriber, frozenset(), 5.4)
    stream.stop("session-1", 6.0)
    stream.start(publisher("session-2"), 7.0)
    stream.data(0, "onMetaData", [{}], METADATA, 7.0)
    stream.video(0, keyframe(2), 7.0)
    players = (early, late, muted, Player(stream, 8.0))
    times = [[(message.payload, message.timestamp) for message in player.read()] for player in players]
    assert times[0] == [
        (METADATA, 0),
        (keyframe(1), 5000),
        (OTHER_METADATA, 0),
        (b"cue", 5010),
        (b"kept", 5010),
        (METADATA, 0),
        (METADATA, 0),
        (keyframe(2), 7000),
    ]
    assert times[1] == [(OTHER_METADATA, 0), (b"kept", 5000), (keyframe(1), 5000), (b"cue", 5010), *times[0][-3:]]
    assert times[2] == times[0][-3:]
    assert times[3] == times[0][-2:]


def test_without_a_keyframe_a_late_player_gets_audio_and_waits_for_video() -> None:
    stream = on_air()
    stream.video(0, inter(1), 0.0)
    player = Player(stream, 0.1)
    relay(stream, (33, inter(2)), (40, sound(3)), (66, keyframe(4)), now=0.1)
    assert player.payloads() == [*HEADERS, sound(3), keyframe(4)]


def test_audio_alone_starts_at_once() -> None:
    stream = started()
    relay(stream, (0, AAC_HEADER), (0, sound(1)))
    player = Player(stream, 0.5)
    stream.audio(21, sound(2), 0.5)
    assert player.payloads() == [AAC_HEADER, sound(2)]
    assert stream.state == "live"


def test_empty_audio_message_is_relayed() -> None:
    stream, player = watched()
    stream.audio(10, b"", 0.1)
    assert [(message.type_id, message.payload) for message in player.read()] == [(8, b"")]


def test_newer_headers_replace_the_cached_ones_and_reach_the_players() -> None:
    stream = on_air()
    stream.video(0, keyframe(1), 0.0)
    early = Player(stream)
    early.read()
    stream.data(10, "onMetaData", [{"width": 1280.0}], OTHER_METADATA, 0.1)
    stream.video(10, OTHER_AVC_HEADER, 0.1)
    late = Player(stream, 0.1)
    stream.video(20, keyframe(2), 0.2)
    assert early.payloads() == [OTHER_METADATA, OTHER_AVC_HEADER, keyframe(2)]
    # The group of pictures under the former header is of no use under the new one.
    assert late.payloads() == [OTHER_METADATA, AAC_HEADER, OTHER_AVC_HEADER, keyframe(2)]
    assert session(stream).metadata == {"width": 1280}
    assert (stream.media["width"], stream.media["height"]) == (1280, 720)


def test_a_repeated_header_keeps_the_group_of_pictures() -> None:
    stream = on_air()
    stream.video(0, keyframe(1), 0.0)
    relay(stream, (10, AVC_HEADER), (33, inter(2)), now=0.1)
    assert Player(stream, 0.2).payloads() == [*HEADERS, keyframe(1), inter(2)]


def test_cleared_metadata_is_gone() -> None:
    stream, early = watched()
    stream.data(10, "@clearDataFrame", ["onMetaData"], b"clear", 0.1)
    assert session(stream).metadata == {}
    assert early.payloads() == []
    assert Player(stream).payloads() == [AAC_HEADER, AVC_HEADER]


@pytest.mark.parametrize("name", ["|RtmpSampleAccess", "onStatus", "onPlayStatus"])
def test_server_only_data_messages_of_a_publisher_are_not_relayed(name: str) -> None:
    stream, player = watched()
    stream.data(10, name, [], b"forged", 0.1)
    stream.data(10, "onCuePoint", [{}], b"cue", 0.1)
    assert player.payloads() == [b"cue"]


def test_description_callback_is_called_only_when_headers_change() -> None:
    told: list[tuple[dict[str, object], MediaInfo]] = []
    stream = make_stream()
    session = publisher()
    session.on_description = lambda metadata, media: told.append((metadata, media))
    stream.start(session, 0.0)
    send_headers(stream)
    relay(stream, (5, AVC_HEADER), (6, keyframe(1)), now=0.1)
    aac = {"audio_codec": "AAC-LC", "audio_codec_string": "mp4a.40.2", "sample_rate": 48000, "channels": 2}
    assert told[-1] == ({"width": 1920}, {**describe_video({}, video_tag(AVC_HEADER), AVC_HEADER), **aac})
    assert len(told) == 3


def test_codecs_without_headers_are_recognised_from_frames() -> None:
    stream = started()
    stream.audio(0, b"\x2f\xff\xfb", 0.0)
    stream.video(0, b"\x12\x00\x00\x84", 0.0)
    sound = {"audio_codec": "MP3", "audio_codec_string": "mp3", "sample_rate": 44100, "channels": 2}
    assert stream.media == {**sound, "video_codec": "H.263"}
    player = Player(stream)
    stream.video(33, b"\x22\x00\x00\x84", 0.03)
    assert player.payloads() == [b"\x12\x00\x00\x84", b"\x22\x00\x00\x84"]


def test_tracks_have_their_own_headers_and_only_the_main_one_is_measured() -> None:
    second_header = bytes.fromhex("960061766331 01") + AVC_HEADER[5:]
    second_key = bytes.fromhex("960161766331 01 000000")
    stream = on_air()
    stream.video(0, second_header, 0.0)
    stream.video(0, keyframe(1), 0.0)
    stream.video(0, second_key, 0.0)
    assert Player(stream).payloads() == [*HEADERS, second_header, keyframe(1), second_key]
    assert stream.stop("session-1", 1.0)["video_frames"] == 1


def test_a_group_of_pictures_over_the_bound_is_dropped_until_the_next_keyframe() -> None:
    stream = on_air(LiveSettings(log=LogLimits(frames=5)))
    stream.video(0, keyframe(0), 0.0)
    for number in range(1, 5):
        stream.video(number, inter(number), 0.0)
    assert len(Player(stream).payloads()) == 3 + 5
    stream.video(5, inter(5), 0.0)
    assert Player(stream).payloads() == HEADERS
    stream.video(6, inter(6), 0.0)
    assert Player(stream).payloads() == HEADERS
    stream.video(7, keyframe(7), 0.0)
    assert Player(stream).payloads() == [*HEADERS, keyframe(7)]


def test_the_cache_is_bounded_in_bytes() -> None:
    stream = on_air(LiveSettings(log=LogLimits(size_bytes=1000)))
    relay(stream, (0, keyframe(0, 600)), (0, sound(1, 400)))
    assert len(Player(stream).payloads()) == 3 + 2
    stream.audio(1, sound(2, 30), 0.0)
    assert Player(stream).payloads() == HEADERS


def test_groups_of_pictures_of_any_size_follow_one_another_in_the_cache() -> None:
    stream = on_air()
    for number, size in enumerate((40, 300_000, 50, 60, 1_500_000, 70_000, 10)):
        stream.video(number, keyframe(number, size), 0.0)
        early = Player(stream)
        group = [keyframe(number, size), inter(number), sound(number, size)]
        stream.video(number, group[1], 0.0)
        stream.audio(number, group[2], 0.0)
        assert early.payloads() == Player(stream).payloads() == [*HEADERS, *group]


def test_headers_are_bounded_and_those_over_it_pass_as_ordinary_messages() -> None:
    stream = started()
    early = Player(stream)
    headers = [b"\x96\x00avc1" + bytes((track,)) + b"header" for track in range(100)]
    for header in headers:
        stream.video(0, header, 0.0)
    stream.video(0, keyframe(0), 0.0)
    assert len(Player(stream).payloads()) == 32 + 1
    # As ordinary video they wait for the keyframe.
    assert early.payloads() == [*headers[:32], keyframe(0)]


def test_a_player_that_left_gets_nothing_more() -> None:
    stream, player = watched()
    stream.unsubscribe(player.subscriber)
    stream.unsubscribe(player.subscriber)
    stream.video(0, keyframe(0), 0.0)
    assert player.payloads() == []
    assert stream.subscribers == ()


MESSAGES = st.lists(
    st.tuples(st.sampled_from(["audio", "video"]), st.integers(0, 0xFFFFFFFF), st.binary(max_size=30)), max_size=40
)


def chosen(messages: list[tuple[str, int, bytes]]) -> Iterator[tuple[str, int, bytes]]:
    """Some of them made to look like what encoders send."""
    likely = {0: AVC_HEADER, 1: keyframe(1), 2: inter(2), 3: AAC_HEADER, 4: sound(4)}
    for kind, timestamp, payload in messages:
        yield kind, timestamp, likely.get(timestamp % 9, payload)


@settings(max_examples=100)
@given(MESSAGES, st.integers(0, 40))
def test_any_messages_are_relayed_in_order_without_error(
    messages: list[tuple[str, int, bytes]], change_at: int
) -> None:
    stream = make_stream()
    player = Player(stream)
    stream.start(publisher(), 0.0)
    for number, (kind, timestamp, payload) in enumerate(chosen(messages)):
        if number == change_at:
            stream.stop("session-1", 1.0)
            stream.start(publisher("session-2"), 1.0)
        (stream.audio if kind == "audio" else stream.video)(timestamp, payload, 1.0)
        stream.tick(1.0 + number, 5000.0 + number)
    sent = [payload for _, _, payload in chosen(messages)]
    remaining = iter(sent)
    assert all(payload in remaining for payload in player.payloads()), "in order, and nothing that was not sent"


def test_stream_has_ended_for_players_that_joined_before_its_publisher_left() -> None:
    """A coarse clock gives the leave and the two joins the same time."""
    stream = on_air()
    early = Player(stream, now=1.0)
    stream.stop("session-1", 1.0)
    late = Player(stream, now=1.0)
    early.read()
    assert not stream.has_ended(early.subscriber, 1.9, patience_s=1.0)
    assert stream.has_ended(early.subscriber, 2.0, patience_s=1.0)
    assert not stream.has_ended(late.subscriber, 2.0, patience_s=1.0)
