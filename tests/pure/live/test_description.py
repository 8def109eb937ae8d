"""What a stream is, as its headers and frames tell, and onMetaData made safe to keep. How codecs are read is tested in
tests/pure/rtmp/codecs.
"""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.clean import encoder_name
from ingest.contracts import MediaInfo
from ingest.live.description import (
    AUDIO_FIELDS,
    MAX_READINGS_PER_S,
    claimed,
    describe_audio,
    describe_video,
    sanitise,
)
from ingest.live.media import audio_tag, video_tag
from ingest.rtmp.amf import UNDEFINED, Date
from ingest.rtmp.media import ExtendedVideo, Track, write_video
from ingest.rtmp.media_tags import MultitrackType, VideoPacket
from tests.pure.live.payloads import (
    AAC_HEADER,
    avc_header,
    inter,
    keyframe,
    make_stream,
    publisher,
    relay,
    session,
    sound,
    started,
)
from tests.pure.rtmp.codecs.test_encoders import VECTORS, vector
from tests.pure.rtmp.codecs.test_video import sps
from tests.rtmpdecode import decode_stream

NOTHING = MediaInfo()
CAPTURES = Path(__file__).parents[2] / "captures"


def measure_video(payload: bytes, known: MediaInfo = NOTHING) -> dict[str, Any]:
    return dict(describe_video(known, video_tag(payload), payload))


def measure_audio(text: str, known: MediaInfo = NOTHING) -> dict[str, Any]:
    payload = bytes.fromhex(text)
    return dict(describe_audio(known, audio_tag(payload), payload))


def test_video_header_gives_codec_size_profile_and_bit_depth() -> None:
    assert measure_video(avc_header()) == {
        "video_codec": "H.264",
        "video_codec_string": "avc1.640028",
        "width": 1920,
        "height": 1080,
        "profile": "High",
        "level": "4.0",
        "bit_depth": 8,
    }
    found = measure_video(vector("x265 4:2:2 10", "header"))
    assert (found["profile"], found["level"], found["bit_depth"]) == ("Range Extensions", "2.0", 10)
    assert measure_video(vector("x264 high", "header"))["frame_rate"] == 29.97


def test_new_video_header_replaces_all_known_video_fields() -> None:
    known = MediaInfo(video_codec="H.264", width=1, height=1, profile="Main", level="3.0", sample_rate=48000)
    assert measure_video(b"\x17\0\0\0\0", known) == {"video_codec": "H.264"}
    assert measure_video(vector("VP9", "header"), known) == {
        "video_codec": "VP9",
        "video_codec_string": "vp09.00.11.08",
        "profile": "Profile 0",
        "level": "1.1",
        "bit_depth": 8,
    }


