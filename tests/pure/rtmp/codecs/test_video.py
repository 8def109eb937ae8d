"""Video that encoders at hand don't send, by the tables of the specifications."""

import re
from fractions import Fraction

import pytest

from ingest.rtmp.codecs import VideoConfig, video_config
from ingest.rtmp.codecs.bitstream import BitReader, leb128
from ingest.rtmp.media import read_video
from tests.pure.live.payloads import avc_header
from tests.pure.rtmp.codecs.test_encoders import header_by_ffmpeg, vector, video
from tests.pure.rtmp.wire import h


class Bits:
    """Writes bits, most significant first."""

    def __init__(self) -> None:
        self.text = ""

    def u(self, count: int, value: int) -> "Bits":
        self.text += format(value, f"0{count}b") if count else ""
        return self

    def ue(self, value: int) -> "Bits":
        digits = format(value + 1, "b")
        self.text += "0" * (len(digits) - 1) + digits
        return self

    def se(self, value: int) -> "Bits":
        return self.ue(2 * value - 1 if value > 0 else -2 * value)

    def to_bytes(self) -> bytes:
        padded = self.text + "1"
        padded += "0" * (-len(padded) % 8)
        return int(padded, 2).to_bytes(len(padded) // 8, "big")


def sps(
    *,
    width_mbs: int,
    height_units: int,
    profile: int = 100,
    constraints: int = 0,
    level: int = 40,
    crop: tuple[int, int, int, int] | None = None,
    frame_mbs_only: bool = True,
    chroma: int = 1,
    scaling: bool = False,
    set_id: int = 0,
) -> bytes:
    """A sequence parameter set with its NAL header, emulation prevention included."""
    bits = Bits().u(8, profile).u(8, constraints).u(8, level).ue(set_id)
    if profile >= 100:
        bits.ue(chroma)
        if chroma == 3:
            bits.u(1, 0)
        bits.ue(0).ue(0).u(1, 0).u(1, int(scaling))
        if scaling:
            # One list that ends at once (8 - 8 = 0), one of 16 differences of 0; the others are not given.
            bits.u(1, 1).se(-8).u(1, 1)
            for _ in range(16):
                bits.se(0)
            bits.u(6 if chroma != 3 else 10, 0)
    bits.ue(0).ue(0).ue(4)  # Frame numbers, picture order by its type 0.
    bits.ue(3).u(1, 0).ue(width_mbs - 1).ue(height_units - 1).u(1, int(frame_mbs_only))
    if not frame_mbs_only:
        bits.u(1, 0)
    bits.u(1, 1)
    bits.u(1, 1 if crop else 0)
    for edge in crop or ():
        bits.ue(edge)
    bits.u(1, 0)
    return b"\x67" + re.sub(rb"\0\0(?=[\0-\3])", b"\0\0\3", bits.to_bytes())


# --- H.264 ---


AVC = {
    "1920x1080 High 4.0 640028": sps(width_mbs=120, height_units=68, crop=(0, 0, 0, 4)),
    "1280x720 Main 3.1 4d001f": sps(width_mbs=80, height_units=45, profile=77, level=31),
    "640x360 Constrained Baseline 3.0 42c01e": sps(
        width_mbs=40, height_units=23, profile=66, constraints=0xC0, level=30, crop=(0, 0, 0, 4)
    ),
    "176x144 Baseline 1b 42100b": sps(width_mbs=11, height_units=9, profile=66, level=11, constraints=0x10),
    "176x144 High 1b 640009": sps(width_mbs=11, height_units=9, level=9),
    # Of fields.
    "1920x1080 High 5.2 640034": sps(width_mbs=120, height_units=34, level=52, frame_mbs_only=False, crop=(0, 0, 0, 2)),
    "3840x2160 High 10 5.1 6e0033": sps(width_mbs=240, height_units=135, profile=110, level=51, scaling=True),
    "320x180 High 4:4:4 Predictive 1.2 f4000c": sps(
        width_mbs=20, height_units=12, profile=244, level=12, chroma=3, crop=(0, 0, 0, 12)
    ),
    "314x180 High 4:2:2 1.2 7a000c": sps(
        width_mbs=20, height_units=12, profile=122, level=12, chroma=2, crop=(1, 2, 0, 12), scaling=True
    ),
    "16x16 profile 99 4.0 630028": sps(width_mbs=1, height_units=1, profile=99),
}
"""{size, profile, level and codec string: the parameter set}"""


@pytest.mark.parametrize(("told", "parameter_set"), AVC.items(), ids=AVC)
def test_avc_parameter_set_gives_size_profile_level_and_codec_string(told: str, parameter_set: bytes) -> None:
    found = video(avc_header(parameter_set))
    string = (found.codec_string or "").removeprefix("avc1.")
    assert f"{found.width}x{found.height} {found.profile} {found.level} {string}" == told


def test_emulation_prevention_is_undone() -> None:
    parameter_set = sps(width_mbs=40, height_units=23, profile=66, level=0, set_id=70, crop=(0, 0, 0, 4))
    assert parameter_set[2:5] == b"\x00\x00\x03"
    found = video(avc_header(parameter_set))
    assert (found.width, found.height) == (640, 360)


@pytest.mark.parametrize(
    "parameter_set",
    [
        sps(width_mbs=2000, height_units=10),  # 32,000 across.
        sps(width_mbs=1, height_units=1, crop=(0, 8, 0, 0)),  # Nothing is left.
    ],
)
def test_impossible_sizes_are_left_out(parameter_set: bytes) -> None:
    found = video(avc_header(parameter_set))
    assert (found.width, found.height, found.profile) == (None, None, "High")


def test_enhanced_avc_has_the_same_header() -> None:
    assert video(b"\x90avc1" + avc_header()[5:]) == video(avc_header())


# --- H.265 and H.266 ---


def test_the_codec_strings_of_the_specification() -> None:
    """ISO/IEC 14496-15, annex E: its examples."""
    hevc = h("90 68766331 01 01 60000000 b00000000000 5d f000 fc fd f8 f8 0000 0f 00")
    assert video(hevc).codec_string == "hvc1.1.6.L93.B0"
    bits = video(h("90 68766331 01 a1 40000000 000000000000 78 f000 fc fd f8 f8 0000 0f 00")).codec_string
    assert bits == "hvc1.B1.2.H120"
    vvc = h("90 76766331 ff 0065 5f 01 02 33 80 00 00 0500 02d0 1e00 00")
    found = video(vvc)
    assert (found.codec_string, found.level, found.width, found.height) == ("vvc1.1.L51.CQA", "3.1", 1280, 720)
    assert found.fps == 30.0


VPS = h("40010c04ffff01600000030090000003000003003c00009594aca5650240")
"""A video parameter set for up to three layers, made by x265: FFmpeg wants one."""


def hevc_header(sequence: bytes) -> bytes:
    """A record of Main, level 3.1, with a video's and a sequence's parameter set."""
    record = h("01 01 60000000 b00000000000 5d f000 fc fd f8 f8 0000 0f 02")
    for kind, unit in ((0x20, VPS), (0x21, sequence)):
        record += bytes((kind, 0, 1)) + len(unit).to_bytes(2, "big") + unit
    return b"\x90hvc1" + record


def hevc_sps(*, layers: int, all_layers: bool, scaling: bool, pcm: bool, aspect: int) -> bytes:
    """Of 640x352 less 4 at the right and 8 below, at 50 fps, with all that may stand before its timing."""
    bits = Bits().u(4, 0).u(3, layers).u(1, 1)
    general = Bits().u(8, 1).u(32, 0x60000000).u(48, 0xB00000000000)
    bits.text += general.text
    bits.u(8, 93)
    for index in range(layers):
        bits.u(1, index % 2).u(1, 1)
    if layers:
        bits.u(2 * (8 - layers), 0)
    for index in range(layers):
        bits.text += general.text if index % 2 else ""
        bits.u(8, 90)
    bits.ue(0).ue(1).ue(640).ue(352).u(1, 1).ue(0).ue(2).ue(0).ue(4)
    bits.ue(0).ue(0).ue(4).u(1, int(all_layers))
    for _ in range(layers + 1 if all_layers else 1):
        bits.ue(4).ue(2).ue(0)
    bits.ue(0).ue(3).ue(0).ue(3).ue(1).ue(1).u(1, int(scaling))
    if scaling:
        bits.u(1, 1)
        for size in range(4):
            for matrix in range(2 if size == 3 else 6):
                bits.u(1, matrix == 0)
                if matrix:
                    bits.ue(0)  # As its default.
                    continue
                if size > 1:
                    bits.se(0)
                for _ in range(min(64, 1 << (4 + 2 * size))):
                    bits.se(0)
    bits.u(2, 3).u(1, int(pcm))
    if pcm:
        bits.u(8, 0x77).ue(0).ue(1).u(1, 1)
    bits.ue(3)
    bits.ue(2).ue(1).ue(0).u(1, 1).ue(0).u(1, 1).ue(0).u(1, 0)  # Two pictures before, one after.
    bits.u(1, 1).u(1, 1).ue(0).u(1, 1).u(1, 0).u(1, 1).u(1, 1).u(1, 1)  # Told by the one before: all three, shifted.
    bits.u(1, 0).ue(2).ue(0).ue(3).u(1, 0).ue(1).u(1, 1)  # Two before.
    bits.u(1, 1).ue(1).u(8, 5).u(1, 1)  # A long-term one.
    bits.u(2, 3)
    bits.u(1, 1).u(1, 1).u(8, aspect)
    if aspect == 255:
        bits.u(16, 40).u(16, 33)
    bits.u(1, 1).u(1, 1).u(1, 1).u(4, 10).u(1, 1).u(24, 0x010101).u(1, 1).ue(0).ue(0)
    bits.u(3, 0).u(1, 1).ue(0).ue(0).ue(0).ue(0)
    bits.u(1, 1).u(32, 1).u(32, 50).u(1, 0).u(1, 0)
    bits.u(1, 0).u(1, 0)
    return b"\x42\x01" + escaped(bits.to_bytes())


def escaped(raw: bytes) -> bytes:
    """With emulation prevention."""
    found, zeros = b"", 0
    for byte in raw:
        if zeros >= 2 and byte <= 3:
            found += b"\x03"
            zeros = 0
        found += bytes((byte,))
        zeros = zeros + 1 if byte == 0 else 0
    return found


@pytest.mark.parametrize("aspect", [2, 255])
@pytest.mark.parametrize("pcm", [False, True])
@pytest.mark.parametrize("scaling", [False, True])
@pytest.mark.parametrize(("layers", "all_layers"), [(0, True), (2, False), (2, True)])
def test_hevc_parameter_set_with_all_parts_is_read_as_ffmpeg_reads_it(
    layers: int, all_layers: bool, scaling: bool, pcm: bool, aspect: int
) -> None:
    header = hevc_header(hevc_sps(layers=layers, all_layers=all_layers, scaling=scaling, pcm=pcm, aspect=aspect))
    found = video(header)
    assert (found.width, found.height, found.fps) == (636, 344, 50.0)
    assert found.sample_aspect == ((40, 33) if aspect == 255 else (12, 11))
    read = (found.width, found.height, found.fps, Fraction(*found.sample_aspect))
    assert read == header_by_ffmpeg("hevc", header[5:])


def test_a_vvc_record_with_its_box_and_without_a_profile() -> None:
    whole = vector("vvenc", "header")
    assert video(whole[:5] + bytes(4) + whole[5:]) == video(whole)
    at = whole.index(h("00 b8 0000")) + 4  # Where the arrays begin, after the height and the frame rate.
    found = video(whole[:5] + b"\xfe" + whole[at:])
    assert (found.width, found.height, found.codec_string) == (322, 182, "vvc1.1.L32")


@pytest.mark.parametrize("name", ["x264 high", "x265 main", "vvenc", "SVT-AV1"])
def test_only_the_start_of_a_long_header_is_looked_at(name: str) -> None:
    header = vector(name, "header")
    assert video(header + bytes(8 * 2**20)) == video(header)


def test_sets_behind_many_others_are_not_searched_for() -> None:
    """One array with more units than anybody sends, of which the last is the one."""
    header = vector("x265 main", "header")
    start, rest = header[: 5 + 22], header[5 + 22 :]
    parameter_set = rest[rest.index(h("42 01")) - 2 :]
    assert video(start + h("01 21 0001") + parameter_set).width == 322
    assert video(start + h("01 21 0001 0002 4201") + parameter_set).width is None
    assert video(start + h("11") + h("20 0000") * 16 + h("21 0001") + parameter_set).width is None


# --- AV1 and VP9 ---


def av1_sequence(*, timing: bool, reduced: bool = False, screen: int = 1) -> bytes:
    """A sequence header of 1920x1080 at 25 fps, level 5.1 High, with all that may stand before its size."""
    bits = Bits().u(3, 0).u(1, 0).u(1, int(reduced))
    if reduced:
        bits.u(5, 13)
    else:
        bits.u(1, int(timing))
        if timing:
            bits.u(32, 1).u(32, 50).u(1, 1).ue(1)  # Two ticks of 1/50 s a picture.
            bits.u(1, 1).u(5, 9).u(32, 1).u(5, 9).u(5, 9)
        bits.u(1, 1).u(5, 1)  # Display delays, two operating points.
        for _ in range(2):
            bits.u(12, 0).u(5, 13).u(1, 1)
            if timing:
                bits.u(1, 1).u(10, 1).u(10, 1).u(1, 0)
            bits.u(1, 1).u(4, 3)
    bits.u(4, 10).u(4, 10).u(11, 1919).u(11, 1079)
    if not reduced:
        bits.u(1, 1).u(4, 1).u(3, 1)  # Frame ids.
    bits.u(3, 7)
    if not reduced:
        bits.u(4, 15).u(1, 1).u(2, 3)
        bits.u(1, screen)
        if not screen:
            bits.u(1, 1)
        bits.u(1, 0).u(1, 0).u(3, 6)
    bits.u(3, 7).u(1, 1).u(1, 0).u(1, 1).u(8, 9).u(8, 16).u(8, 9).u(1, 0).u(2, 0)
    sequence = bits.to_bytes()
    return bytes((0x0A, len(sequence))) + sequence


@pytest.mark.parametrize("screen", [0, 1])
@pytest.mark.parametrize("timing", [False, True])
def test_av1(timing: bool, screen: int) -> None:
    found = video(b"\x91av01\x12\0" + av1_sequence(timing=timing, screen=screen))
    assert found == VideoConfig(
        "AV1", "av01.0.13H.10", "Main", "5.1", 1920, 1080, 25.0 if timing else None, 10, "4:2:0"
    )


def test_a_still_picture_of_av1() -> None:
    found = video(b"\x91av01" + av1_sequence(timing=False, reduced=True))
    assert (found.width, found.height, found.codec_string) == (1920, 1080, "av01.0.13M.10")


def test_av1_of_mpeg2_ts() -> None:
    """Its descriptor: tag, length, then as a record begins; there is no sequence header in it."""
    found = video(h("95 61763031 80 04 81 28 c0 00"))
    assert found == VideoConfig("AV1", "av01.1.08H.10", "High", "4.0", None, None, None, 10, "4:4:4")


def test_few_units_before_the_av1_sequence_header_are_skipped() -> None:
    padding = h("7e 00 02 aaaa")  # With an extension.
    assert video(b"\x91av01" + padding * 3 + av1_sequence(timing=False)).width == 1920
    assert video(b"\x91av01" + padding * 16 + av1_sequence(timing=False)).width is None


@pytest.mark.parametrize(
    ("text", "string", "level", "chroma"),
    [
        ("00 0a 82 02 02 02 0000", "vp09.00.10.08", "1.0", "4:2:0"),
        ("01000000 02 1f a0 09 10 09 0000", "vp09.02.31.10", "3.1", "4:2:0"),
        ("01 00 86 01 01 01 0000", "vp09.01.00.08", None, "4:4:4"),
        ("01 00 8e 01 01 01 0000", "vp09.01.00.08", None, None),
        ("00 0a 02 02 02 02 0000", None, None, None),  # No depth of 0.
    ],
)
def test_vp9_record_gives_codec_string_level_and_chroma(
    text: str, string: str | None, level: str | None, chroma: str | None
) -> None:
    found = video(b"\x90vp09" + h(text))
    assert (found.codec_string, found.level, found.chroma) == (string, level, chroma)


def test_vp8_has_the_same_record() -> None:
    assert video(h("90 76703038 00 0a 80 02 02 02 0000")).codec_string == "vp08.00.10.08"


@pytest.mark.parametrize(
    "text", ["a1 76703039 86000000000000000000", "91 76703039 88000000", "a1 76703038 11000000000000000000"]
)
def test_frames_that_are_no_keyframes_tell_nothing(text: str) -> None:
    found = video(h(text))
    assert (found.width, found.bit_depth) == (None, None)


# --- Flash's own ---


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("12 0000840100 00", (352, 288)),
        ("12 0000840180 00", (176, 144)),
        ("12 0000840200 00", (128, 96)),
        ("12 0000840280 00", (320, 240)),
        ("12 0000840300 00", (160, 120)),
        ("12 0000840380 00", (None, None)),
        ("12 0000840050 2d00", (160, 90)),
        ("12 0000840081 4000b400", (640, 360)),
        ("12 0000000080 00", (None, None)),
    ],
)
def test_sizes_of_sorenson_h263(text: str, size: tuple[int | None, int | None]) -> None:
    found = video(h(text))
    assert (found.codec, found.width, found.height) == ("H.263", *size)


