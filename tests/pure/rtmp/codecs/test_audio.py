"""Sound that encoders at hand don't send, by the tables of the specifications."""

import io
from typing import Any

import av
import pytest

from ingest.rtmp.codecs import AudioConfig
from tests.pure.rtmp.codecs.test_encoders import audio
from tests.pure.rtmp.codecs.test_video import Bits
from tests.pure.rtmp.wire import h, ids

# --- AAC ---

# (AudioSpecificConfig, profile, codec string, sample rate, channels)
AAC: list[tuple[str, str | None, int, int, int | None]] = [
    ("1210", "AAC-LC", 2, 44100, 2),
    ("1188", "AAC-LC", 2, 48000, 1),
    ("11b8", "AAC-LC", 2, 48000, 8),
    ("0a10", "AAC Main", 1, 44100, 2),
    ("2210", "AAC LTP", 4, 44100, 2),
    ("1780 5dc0 10", "AAC-LC", 2, 48000, 2),  # The rate as a number.
    ("2b09 8800", "HE-AAC", 5, 48000, 1),  # In front: core 24 kHz, extended to 48 kHz.
    ("eb8a 0800", "HE-AACv2", 29, 44100, 2),  # In front: core 22.05 kHz, mono.
    ("1390 56e5 a5", "HE-AAC", 5, 44100, 2),  # Behind.
    ("1390 56e5 00", "AAC-LC", 2, 22050, 2),  # Behind: there is none.
    ("1388 56e5 a548 80", "HE-AACv2", 29, 44100, 2),  # Behind, with parametric stereo.
    ("1388 56e5 a548 00", "HE-AAC", 5, 44100, 1),
    ("1188 56e5 98", "HE-AAC", 5, 48000, 1),  # Behind, at the rate of the core.
    ("1210 ffff ff", "AAC-LC", 2, 44100, 2),  # Behind: something else.
]


@pytest.mark.parametrize(("text", "profile", "kind", "rate", "channels"), AAC, ids=ids(AAC))
def test_aac(text: str, profile: str, kind: int, rate: int, channels: int) -> None:
    found = audio(b"\xaf\0" + h(text))
    assert found == AudioConfig("AAC", f"mp4a.40.{kind}", profile, rate, channels)
    assert audio(b"\x90mp4a" + h(text)).codec_string == found.codec_string


@pytest.mark.parametrize("text", [row[0] for row in AAC if not row[0].startswith("2210")])
def test_aac_sample_rate_is_the_one_that_ffmpeg_reads(text: str) -> None:
    assert audio(b"\xaf\0" + h(text)).sample_rate == rate_by_ffmpeg(h(text))


def rate_by_ffmpeg(config: bytes) -> int:
    """What FFmpeg's MP4 demuxer makes of an AudioSpecificConfig that its FLV demuxer and MP4 muxer carried over."""

    def tag(body: bytes) -> bytes:
        return b"\x08" + len(body).to_bytes(3, "big") + bytes(7) + body + (len(body) + 11).to_bytes(4, "big")

    flv = b"FLV\1\4\0\0\0\x09\0\0\0\0" + tag(b"\xaf\0" + config) + tag(b"\xaf\1" + bytes(20))
    mp4 = io.BytesIO()
    source: Any
    sink: Any
    with av.open(io.BytesIO(flv), format="flv") as source, av.open(mp4, "w", format="mp4") as sink:
        stream = sink.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux():
            if packet.size:
                packet.stream = stream
                sink.mux(packet)
    mp4.seek(0)
    with av.open(mp4, format="mp4") as container:
        return int(container.streams.audio[0].codec_context.sample_rate)


@pytest.mark.parametrize(
    ("text", "profile"),
    [("f94a 0120", "xHE-AAC"), ("f880 2000", None)],  # Object types 42 and 36, whose own configuration isn't read.
)
def test_unread_aac_object_types_still_have_a_codec_string(text: str, profile: str | None) -> None:
    found = audio(b"\xaf\0" + h(text))
    assert found.profile == profile
    assert found.codec_string in ("mp4a.40.42", "mp4a.40.36")


@pytest.mark.parametrize("text", ["", "ff", "1e90", "1680", "10"])
def test_unreadable_aac_configuration_has_no_rate_and_channels(text: str) -> None:
    found = audio(b"\xaf\0" + h(text))
    assert (found.sample_rate, found.channels) == (None, None)