def test_keyframe_adds_the_picture_size_to_the_headers_fields() -> None:
    known = MediaInfo(video_codec="VP9", profile="Profile 0", level="1.1", audio_codec="Opus")
    expected = {"video_codec": "VP9", "profile": "Profile 0", "level": "1.1", "bit_depth": 8}
    expected |= {"width": 322, "height": 182}
    assert measure_video(vector("VP9", "frame"), known) == expected
    assert measure_video(vector("VP9", "frame"), MediaInfo(**{**known, "width": 64, "height": 64})) == expected
    assert measure_video(vector("aom", "frame"), known) == {
        "video_codec": "AV1",
        "video_codec_string": "av01.0.00M.08",
        "profile": "Main",
        "level": "2.0",
        "bit_depth": 8,
        "width": 322,
        "height": 182,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("af00 1210", ("AAC-LC", "mp4a.40.2", 44100, 2)),
        ("af00 2b09 88", ("HE-AAC", "mp4a.40.5", 48000, 1)),
        ("af00 1388 56e5 a548 80", ("HE-AACv2", "mp4a.40.29", 44100, 2)),
        ("2f ff", ("MP3", "mp3", 44100, 2)),
        ("2f fffb 94c4", ("MP3", "mp3", 48000, 1)),
        ("b2 00", ("Speex", None, 16000, 1)),
        ("90 4f707573 4f70757348656164 01 02 3801 80bb0000 0000 00", ("Opus", "opus", 48000, 2)),
        ("95 00 4f707573 02 4f70757348656164 01 02 3801 80bb0000 0000 00", ("Opus", "opus", 48000, 2)),
    ],
)
def test_audio_message_gives_codec_sample_rate_and_channels(
    text: str, expected: tuple[str, str | None, int, int]
) -> None:
    found = dict(zip(AUDIO_FIELDS, expected, strict=True))
    assert measure_audio(text) == {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize("text", ["af00", "af00 ff", "90 664c6143 00", "90 61632d33", "95 10 4f707573"])
def test_sound_that_can_not_be_read_has_its_codec_alone(text: str) -> None:
    assert set(measure_audio(text)) <= {"audio_codec", "audio_codec_string"}


def test_audio_frame_adds_to_or_replaces_the_headers_fields() -> None:
    aac = MediaInfo(audio_codec="HE-AAC", sample_rate=48000, channels=2)
    assert measure_audio("af01 21", MediaInfo(**aac, width=320)) == aac
    mp3 = {"audio_codec": "MP3", "audio_codec_string": "mp3", "sample_rate": 48000, "channels": 1}
    assert measure_audio("2f fffb 94c4", aac) == mp3
    opus = MediaInfo(audio_codec="Opus", audio_codec_string="opus", sample_rate=48000)
    assert measure_audio("94 4f707573 01 06 0000003f", opus) == {**opus, "channels": 6}


@pytest.mark.parametrize("each", VECTORS, ids=[each["name"] for each in VECTORS])
def test_header_and_first_frame_describe_a_stream_of_any_codec(each: dict[str, Any]) -> None:
    """Header and first frame are enough for a stream to know what FFmpeg's libraries do."""
    stream = started()
    take = stream.video if each["kind"] == "video" else stream.audio
    for part in ("header", "frame"):
        if part in each:
            take(0, bytes.fromhex(each[part]), 0.0)
    for field in ("width", "height", "sample_rate", "channels"):
        assert stream.media.get(field) == each["read"].get(field)


def test_picture_size_is_updated_at_each_keyframe() -> None:
    stream = started()
    for name in ("Sorenson", "Sorenson 352x288", "Sorenson 160x120"):
        stream.video(0, vector(name, "frame"), 0.0)
        assert (stream.media["width"], stream.media["height"]) in {(322, 182), (352, 288), (160, 120)}
    assert stream.media == {"video_codec": "H.263", "width": 160, "height": 120, "bit_depth": 8}


def test_further_tracks_are_listed_but_leave_the_description_unchanged() -> None:
    stream = started()
    relay(stream, (0, avc_header()), (0, AAC_HEADER))
    known = dict(stream.media)
    small = sps(width_mbs=1, height_units=1)
    stream.video(0, b"\x96\x00avc1\x01" + avc_header(small)[5:], 0.0)
    stream.audio(0, bytes.fromhex("95 00 6d703461 01 1210"), 0.0)
    stream.audio(1, bytes.fromhex("95 01 2e6d7033 01 fffb94c4"), 0.0)
    for number in range(3):
        stream.video(number, keyframe(number) if number == 0 else inter(number), 0.0)
        stream.audio(number, sound(number), 0.0)
    others = [{"kind": "audio", "track": 1, "codec": "MP3"}, {"kind": "video", "track": 1, "codec": "H.264"}]
    assert stream.media == {**known, "tracks": others}
    stream.stop("session-1", 1.0)
    stream.start(publisher(), 2.0)
    stream.video(0, avc_header(), 2.0)
    assert "tracks" not in stream.media, "another publisher has tracks of its own"


def tracks_of(*payloads: bytes) -> list[tuple[str, int, str]]:
    """What a stream tells of its other tracks after these messages of video."""
    stream = started()
    for payload in payloads:
        stream.video(0, payload, 0.0)
    return [(found["kind"], found["track"], found["codec"]) for found in stream.media.get("tracks", [])]


def one_track(number: int, fourcc: bytes = b"av01", packet: VideoPacket = VideoPacket.CODED_FRAMES) -> bytes:
    return write_video(ExtendedVideo(packet, (Track(fourcc, b"x", number),), MultitrackType.ONE_TRACK))


def test_further_tracks_are_listed_by_kind_number_and_codec() -> None:
    assert tracks_of(one_track(0), one_track(1), one_track(2, b"hvc1")) == [("video", 1, "AV1"), ("video", 2, "H.265")]
    many = (Track(b"vp09", b"x", 3), Track(b"avc1", b"xxxx", 1))
    message = ExtendedVideo(VideoPacket.CODED_FRAMES, many, MultitrackType.MANY_TRACKS_MANY_CODECS)
    assert tracks_of(keyframe(1), write_video(message)) == [("video", 1, "H.264"), ("video", 3, "VP9")]
    assert tracks_of(write_video(message)) == [("video", 1, "H.264")], "the first of a message stands for the stream"
    assert tracks_of(one_track(2), one_track(1), one_track(0)) == [("video", 1, "AV1"), ("video", 2, "AV1")]
    assert tracks_of(one_track(1), keyframe(1)) == [("video", 1, "AV1")]
    assert tracks_of(one_track(1), b"\x91av", one_track(2)) == [("video", 2, "AV1")], "a faulty message is of no track"
    header = one_track(1, b"hvc1", VideoPacket.SEQUENCE_START)
    assert tracks_of(keyframe(1), one_track(1), header) == [("video", 1, "H.265")], "which replaces what it was"
    assert tracks_of(keyframe(1), inter(2)) == []
    assert len(tracks_of(*(one_track(number) for number in range(200)))) < MAX_READINGS_PER_S


def test_tracks_of_a_captured_multitrack_session_are_listed() -> None:
    stream = started()
    messages = decode_stream((CAPTURES / "ffmpeg9-publish-multitrack.c2s.bin").read_bytes())
    kinds: set[tuple[str, int]] = set()
    for message in messages:
        tag = {8: audio_tag, 9: video_tag}.get(message.type_id, lambda _: None)(message.payload)
        if tag is not None:
            take = stream.audio if message.type_id == 8 else stream.video
            take(message.timestamp, message.payload, message.timestamp / 1000)
            kinds.add(("audio" if message.type_id == 8 else "video", tag.track))
    told = {(found["kind"], found["track"]) for found in stream.media["tracks"]}
    assert told == kinds - {("audio", 0), ("video", 0)}
    assert told
    assert session(stream).meter.media_faults == 0


def test_a_flood_of_headers_is_relayed_but_not_read() -> None:
    told: list[MediaInfo] = []
    stream = make_stream()
    stream.start(replace(publisher(), on_description=lambda _, media: told.append(media)), 0.0)
    headers = [avc_header(sps(width_mbs=width, height_units=9)) for width in (10, 20)]
    for number in range(1000):
        stream.video(number, headers[number % 2], 0.0)
    assert len(told) == MAX_READINGS_PER_S
    stream.video(1000, headers[0], 0.9)
    assert stream.media["width"] == 320
    stream.video(1001, headers[0], 1.0)
    assert stream.media["width"] == 160


@given(st.binary(max_size=80))
def test_header_of_any_bytes_is_described_without_error(body: bytes) -> None:
    for payload in (b"\x17\0\0\0\0" + body, b"\x90hvc1" + body, b"\x91vp09" + body, b"\x90" + body):
        assert describe_video(NOTHING, video_tag(payload), payload)["video_codec"]
    for start in (b"\xaf\0", b"\x90Opus", b"\x90fLaC", b"\x91ec-3", b"\x95"):
        describe_audio(NOTHING, audio_tag(start + body), start + body)


TEXTS = st.text(max_size=5) | st.sampled_from(["long" * 100, ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | TEXTS | st.binary(max_size=5) | st.just(UNDEFINED),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for name, item in value.items() for text in (name, *texts_of(item))]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    return [value] if isinstance(value, str) else []


def test_sanitise_keeps_ordinary_metadata_unchanged() -> None:
    sent = {"width": 1920.0, "framerate": 29.97, "encoder": "obs-output module", "stereo": True, "2.1": False}
    found = sanitise(sent)
    assert found == sent
    assert isinstance(found["width"], int)


OBS = "obs-output module (libobs version 30.2.3)"


@pytest.mark.parametrize(
    ("flash_ver", "said", "name"),
    [
        ("FMLE/3.0 (compatible; FMSc/1.0)", OBS, OBS),
        ("FMLE/3.0", f" {OBS} ", OBS),
        ("LNX 9,0,124,2", "Lavf60.16.100", "Lavf60.16.100"),
        ("", OBS, OBS),
        ("FMLE/3.0 (compatible; Lavf61.7.100)", "Lavf61.7.100", "FMLE/3.0 (compatible; Lavf61.7.100)"),
        ("Wirecast/FM 14.1 FMLE/3.0 (compatible; FMSc/1.0)", "x", "Wirecast/FM 14.1 FMLE/3.0 (compatible; FMSc/1.0)"),
        ("FMLE/3.0 (compatible; FMSc/1.0)", None, "FMLE/3.0 (compatible; FMSc/1.0)"),
        ("FMLE/3.0 (compatible; FMSc/1.0)", " ", "FMLE/3.0 (compatible; FMSc/1.0)"),
        ("FMLE/3.0 (compatible; FMSc/1.0)", 5.0, "FMLE/3.0 (compatible; FMSc/1.0)"),
        ("FMLE/3.0 (compatible; FMSc/1.0)", "x" * 300, "x" * 255),
    ],
)
def test_encoder_name_is_chosen_from_flash_version_and_metadata(flash_ver: str, said: Any, name: str) -> None:
    assert encoder_name(flash_ver, {"encoder": said, "width": 1920}) == name
    assert encoder_name(name, {}) == name


def test_sanitise_replaces_values_that_json_cannot_hold() -> None:
    found = sanitise({"a": math.nan, "b": math.inf, "c": UNDEFINED, "d": Date(0.0), "e": Date(1e300), "f": 1e300})
    assert found == {"a": None, "b": None, "c": None, "d": "1970-01-01T00:00:00+00:00", "e": None, "f": 1e300}


def test_sanitise_makes_metadata_that_is_no_object_empty() -> None:
    for value in (None, 5.0, "text", [1.0], UNDEFINED):
        assert sanitise(value) == {}


def test_sanitise_cuts_off_excess_values() -> None:
    assert len(sanitise({f"key{number}": float(number) for number in range(10_000)})) == 256
    nested = sanitise({"list": [[0.0] * 200 for _ in range(200)]})
    assert len(json.dumps(nested)) < 3000


@settings(max_examples=60)
@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_sanitise_returns_json_of_bounded_depth_and_text_length(value: dict[str, Any]) -> None:
    found = sanitise(value)
    json.dumps(found, allow_nan=False)
    assert depth_of(found) <= 4
    assert all(len(text) <= 256 for text in texts_of(found))


def test_claimed_takes_only_positive_numbers_up_to_the_maximum() -> None:
    metadata = {"a": 30, "b": 0, "c": -1, "d": 1e9, "e": "30", "f": True, "g": None, "h": 29.97}
    believed = {name: claimed(metadata, name, most=1000) for name in (*metadata, "missing")}
    assert {name for name, value in believed.items() if value is not None} == {"a", "h"}
