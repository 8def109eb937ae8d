"""What messages hold, told from their first bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.live.media import Tag, audio_tag, video_tag

# (bytes, codec, what it is: h header, k keyframe, f other frame, d disposable frame, - neither, track)
VIDEO = [
    ("1700000000 0164001f", "H.264", "h", 0),
    ("1701000000 00000001", "H.264", "k", 0),
    ("2701000042 00000001", "H.264", "f", 0),
    ("3701000000 00000001", "H.264", "d", 0),
    ("4701000000 00000001", "H.264", "k", 0),
    ("1702000000", "H.264", "-", 0),
    ("1c00000000 01", "H.265", "h", 0),
    ("12 00008400", "H.263", "k", 0),
    ("22 00008400", "H.263", "f", 0),
    ("14 00 11", "VP6", "k", 0),
    ("90 68766331 01", "H.265", "h", 0),
    ("91 68766331 000085 00", "H.265", "k", 0),
    ("a1 68766331 000085 00", "H.265", "f", 0),
    ("a3 68766331 00", "H.265", "f", 0),
    ("b3 68766331 00", "H.265", "d", 0),
    ("92 68766331", "H.265", "-", 0),
    ("d4 68766331 02", "H.265", "h", 0),
    ("90 61763031 81", "AV1", "h", 0),
    ("95 61763031 80", "AV1", "h", 0),
    ("91 61763031 1200", "AV1", "k", 0),
    ("90 76703039 01000000", "VP9", "h", 0),
    ("91 76703038 00", "VP8", "k", 0),
    ("91 76766331 000000 00", "H.266", "k", 0),
    ("91 61766331 000000 00", "H.264", "k", 0),
    ("96 00 61766331 01 0164", "H.264", "h", 1),
    ("96 01 61766331 01 000000 00", "H.264", "k", 1),
    ("a6 13 61766331 02 000001 00", "H.264", "f", 2),
    ("97 02 000102 01 68766331 000000", "H.265", "k", 0),
    ("a7 ff 0100" + "00" * 257 + "03 68766331 00", "H.265", "f", 0),
    ("91 7a7a7a7a 00", "zzzz", "k", 0),
    ("91 ffffffff 00", "unknown", "k", 0),
    ("5700000000", "H.264", "-", 0),
    ("d6 04 68766331 03 02", "H.265", "h", 3),
    ("d6 04", "H.265", "-", 0),
    ("d6 01 68766331 03 02", "H.265", "-", 0),
]

AUDIO = [
    ("af00 1190", "AAC", "h", 0),
    ("af01 21", "AAC", "f", 0),
    ("2f ff", "MP3", "f", 0),
    ("b2 00", "Speex", "f", 0),
    ("72 00", "G.711 A-law", "f", 0),
    ("82 00", "G.711 mu-law", "f", 0),
    ("3e 00", "PCM", "f", 0),
    ("90 4f707573 4f707573", "Opus", "h", 0),
    ("91 4f707573 fc", "Opus", "f", 0),
    ("92 4f707573", "Opus", "-", 0),
    ("94 4f707573 0101", "Opus", "h", 0),
    ("90 61632d33", "AC-3", "h", 0),
    ("91 65632d33 0b77", "E-AC-3", "f", 0),
    ("91 664c6143 ff", "FLAC", "f", 0),
    ("91 2e6d7033 ff", "MP3", "f", 0),
    ("95 00 6d703461 01 1190", "AAC", "h", 1),
    ("95 01 6d703461 01 21", "AAC", "f", 1),
    ("", "", "f", 0),
]


def kind_of(tag: Tag) -> str:
    if tag.is_header:
        return "h"
    if tag.is_keyframe:
        return "k"
    if tag.is_disposable:
        return "d"
    return "f" if tag.is_frame else "-"


@pytest.mark.parametrize(("text", "codec", "kind", "track"), VIDEO)
def test_video(text: str, codec: str, kind: str, track: int) -> None:
    tag = video_tag(bytes.fromhex(text))
    assert (kind_of(tag), tag.track) == (kind, track)
    if kind != "-":
        assert tag.codec == codec


@pytest.mark.parametrize(("text", "codec", "kind", "track"), AUDIO)
def test_audio(text: str, codec: str, kind: str, track: int) -> None:
    tag = audio_tag(bytes.fromhex(text))
    assert (kind_of(tag), tag.track) == (kind, track)
    if kind != "-":
        assert tag.codec == codec


def test_headers_of_different_tracks_and_kinds_have_slots_of_their_own() -> None:
    sequence, colour, other_track = ("90 68766331 01", "d4 68766331 02", "96 00 68766331 01 01")
    slots = {video_tag(bytes.fromhex(text)).slot for text in (sequence, colour, other_track)}
    assert len(slots) == 3


@given(st.binary(max_size=40))
def test_no_payload_is_too_strange(payload: bytes) -> None:
    for tag in (video_tag(payload), audio_tag(payload)):
        assert not (tag.is_header and tag.is_frame)
        assert not tag.is_keyframe or tag.is_frame
        assert tag.codec.isprintable()


def test_a_chain_of_extensions_is_not_followed_for_ever() -> None:
    endless = b"\x97" + bytes.fromhex("00 00 07") * 100_000
    assert not video_tag(endless).is_frame
