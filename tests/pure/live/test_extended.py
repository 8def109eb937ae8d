"""Messages of several tracks and with extensions: who is sent them, and what the others are sent in their place."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.live import LiveStream
from ingest.live.media import audio_tag, video_tag
from ingest.live.message import ALL_EXTENSIONS, plain_payload
from ingest.rtmp.capabilities import CapsEx
from ingest.rtmp.media import ExtendedAudio, ExtendedVideo, ModEx, Track, write_audio, write_video
from ingest.rtmp.media_tags import AudioPacket, FrameType, MultitrackType, VideoPacket
from tests.pure.live.payloads import Player, publisher, started

MULTITRACK, MOD_EX = int(CapsEx.MULTITRACK), int(CapsEx.MOD_EX)
NANO_OFFSET = (ModEx(0, (500).to_bytes(3, "big")),)
BOTH = MULTITRACK | MOD_EX
ONE, MANY, CODECS = MultitrackType.ONE_TRACK, MultitrackType.MANY_TRACKS, MultitrackType.MANY_TRACKS_MANY_CODECS


def header(track: int = 0) -> ExtendedVideo:
    return ExtendedVideo(VideoPacket.SEQUENCE_START, (Track(b"av01", b"header %d" % track, track),))


def picture(number: int, track: int = 0, *, key: bool = False) -> ExtendedVideo:
    frame_type = FrameType.KEYFRAME if key else FrameType.INTER
    return ExtendedVideo(
        VideoPacket.CODED_FRAMES, (Track(b"av01", b"picture %d" % number, track),), frame_type=frame_type
    )


def together(kind: MultitrackType, *messages: ExtendedVideo) -> ExtendedVideo:
    tracks = tuple(track for message in messages for track in message.tracks)
    return replace(messages[0], tracks=tracks, multitrack=kind)


def delayed(message: ExtendedVideo) -> ExtendedVideo:
    return replace(message, mod_ex=NANO_OFFSET)


SENT: list[tuple[ExtendedVideo, int, dict[int, ExtendedVideo | None]]] = [
    (delayed(header()), MOD_EX, {MOD_EX: header()}),
    (together(ONE, header(1)), MULTITRACK, {MULTITRACK: None}),
    (picture(1, key=True), 0, {}),
    (together(ONE, picture(2, 1)), MULTITRACK, {MULTITRACK: None}),
    (together(MANY, picture(3), picture(4, 1)), MULTITRACK, {MULTITRACK: picture(3)}),
    (delayed(picture(5)), MOD_EX, {MOD_EX: picture(5)}),
    (
        delayed(together(CODECS, picture(6), picture(7, 1))),
        BOTH,
        {MULTITRACK: delayed(picture(6)), MOD_EX: together(CODECS, picture(6), picture(7, 1)), BOTH: picture(6)},
    ),
    (delayed(together(ONE, picture(8, 1))), BOTH, {MULTITRACK: None, MOD_EX: together(ONE, picture(8, 1)), BOTH: None}),
    (picture(9), 0, {}),
]
"""Messages, what they need, and what a player is sent that does not have that, or a part of it."""


def expected(takes: int) -> list[bytes]:
    fit = (plain.get(needs & ~takes, message) for message, needs, plain in SENT)
    return [write_video(message) for message in fit if message is not None]


def send(stream: LiveStream, *messages: ExtendedVideo) -> None:
    for message in messages:
        stream.video(0, write_video(message), 0.0)


@pytest.mark.parametrize("takes", [0, 1, MULTITRACK, MOD_EX, ALL_EXTENSIONS, 15, 0xFFFFFFFF])
def test_a_player_is_sent_what_it_understands(takes: int) -> None:
    stream = started()
    early, all_of_it = Player(stream, takes=takes), Player(stream)
    send(stream, *(message for message, _, _ in SENT))
    assert early.payloads() == Player(stream, takes=takes).payloads() == expected(takes)
    assert all_of_it.payloads() == [write_video(message) for message, _, _ in SENT], "a recording, for example"


def test_plain_variant_of_a_message_is_made_once_for_all_players() -> None:
    stream = started()
    early = [Player(stream, takes=0) for _ in range(2)]
    send(stream, *(message for message, _, _ in SENT))
    late = [Player(stream, takes=0) for _ in range(2)]
    for one, other in (early, late):
        for made, again in zip(one.subscriber.take(), other.subscriber.take(), strict=True):
            assert made is again


def test_player_without_extensions_gets_plain_headers_after_a_pause() -> None:
    stream = started()
    player = Player(stream, takes=0)
    stream.mute(player.subscriber, frozenset({"video"}), 0.0)
    send(stream, delayed(header()), together(ONE, header(1)), picture(1, key=True))
    stream.mute(player.subscriber, frozenset(), 1.0)
    send(stream, picture(2, key=True))
    assert player.payloads() == [write_video(header()), write_video(picture(2, key=True))]


def test_player_without_multitrack_gets_the_lowest_track() -> None:
    stream = started()
    early = Player(stream, takes=0)
    send(stream, together(ONE, header(2)), together(ONE, picture(1, 2, key=True)))
    send(stream, together(ONE, header(1)), together(ONE, picture(2, 2)), together(ONE, picture(3, 1, key=True)))
    send(stream, together(MANY, picture(4, 2), picture(5, 1)))
    first = [header(2), picture(1, key=True)]
    then = [header(1), picture(3, key=True), picture(5)]
    assert early.payloads() == [*map(write_video, [*first, *then])]
    assert Player(stream, takes=0).payloads() == [*map(write_video, then)]


def test_player_gets_audio_with_only_the_extensions_it_takes() -> None:
    sound = ExtendedAudio(AudioPacket.CODED_FRAMES, (Track(b"Opus", b"one", 0), Track(b"Opus", b"two", 1)), MANY)
    both = replace(sound, mod_ex=NANO_OFFSET)
    alone = replace(sound, tracks=sound.tracks[:1], multitrack=None)
    stream = started()
    plain, tracks, extensions, able = (Player(stream, takes=takes) for takes in (0, MULTITRACK, MOD_EX, ALL_EXTENSIONS))
    for message in (sound, both):
        stream.audio(0, write_audio(message), 0.0)
    assert plain.payloads() == [write_audio(alone)] * 2
    assert tracks.payloads() == [write_audio(sound)] * 2
    assert extensions.payloads() == [write_audio(alone), write_audio(replace(alone, mod_ex=both.mod_ex))]
    assert able.payloads() == [write_audio(sound), write_audio(both)]


def test_next_publishers_plain_messages_are_relayed_unchanged() -> None:
    stream = started()
    send(stream, *(message for message, _, _ in SENT))
    stream.stop("session-1", 1.0)
    stream.start(publisher("session-2"), 1.0)
    send(stream, header(), picture(1, key=True))
    assert Player(stream, takes=0).payloads() == [write_video(header()), write_video(picture(1, key=True))]


@pytest.mark.parametrize(
    ("payload", "track", "lacking", "expected"),
    [
        (write_video(together(MANY, picture(1), picture(2, 1))), 1, MULTITRACK, write_video(picture(2))),
        (write_video(together(CODECS, picture(1, 2), picture(2, 3))), 3, MULTITRACK, write_video(picture(2))),
        (write_video(together(ONE, picture(1, 1))), 0, MULTITRACK, None),
        (write_video(together(ONE, header())), 0, MULTITRACK, write_video(header())),
        (write_video(delayed(picture(1)))[:4], 0, MOD_EX, None),
        (write_video(together(MANY, picture(1), picture(2, 1)))[:5], 0, MULTITRACK, None),
        (bytes.fromhex("d7 02 000001 00 01"), 0, MOD_EX, bytes.fromhex("d0 01")),
        (bytes.fromhex("d7 02 000001 00 01"), 0, ALL_EXTENSIONS, bytes.fromhex("d0 01")),
    ],
)
def test_plain_payload_strips_lacking_extensions_or_is_none(
    payload: bytes, track: int, lacking: int, expected: bytes | None
) -> None:
    """Nothing, where the track isn't in it, and of one that can't be read; a command has no track."""
    assert plain_payload("video", payload, lacking, track) == expected


@given(st.binary(max_size=60), st.sampled_from([b"", b"\x96", b"\x97", b"\x95", b"\x97\x00\x00\x06\x10avc1", b"\xd6"]))
def test_plain_payload_of_any_bytes_needs_no_lacking_extension(rest: bytes, start: bytes) -> None:
    payload = start + rest
    for track in (0, 1):
        for lacking in (MULTITRACK, MOD_EX, ALL_EXTENSIONS):
            video = plain_payload("video", payload, lacking, track)
            audio = plain_payload("audio", payload, lacking, track)
            assert video is None or not video_tag(video).needs & lacking
            assert audio is None or not audio_tag(audio).needs & lacking
