"""Headers of audio and video messages in both forms, and channels: read, written, cut and faulty."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.live.media import audio_tag, video_tag
from ingest.rtmp import Limits, media
from ingest.rtmp.codecs.audio import read_multichannel
from ingest.rtmp.codecs.config import AudioConfig
from ingest.rtmp.media import MAX_DATA_BYTES, ExtendedAudio, ExtendedVideo, ModEx, Track, read_audio, read_video
from ingest.rtmp.media_tags import (
    AUDIO_FOURCC,
    VIDEO_FOURCC,
    AudioPacket,
    FrameType,
    LegacyAudio,
    LegacyVideo,
    MultitrackType,
    VideoPacket,
    codec_name,
)
from tests.pure.rtmp.wire import h

ONE, MANY, CODECS = MultitrackType.ONE_TRACK, MultitrackType.MANY_TRACKS, MultitrackType.MANY_TRACKS_MANY_CODECS
KEY, INTER, DISPOSABLE = FrameType.KEYFRAME, FrameType.INTER, FrameType.DISPOSABLE
V, A = VideoPacket, AudioPacket


VIDEO: list[tuple[str, LegacyVideo | ExtendedVideo, bytes]] = [
    ("AVC sequence header", LegacyVideo(KEY, 7, 0, 0, None, h("0164001f")), h("17 00 000000 0164001f")),
    ("AVC key frame", LegacyVideo(KEY, 7, 1, 133, None, h("65")), h("17 01 000085 65")),
    ("AVC frame shown before its time", LegacyVideo(INTER, 7, 1, -1, None, h("41")), h("27 01 ffffff 41")),
    ("AVC end of sequence", LegacyVideo(KEY, 7, 2), h("17 02 000000")),
    ("HEVC by the id that encoders took", LegacyVideo(KEY, 12, 0, 0, None, h("01")), h("1c 00 000000 01")),
    ("Sorenson H.263", LegacyVideo(DISPOSABLE, 2, body=h("000084")), h("32 000084")),
    ("Screen video", LegacyVideo(KEY, 3, body=h("1140")), h("13 1140")),
    ("generated key frame", LegacyVideo(FrameType.GENERATED_KEYFRAME, 2, body=h("84")), h("42 84")),
    ("VP6", LegacyVideo(INTER, 4, body=h("00")), h("24 00")),
    ("VP6 with alpha", LegacyVideo(KEY, 5, body=h("00 000001")), h("15 00 000001")),
    ("Screen video 2", LegacyVideo(KEY, 6, body=h("1140")), h("16 1140")),
    ("start of seeking", LegacyVideo(5, 7, command=0), h("57 00")),
    ("end of seeking", LegacyVideo(5, 2, command=1), h("52 01")),
    ("HEVC header", ExtendedVideo(V.SEQUENCE_START, (Track(b"hvc1", h("01")),)), h("90 68766331 01")),
    ("HEVC key frame", ExtendedVideo(V.CODED_FRAMES, (Track(b"hvc1", h("26"), 0, 133),)), h("91 68766331 000085 26")),
    (
        "AVC frame, the earliest composition time",
        ExtendedVideo(V.CODED_FRAMES, (Track(b"avc1", b"", 0, -(2**23)),), frame_type=INTER),
        h("a1 61766331 800000"),
    ),
    (
        "VVC frame, the latest composition time",
        ExtendedVideo(V.CODED_FRAMES, (Track(b"vvc1", h("00"), 0, 2**23 - 1),), frame_type=INTER),
        h("a1 76766331 7fffff 00"),
    ),
    (
        "HEVC frame without a composition time",
        ExtendedVideo(V.CODED_FRAMES_X, (Track(b"hvc1", h("02")),), frame_type=INTER),
        h("a3 68766331 02"),
    ),
    ("AV1 frames have no composition time", ExtendedVideo(V.CODED_FRAMES, (Track(b"av01", h("1200")),)),
     h("91 61763031 1200")),
    ("AV1 of MPEG-2 TS", ExtendedVideo(V.MPEG2TS_SEQUENCE_START, (Track(b"av01", h("8004")),)), h("95 61763031 8004")),
    ("VP8 frame", ExtendedVideo(V.CODED_FRAMES, (Track(b"vp08", h("10")),)), h("91 76703038 10")),
    ("end of sequence", ExtendedVideo(V.SEQUENCE_END, (Track(b"vp09"),)), h("92 76703039")),
    ("metadata, whose frame type is ignored", ExtendedVideo(V.METADATA, (Track(b"hvc1", h("02")),), frame_type=5),
     h("d4 68766331 02")),
    ("command frame", ExtendedVideo(V.SEQUENCE_START, command=1, frame_type=5), h("d0 01")),
    ("a codec that nobody knows", ExtendedVideo(V.CODED_FRAMES, (Track(b"zzzz", h("00")),)), h("91 7a7a7a7a 00")),
    ("a packet type that is reserved", ExtendedVideo(8, (Track(b"hvc1", h("00")),)), h("98 68766331 00")),
    (
        "an offset of 1 ns",
        ExtendedVideo(V.CODED_FRAMES_X, (Track(b"avc1", h("65")),), mod_ex=(ModEx(0, h("000001")),)),
        h("97 02 000001 03 61766331 65"),
    ),
    (
        "two extensions, one of 256 bytes",
        ExtendedVideo(
            V.CODED_FRAMES_X,
            (Track(b"hvc1"),),
            mod_ex=(ModEx(15, b"\0" * 256), ModEx(0, h("0f423f"))),
            frame_type=INTER,
        ),
        h("a7 ff00ff" + "00" * 256 + "f7 02 0f423f 03 68766331"),
    ),
    (
        "the longest extension that has a size of one byte",
        ExtendedVideo(V.SEQUENCE_END, (Track(b"hvc1"),), mod_ex=(ModEx(1, b"\1" * 255),)),
        h("97 fe" + "01" * 255 + "12 68766331"),
    ),
    ("one track", ExtendedVideo(V.SEQUENCE_START, (Track(b"avc1", h("0164"), 1),), ONE), h("96 00 61766331 01 0164")),
    (
        "many tracks of one codec",
        ExtendedVideo(
            V.CODED_FRAMES,
            (Track(b"avc1", h("65"), 0, 1), Track(b"avc1", b"", 255, -1), Track(b"avc1", h("6566"), 2)),
            MANY,
        ),
        h("96 11 61766331 00 000004 000001 65 ff 000003 ffffff 02 000005 000000 6566"),
    ),
    (
        "many tracks of many codecs",
        ExtendedVideo(V.CODED_FRAMES, (Track(b"hvc1", h("26"), 0, 5), Track(b"av01", h("1200"), 1)), CODECS),
        h("96 21 68766331 00 000004 000005 26 61763031 01 000002 1200"),
    ),
    (
        "an offset for many tracks",
        ExtendedVideo(V.SEQUENCE_END, (Track(b"vp09", b"", 3),), MANY, (ModEx(0, h("000064")),), frame_type=INTER),
        h("a7 02 000064 06 12 76703039 03 000000"),
    ),
    (
        "metadata of one track",
        ExtendedVideo(V.METADATA, (Track(b"hvc1", h("05"), 4),), ONE, frame_type=5),
        h("d6 04 68766331 04 05"),
    ),
]  # fmt: skip

AUDIO: list[tuple[str, LegacyAudio | ExtendedAudio, bytes]] = [
    ("AAC header", LegacyAudio(10, packet_type=0, body=h("1190")), h("af 00 1190")),
    ("AAC frame", LegacyAudio(10, packet_type=1, body=h("21")), h("af 01 21")),
    ("MP3", LegacyAudio(2, 3, True, False, body=h("fffb")), h("2e fffb")),
    ("MP3 of 8 kHz", LegacyAudio(14, 0, True, False, body=h("ff")), h("e2 ff")),
    ("ADPCM", LegacyAudio(1, 1, True, False, body=h("80")), h("16 80")),
    ("PCM, little-endian", LegacyAudio(3, 3, True, True, body=h("0080")), h("3f 0080")),
    ("Nellymoser of 16 kHz", LegacyAudio(4, 0, True, False, body=h("80")), h("42 80")),
    ("Nellymoser of 8 kHz", LegacyAudio(5, 0, True, False, body=h("80")), h("52 80")),
    ("Nellymoser", LegacyAudio(6, 2, True, False, body=h("80")), h("6a 80")),
    ("G.711, A-law", LegacyAudio(7, 0, True, False, body=h("d5")), h("72 d5")),
    ("G.711, mu-law", LegacyAudio(8, 0, True, False, body=h("ff")), h("82 ff")),
    ("sound of a device", LegacyAudio(15, 0, False, False, body=h("00")), h("f0 00")),
    ("8 bits", LegacyAudio(0, 1, False, True, body=h("80")), h("05 80")),
    ("Speex", LegacyAudio(11, 0, True, False), h("b2")),
    ("Opus header", ExtendedAudio(A.SEQUENCE_START, (Track(b"Opus", b"OpusHead"),)), b"\x90OpusOpusHead"),
    ("AC-3 header, which is empty", ExtendedAudio(A.SEQUENCE_START, (Track(b"ac-3"),)), b"\x90ac-3"),
    ("E-AC-3 frame", ExtendedAudio(A.CODED_FRAMES, (Track(b"ec-3", h("0b77")),)), h("91 65632d33 0b77")),
    ("end of FLAC", ExtendedAudio(A.SEQUENCE_END, (Track(b"fLaC"),)), h("92 664c6143")),
    ("channels of MP3", ExtendedAudio(A.MULTICHANNEL_CONFIG, (Track(b".mp3", h("0002")),)), h("94 2e6d7033 0002")),
    ("a packet type that is reserved", ExtendedAudio(3, (Track(b"mp4a", h("00")),)), h("93 6d703461 00")),
    (
        "an offset of 999,999 ns",
        ExtendedAudio(A.CODED_FRAMES, (Track(b"mp4a", h("21")),), mod_ex=(ModEx(0, h("0f423f")),)),
        h("97 02 0f423f 01 6d703461 21"),
    ),
    ("one track", ExtendedAudio(A.CODED_FRAMES, (Track(b"mp4a", h("21"), 1),), ONE), h("95 01 6d703461 01 21")),
    (
        "many tracks",
        ExtendedAudio(A.CODED_FRAMES, (Track(b"Opus", h("fc"), 0), Track(b"Opus", b"", 1)), MANY),
        h("95 11 4f707573 00 000001 fc 01 000000"),
    ),
    (
        "many codecs",
        ExtendedAudio(A.CODED_FRAMES, (Track(b"Opus", h("fc"), 0), Track(b"mp4a", h("21"), 7)), CODECS),
        h("95 21 4f707573 00 000001 fc 6d703461 07 000001 21"),
    ),
]

# (payload, what is wrong with it, how many tracks were read before)
FAULTY_VIDEO: list[tuple[str, str, int]] = [
    ("17 01 0000", "the header is cut off", 0),
    ("57", "the header is cut off", 0),
    ("17 03 000000", "the packet type is unknown", 0),
    ("19 00", "the codec id is unknown", 0),
    ("90 687663", "the FourCC is cut off", 0),
    ("91 68766331 0000", "the composition time is cut off", 0),
    ("d1", "the command is cut off", 0),
    ("97", "an extension is cut off", 0),
    ("97 ff00", "an extension is cut off", 0),
    ("97 02 000001", "an extension is cut off", 0),
    ("97" + " 00 00 07" * 9 + " 00 00 03 68766331", "more than 8 extensions", 0),
    ("96", "the kind of multitrack is cut off", 0),
    ("96 31 68766331 00", "the kind of multitrack is unknown", 0),
    ("96 06 68766331 00", "a multitrack within a multitrack", 0),
    ("96 17 68766331 00", "a multitrack within a multitrack", 0),
    ("96 03 68766331", "a track is cut off", 0),
    ("96 13 68766331", "no track in a message of tracks", 0),
    ("96 23", "no track in a message of tracks", 0),
    ("96 13 68766331 00 000001 aa 01 000002 bb", "a track is cut off", 1),
    ("96 13 68766331 00 000001 aa 01 0000", "a track is cut off", 1),
    ("96 11 68766331 00 000003 000000 01 000002 0000", "the composition time is cut off", 1),
    ("96 23 68766331 00 000001 aa 6176", "the FourCC is cut off", 1),
    ("96 13 68766331" + " 00 000000" * 33, "more than 32 tracks", 32),
]

FAULTY_AUDIO: list[tuple[str, str, int]] = [
    ("af", "the header is cut off", 0),
    ("af 02", "the packet type is unknown", 0),
    ("90 4f70", "the FourCC is cut off", 0),
    ("97 00", "an extension is cut off", 0),
    ("95 05 6d703461 00", "a multitrack within a multitrack", 0),
    ("95 11 6d703461 00 ffffff aa", "a track is cut off", 0),
]


def write_video(video: LegacyVideo | ExtendedVideo) -> bytes:
    return media.write_video(video) if isinstance(video, ExtendedVideo) else write_legacy_video(video)


def write_audio(audio: LegacyAudio | ExtendedAudio) -> bytes:
    return media.write_audio(audio) if isinstance(audio, ExtendedAudio) else write_legacy_audio(audio)


def write_legacy_video(video: LegacyVideo) -> bytes:
    first = bytes((video.frame_type << 4 | video.codec,))
    if video.command is not None:
        return first + bytes((video.command,))
    if video.packet_type is None:
        return first + video.body
    return first + bytes((video.packet_type,)) + video.composition_time_ms.to_bytes(3, "big", signed=True) + video.body


def write_legacy_audio(audio: LegacyAudio) -> bytes:
    first = audio.sound_format << 4 | audio.rate_index << 2 | audio.is_16_bit << 1 | audio.is_stereo
    packet_type = b"" if audio.packet_type is None else bytes((audio.packet_type,))
    return bytes((first,)) + packet_type + audio.body


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
