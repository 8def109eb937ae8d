"""Headers of audio and video messages in both forms, and channels: read, written, cut and faulty."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.live.media import audio_tag, video_tag
from ingest.rtmp import Limits
from ingest.rtmp.codecs.audio import read_multichannel
from ingest.rtmp.codecs.config import AudioConfig
from ingest.rtmp.media import MAX_DATA_BYTES, ExtendedAudio, ExtendedVideo, ModEx, Track, read_audio, read_video
from ingest.rtmp.media_tags import (
    AUDIO_FOURCC,
    VIDEO_FOURCC,
    LegacyAudio,
    LegacyVideo,
    MultitrackType,
    VideoPacket,
    codec_name,
)
from tests.pure.rtmp.media.vectors import AUDIO, FAULTY_AUDIO, FAULTY_VIDEO, VIDEO
from tests.pure.rtmp.media.writing import write_audio, write_video

KINDS: dict[str, tuple[Any, Any, Any]] = {
    "video": (read_video, write_video, video_tag),
    "audio": (read_audio, write_audio, audio_tag),
}
"""The reader, the writer and the look-up of the media path."""
VECTORS = [*(("video", *row) for row in VIDEO), *(("audio", *row) for row in AUDIO)]
FAULTY = [*(("video", *row) for row in FAULTY_VIDEO), *(("audio", *row) for row in FAULTY_AUDIO)]


@pytest.mark.parametrize(("kind", "name", "message", "payload"), VECTORS, ids=[row[1] for row in VECTORS])
def test_media_vectors_are_read_and_written_and_differ_when_cut(
    kind: str, name: str, message: Any, payload: bytes
) -> None:
    read, write, _ = KINDS[kind]
    assert read(payload) == message
    assert write(message) == payload
    for size in range(1, len(payload)):
        found = read(payload[:size])
        assert found != message, "a cut message is faulty or has a shorter body"
        known = getattr(message, "tracks", ())
        for index, track in enumerate(getattr(found, "tracks", ())):
            assert known[index].body.startswith(track.body)
            assert (track.fourcc, track.track_id) == (known[index].fourcc, known[index].track_id)


@pytest.mark.parametrize(("kind", "text", "fault", "tracks"), FAULTY)
def test_faulty_message_is_read_with_its_fault_and_whole_tracks(kind: str, text: str, fault: str, tracks: int) -> None:
    read, _, tag = KINDS[kind]
    found = read(bytes.fromhex(text))
    assert (found.fault, len(getattr(found, "tracks", ()))) == (fault, tracks)
    assert tag(bytes.fromhex(text)).is_faulty, "the media path finds the same"


def test_empty_media_message_is_read_as_none() -> None:
    assert read_audio(b"") is None
    assert read_video(b"") is None


def test_tracks_and_extensions_over_the_limit_are_faults() -> None:
    tracks = tuple(Track(b"hvc1", b"", number) for number in range(3))
    payload = write_video(ExtendedVideo(VideoPacket.SEQUENCE_START, tracks, MultitrackType.MANY_TRACKS))
    found = read_video(payload, Limits(tracks_per_message=2))
    assert isinstance(found, ExtendedVideo)
    assert (found.tracks, found.fault) == (tracks[:2], "more than 2 tracks")
    extended = write_video(ExtendedVideo(0, tracks[:1], mod_ex=(ModEx(0, b"1"), ModEx(0, b"2"))))
    found = read_video(extended, Limits(mod_ex_per_message=1))
    assert isinstance(found, ExtendedVideo)
    assert (found.tracks, found.fault) == ((), "more than 1 extensions")


@pytest.mark.parametrize(
    "message",
    [
        ExtendedVideo(0, (Track(b"hvc"),)),
        ExtendedVideo(0, ()),
        ExtendedVideo(0, (Track(b"hvc1"), Track(b"hvc1"))),
        ExtendedVideo(0, (Track(b"hvc1"), Track(b"av01")), MultitrackType.MANY_TRACKS),
        ExtendedVideo(0, (Track(b"hvc1", b"\0" * 2**24),), MultitrackType.MANY_TRACKS),
        ExtendedVideo(0, (Track(b"hvc1"),), mod_ex=(ModEx(0, b""),)),
        ExtendedVideo(0, (Track(b"hvc1"),), mod_ex=(ModEx(0, b"\0" * (MAX_DATA_BYTES + 1)),)),
    ],
)
def test_message_that_the_layout_cannot_hold_is_refused_by_the_writer(message: ExtendedVideo) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - unpacking says it in words of its own.
        write_video(message)


@pytest.mark.parametrize(
    ("audio", "rate", "channels"),
    [
        (LegacyAudio(2, 1, True, True), 11025, 2),
        (LegacyAudio(3, 0, False, False), 5512, 1),
        (LegacyAudio(4), 16000, 1),
        (LegacyAudio(5), 8000, 1),
        (LegacyAudio(6, 2, True, False), 22050, 1),
        (LegacyAudio(7, 3, True, True), 8000, 2),
        (LegacyAudio(11), 16000, 1),
        (LegacyAudio(14, 3, True, False), 8000, 1),
    ],
)
def test_rate_and_channels_of_legacy_sound_follow_its_codec_and_flags(
    audio: LegacyAudio, rate: int, channels: int
) -> None:
    assert (audio.sample_rate, audio.channels) == (rate, channels)


def test_names_of_codecs() -> None:
    assert codec_name(b"vvc1") == "H.266"
    assert codec_name(b"zzzz") == "zzzz"
    assert codec_name(b"\xff\0zz") == "unknown"
    assert codec_name(b"hvc") == "unknown"


fourccs = st.sampled_from([*VIDEO_FOURCC, *AUDIO_FOURCC]) | st.binary(min_size=4, max_size=4)
times = st.integers(-(2**23), 2**23 - 1)
extensions = st.lists(st.builds(ModEx, st.integers(0, 15), st.binary(min_size=1, max_size=300)), max_size=8).map(tuple)
tracks = st.builds(Track, fourccs, st.binary(max_size=300), st.integers(0, 255), times)


def _one_fourcc(many: list[Track]) -> tuple[Track, ...]:
    return tuple(replace(track, fourcc=many[0].fourcc) for track in many)


def _with_composition(message: Any) -> Any:
    """Tracks keep a composition time only where the layout has one, and an id only where there are tracks."""
    is_composed = isinstance(message, ExtendedVideo) and message.packet_type == VideoPacket.CODED_FRAMES
    kept = tuple(
        replace(
            track,
            composition_time_ms=track.composition_time_ms
            if is_composed and track.fourcc in (b"avc1", b"hvc1", b"vvc1")
            else 0,
            track_id=0 if message.multitrack is None else track.track_id,
        )
        for track in message.tracks
    )
    return replace(message, tracks=kept)


several = st.lists(tracks, min_size=1, max_size=5)
shapes = st.one_of(
    st.tuples(tracks.map(lambda track: (track,)), st.sampled_from([None, MultitrackType.ONE_TRACK])),
    st.tuples(several.map(_one_fourcc), st.just(MultitrackType.MANY_TRACKS)),
    st.tuples(several.map(tuple), st.just(MultitrackType.MANY_TRACKS_MANY_CODECS)),
)
video_packets = st.integers(0, 15).filter(lambda number: number not in (6, 7))
audio_packets = st.integers(0, 15).filter(lambda number: number not in (5, 7))


@given(shapes, video_packets, extensions, st.integers(0, 7).filter(lambda number: number != 5))
def test_any_extended_video_round_trips(shape: Any, packet: int, chain: tuple[ModEx, ...], frame_type: int) -> None:
    message = _with_composition(ExtendedVideo(packet, shape[0], shape[1], chain, frame_type=frame_type))
    assert read_video(write_video(message)) == message


@given(shapes, audio_packets, extensions)
def test_any_extended_audio_round_trips(shape: Any, packet: int, chain: tuple[ModEx, ...]) -> None:
    message = _with_composition(ExtendedAudio(packet, shape[0], shape[1], chain))
    assert read_audio(write_audio(message)) == message


@given(st.integers(0, 7), st.sampled_from([2, 3, 4, 5, 6]), st.binary())
def test_any_legacy_video_round_trips(frame_type: int, codec: int, body: bytes) -> None:
    message = LegacyVideo(frame_type, codec, body=body) if frame_type != 5 else LegacyVideo(5, codec, command=len(body))
    assert read_video(write_video(message)) == message


tracks_of = st.tuples(st.binary(min_size=1, max_size=1), st.integers(0, 5), st.binary(max_size=5))


@given(
    st.sampled_from([b"\x96\x11hvc1", b"\x96\x13hvc1", b"\x96\x21", b"\x95\x11Opus", b"\x95\x21", b"\xd6\x14hvc1"]),
    st.lists(tracks_of, max_size=40),
    st.binary(max_size=3),
)
def test_the_media_path_walks_all_tracks(start: bytes, made: list[tuple[bytes, int, bytes]], tail: bytes) -> None:
    """Of messages in which sizes are right, or nearly so."""
    many = b"" if len(start) > 2 else b"hvc1"
    payload = start + b"".join(many + track + size.to_bytes(3, "big") + body for track, size, body in made) + tail
    for whole in (payload, payload[:-1]):
        assert video_tag(whole).is_faulty == bool(read_video(whole).fault)  # type: ignore[union-attr]
        assert audio_tag(whole).is_faulty == bool(read_audio(whole).fault)  # type: ignore[union-attr]


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=10),
    st.sampled_from([b"hvc1", b"av01"]),
    st.binary(max_size=3),
)
def test_the_media_path_follows_all_extensions(data: list[bytes], fourcc: bytes, tail: bytes) -> None:
    chain = b"".join(bytes((len(item),)) + item + b"x\x07" for item in data if len(item) < 255)
    for whole in (b"\x97" + chain[:-1] + b"\x01" + fourcc + tail, b"\x97" + chain):
        assert video_tag(whole).is_faulty == bool(read_video(whole).fault)  # type: ignore[union-attr]


prefixes = st.sampled_from([b"", b"\x90", b"\x91hvc1", b"\x96\x11hvc1", b"\x96\x21", b"\x97\x02\0\0\1\x06", b"\xd0"])


@given(prefixes, st.binary(max_size=60))
def test_any_payload_is_seen_alike_by_the_reader_and_the_media_path(prefix: bytes, rest: bytes) -> None:
    """And the look-up of the media path sees the same in it, where it sees anything."""
    payload = prefix + rest
    video, audio = read_video(payload), read_audio(payload)
    assert video_tag(payload).is_faulty == bool(video and video.fault)
    assert audio_tag(payload).is_faulty == bool(audio and audio.fault)
    if isinstance(video, ExtendedVideo) and video.tracks and video.packet_type < 6:
        tag = video_tag(payload)
        assert (tag.codec, tag.track) == (codec_name(video.tracks[0].fourcc), video.tracks[0].track_id)
        assert tag.is_sequence_start == video.is_sequence_start
    if isinstance(audio, ExtendedAudio) and audio.tracks and audio.packet_type in (0, 1, 2, 4):
        sound = audio_tag(payload)
        assert (sound.codec, sound.track) == (codec_name(audio.tracks[0].fourcc), audio.tracks[0].track_id)
        assert sound.is_sequence_start == audio.is_sequence_start
    if isinstance(video, LegacyVideo) and not video.fault and len(payload) > 1 and payload[0] >> 4 != 5:
        assert video_tag(payload).is_frame == video.is_frame
    if isinstance(audio, LegacyAudio) and not audio.fault:
        assert audio_tag(payload).is_sequence_start == audio.is_sequence_start


CHANNELS = [
    ("00 06", 6),
    ("01 06 0000060f", 6),
    ("01 01 00800000", 1),
    ("02 04 01 00 fe 2a", 4),
    ("02 00", None),
    ("07 02", 2),
]


@pytest.mark.parametrize(("text", "channels"), CHANNELS)
def test_multichannel_configuration_gives_the_channel_count(text: str, channels: int | None) -> None:
    body = bytes.fromhex(text)
    config = AudioConfig("Opus")
    for size in range(len(body)):
        with pytest.raises(ValueError, match="ends too early"):
            read_multichannel(config, body[:size])
    assert config.channels is None
    read_multichannel(config, body)
    assert config.channels == channels