# --- Others ---


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"\x90OpusOpusHead\x01\x06" + bytes(9), AudioConfig("Opus", "opus", None, 48000, 6)),
        (b"\x90Opus", AudioConfig("Opus", "opus", None, 48000)),
        (b"\x90OpusOpusHead\x11\x02" + bytes(9), AudioConfig("Opus", "opus", None, 48000)),  # Another version.
        (h("94 4f707573 01 06 0000003f"), AudioConfig("Opus", "opus", None, None, 6)),
        (h("94 4f707573 01"), AudioConfig("Opus", "opus")),
        (
            h("90 664c6143 664c6143 80000022 1000 1000 000000 000000 0ac440f0") + bytes(20),
            AudioConfig("FLAC", "flac", None, 44100, 1, 16),
        ),
        (
            h("90 664c6143 1000 1000 000000 000000 2ee0 0370") + bytes(20),
            AudioConfig("FLAC", "flac", None, 192000, 2, 24),
        ),
        (h("2f ff"), AudioConfig("MP3", "mp3", None, 44100, 2)),  # By the legacy header alone.
        (h("2f fffb 94c4"), AudioConfig("MP3", "mp3", "MPEG-1 Layer III", 48000, 1)),
        (h("e2 fff3 18c4"), AudioConfig("MP3", "mp3", "MPEG-2 Layer III", 16000, 1)),
        (h("e2 ffe3 18c4"), AudioConfig("MP3", "mp3", "MPEG-2.5 Layer III", 8000, 1)),
        (h("91 2e6d7033 fffd 9004"), AudioConfig("MP3", "mp3", "MPEG-1 Layer II", 44100, 2)),
        (h("91 2e6d7033 ffeb 9004"), AudioConfig("MP3", "mp3")),  # A reserved version.
        (h("b2 00"), AudioConfig("Speex", None, None, 16000, 1)),
        (h("72 00"), AudioConfig("G.711 A-law", None, None, 8000, 1)),
        (h("05 80"), AudioConfig("PCM", None, None, 11025, 2, 8)),
        (h("1e 80"), AudioConfig("ADPCM", None, None, 44100, 1)),
        (h("d0 80"), AudioConfig("unknown")),
        (h("91 7a7a7a7a 00"), AudioConfig("zzzz")),
        (h("91 61632d33 0b77 0000 00 58"), AudioConfig("AC-3", "ac-3", None, 48000, 2)),  # E-AC-3 by its version.
        (h("91 61632d33 0b77 0000 00 48 40"), AudioConfig("AC-3", "ac-3", None, 24000, 2)),  # Half of 48 kHz.
        (h("91 61632d33 0b77 0000 00 88 40"), AudioConfig("AC-3", "ac-3")),  # An unknown version.
    ],
)
def test_configuration_of_other_audio_codecs_is_read(payload: bytes, expected: AudioConfig) -> None:
    assert audio(payload) == expected


@pytest.mark.parametrize("low", [0, 1])
@pytest.mark.parametrize(("mode", "levels", "channels"), [
    (0, 0, 2), (1, 0, 1), (2, 1, 2), (3, 1, 3), (4, 1, 3), (5, 2, 4), (6, 1, 4), (7, 2, 5),
])  # fmt: skip
def test_channels_of_ac3(mode: int, levels: int, channels: int, low: int) -> None:
    """`levels`: fields of two bits, all zero, before the flag of the low frequencies (ETSI TS 102 366, 4.3.2)."""
    bits = Bits().u(16, 0x0B77).u(16, 0).u(8, 0x40).u(5, 8).u(3, 0).u(3, mode).u(2 * levels, 0).u(1, low).u(2, 3)
    assert audio(b"\x91ac-3" + bits.to_bytes()) == AudioConfig("AC-3", "ac-3", None, 44100, channels + low)


def test_a_program_config_element_with_all_that_it_may_have() -> None:
    """Three elements in front and behind, a low frequency, a comment; SBR behind it all (ISO/IEC 14496-3, 4.4.1.1)."""
    bits = Bits().u(5, 2).u(4, 6).u(4, 0).u(3, 0)
    bits.u(4, 1).u(2, 1).u(4, 6).u(4, 2).u(4, 0).u(4, 1).u(2, 1).u(3, 1).u(4, 1)
    bits.u(1, 1).u(4, 1).u(1, 1).u(4, 2).u(1, 1).u(3, 5)
    bits.u(5, 0).u(5, 17).u(5, 18).u(4, 0).u(4, 3).u(5, 9)
    bits.u(-len(bits.text) % 8, 0).u(8, 3).u(24, 0x414243)
    bits.u(11, 0x2B7).u(5, 5).u(1, 1).u(4, 3)
    assert audio(b"\xaf\0" + bits.to_bytes()) == AudioConfig("AAC", "mp4a.40.5", "HE-AAC", 48000, 6)


def eac3(kind: int, mode: int, low: int, *, mapped: int | None = None, rate: str = "0011") -> bytes:
    """A sync frame of E-AC-3 of 64 bytes (ETSI TS 102 366, E.1.2); `rate`: fscod, and fscod2 or the blocks."""
    bits = Bits().u(16, 0x0B77).u(2, kind).u(3, 0).u(11, 31)
    bits.text += rate
    bits.u(3, mode).u(1, low).u(5, 16).u(5, 31).u(1, 1).u(8, 0)
    if mode == 0:
        bits.u(5, 31).u(1, 0)
    if kind == 1:
        bits.u(1, mapped is not None)
        if mapped is not None:
            bits.u(16, mapped)
    return bits.to_bytes().ljust(64, b"\0")


@pytest.mark.parametrize(
    ("frames", "rate", "channels"),
    [
        (eac3(0, 7, 1), 48000, 6),
        (eac3(0, 0, 0), 48000, 2),
        (eac3(0, 2, 0, rate="1101"), 22050, 2),
        (eac3(0, 2, 0, rate="1111"), None, 2),
        (eac3(0, 7, 1) + eac3(1, 6, 0, mapped=0x1A00), 48000, 8),  # Ls, Rs again, and Lrs and Rrs: 7.1.
        (eac3(0, 7, 1) + eac3(1, 2, 0, mapped=0x0010), 48000, 8),  # A pair in front, high.
        (eac3(0, 7, 1) + eac3(1, 2, 0), 48000, 6),
        (eac3(0, 7, 1) + eac3(1, 0, 0, mapped=0x0080), 48000, 7),  # One more, above.
        (eac3(0, 2, 0) + eac3(0, 7, 1), 48000, 2),  # Another program.
        (eac3(0, 2, 0) + bytes(64), 48000, 2),
    ],
)
def test_channels_of_eac3(frames: bytes, rate: int | None, channels: int) -> None:
    assert audio(b"\x91ec-3" + frames) == AudioConfig("E-AC-3", "ec-3", None, rate, channels)