@pytest.mark.parametrize("text", ["14 00", "15 00", "91 7a7a7a7a 00"])
def test_other_video_codecs_have_a_name_alone(text: str) -> None:
    found = video(h(text))
    assert found == VideoConfig(found.codec)
    assert found.codec in ("VP6", "zzzz")


@pytest.mark.parametrize("text", ["1702000000", "5700", "92 68766331", "d4 68766331 02", "90 6876", "19 00"])
def test_video_message_without_codec_data_has_no_config(text: str) -> None:
    assert video_config(read_video(h(text))) is None


# --- Bits ---


def test_bit_reader_refuses_numbers_that_end_too_early_or_never() -> None:
    reader = BitReader(h("a5"))
    assert (reader.bits(4), reader.flag(), reader.left) == (10, False, 3)
    for read, words in (
        (lambda: reader.skip(4), "too early"),
        (lambda: reader.bits(4), "too early"),
        (BitReader(bytes(20)).unsigned, "more than 32 bits"),
        (lambda: BitReader(Bits().ue(4).to_bytes()).at_most(3), "over 3"),
        (lambda: leb128(b"\x80" * 9, 0), "more than 8 bytes"),
        (lambda: leb128(b"\x80", 0), "too early"),
    ):
        with pytest.raises(ValueError, match=words):
            read()
    assert leb128(h("00 e58e26"), 1) == (624485, 4)
