"""The decoder's process: pictures of all codecs, and what becomes of bytes that are none."""

import io
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import av
import imageio_ffmpeg
import pytest

from ingest.flv import TagReader
from ingest.live.gop_cache import Keyframe
from ingest.rtmp.limits import MIB
from ingest.rtmp.media import ExtendedVideo, Track, read_video, write_video
from ingest.rtmp.media_tags import LegacyVideo, MultitrackType
from ingest.server import thumbnail_decoder as decoder_program
from ingest.server.config import ThumbnailSettings
from ingest.server.thumbnails import PROGRAM, Decoder, LostError, Request, request_of
from tests.pure.live.payloads import make_stream, publisher
from tests.pure.rtmp.media.test_media import write_legacy_video
from tests.rtmpweb.processes import children, command
from tests.server_process import wait_for

ENCODERS = {
    "H.264": "libx264 -preset ultrafast",
    "H.265": "libx265 -preset ultrafast -x265-params log-level=error",
    "H.265 10 bits": "libx265 -preset ultrafast -x265-params log-level=error -pix_fmt yuv420p10le",
    "AV1": "libsvtav1 -preset 12",
    "VP9": "libvpx-vp9 -deadline realtime -cpu-used 8",
    "Sorenson": "flv",
    "VVC": "libvvenc -preset faster -pix_fmt yuv420p10le",
}

BARS = {"grey": (191, 191, 191), "yellow": (191, 191, 0), "cyan": (0, 191, 191), "green": (0, 191, 0)}
BARS |= {"magenta": (191, 0, 191), "red": (191, 0, 0), "blue": (0, 0, 191)}
"""Of SMPTE's test picture, from the left, above: what each looks like in RGB."""


@cache
def clip(encoder: str, size: str = "640x360", options: str = "") -> tuple[bytes, ...]:
    """The video messages of an FLV of four of these pictures, by an encoder of `ENCODERS`."""
    source = ["-f", "lavfi", "-i", f"smptebars=size={size}:rate=10"]
    encode = ["-t", "0.4", "-c:v", *ENCODERS[encoder].split(), *options.split(), "-f", "flv", "-"]
    made = subprocess.run(
        [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", *source, "-pix_fmt", "yuv420p", *encode],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return tuple(tag.payload for tag in TagReader().feed(made.stdout) if tag.type_id == 9)


def keyframe_of(messages: tuple[bytes, ...] | list[bytes]) -> Keyframe:
    """The keyframe that a live stream keeps after these video messages."""
    stream = make_stream()
    stream.start(publisher(), 0.0)
    for number, payload in enumerate(messages):
        stream.video(number * 100, payload, number / 10)
    found = stream.cache.keyframe(-1.0, 4 << 20)
    assert found is not None
    return found


def with_codec_id(messages: tuple[bytes, ...], codec: int) -> list[bytes]:
    """Messages of Enhanced RTMP in the layout that AVC has: as some encoders send HEVC (12) and AV1 (13)."""
    made = []
    for message in map(read_video, messages):
        assert isinstance(message, ExtendedVideo)
        track = message.tracks[0]
        packet_type = int(not message.is_sequence_start)
        legacy = LegacyVideo(message.frame_type, codec, packet_type, track.composition_time_ms, body=track.body)
        made.append(write_legacy_video(legacy))
    return made


def with_fourcc(messages: tuple[bytes, ...], fourcc: bytes) -> list[bytes]:
    """Messages with a codec id in the enhanced form."""
    made = []
    for message in map(read_video, messages):
        assert isinstance(message, LegacyVideo)
        if message.packet_type in (0, 1):
            track = Track(fourcc, message.body, composition_time_ms=message.composition_time_ms)
            made.append(write_video(ExtendedVideo(message.packet_type or 0, (track,), frame_type=message.frame_type)))
    return made


def as_tracks(messages: list[bytes], others: list[bytes]) -> list[bytes]:
    """Two streams of messages as tracks 3 and 5 of one."""
    made = []
    for first, second in zip(map(read_video, messages), map(read_video, others), strict=True):
        assert isinstance(first, ExtendedVideo)
        assert isinstance(second, ExtendedVideo)
        tracks = (replace(second.tracks[0], track_id=5), replace(first.tracks[0], track_id=3))
        made.append(write_video(replace(first, tracks=tracks, multitrack=MultitrackType.MANY_TRACKS_MANY_CODECS)))
    return made


def vp8() -> list[bytes]:
    """FFmpeg has no FLV with VP8: an encoder's packet, behind the header that Enhanced RTMP gives it."""
    context: Any = av.CodecContext.create("libvpx", "w")
    context.width, context.height, context.pix_fmt, context.framerate = 640, 360, "yuv420p", 10
    with av.open("smptebars=size=640x360:rate=10", format="lavfi") as source:
        frame = next(source.decode(video=0)).reformat(format="yuv420p")
    packets = [*context.encode(frame), *context.encode(None)]
    return [write_video(ExtendedVideo(1, (Track(b"vp08", bytes(packets[0])),)))]


def picture(image: bytes) -> Any:
    """A WebP file's pixels."""
    container: Any
    with av.open(io.BytesIO(image)) as container:
        return next(container.decode(video=0)).to_ndarray(format="rgb24")


def bars_of(image: bytes) -> list[tuple[int, ...]]:
    """The colour in the middle of each bar."""
    pixels = picture(image)
    height, width, _ = pixels.shape
    return [
        tuple(int(value) for value in pixels[height // 3, width * (2 * number + 1) // (2 * len(BARS))])
        for number in range(len(BARS))
    ]


def shows_bars(image: bytes) -> bool:
    """Whether each bar is of its colour, as far as coding twice leaves it."""
    return all(
        abs(one - other) <= 8
        for found, right in zip(bars_of(image), BARS.values(), strict=True)
        for one, other in zip(found, right, strict=True)
    )


SETTINGS = ThumbnailSettings(picture_s=20.0, start_s=20.0)
SIDE = SETTINGS.side


@pytest.fixture
def decoder() -> Iterator[Decoder]:
    made = Decoder(SETTINGS)
    yield made
    made.end()
    assert not processes()


def processes() -> list[int]:
    """Of decoders that this process started."""
    return [pid for pid in children(os.getpid()) if "decoder.py" in command(pid)]


def request(messages: tuple[bytes, ...] | list[bytes]) -> Request:
    found = request_of(keyframe_of(messages), SIDE)
    assert found is not None
    return found


FORMS: dict[str, Callable[[], tuple[bytes, ...] | list[bytes]]] = {
    "H.264": lambda: clip("H.264"),
    "H.264 by FourCC": lambda: with_fourcc(clip("H.264"), b"avc1"),
    "H.265": lambda: clip("H.265"),
    "H.265 10 bits": lambda: clip("H.265 10 bits"),
    "H.265 by codec id": lambda: with_codec_id(clip("H.265"), 12),
    "AV1": lambda: clip("AV1"),
    "AV1 by codec id": lambda: with_codec_id(clip("AV1"), 13),
    "VP9": lambda: clip("VP9"),
    "VP8": vp8,
    "tracks": lambda: as_tracks(
        with_fourcc(clip("H.264"), b"avc1")[:2],
        with_fourcc(clip("H.264", "320x240"), b"avc1")[:2],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_codec_in_each_form_becomes_a_picture(decoder: Decoder, form: str) -> None:
    answer = decoder.ask(request(FORMS[form]()))
    assert answer.image, answer.reason
    assert picture(answer.image).shape == (180, 320, 3)
    assert shows_bars(answer.image), bars_of(answer.image)
    assert 0 < answer.took_s < SETTINGS.picture_s


@pytest.mark.parametrize(
    ("size", "options", "shape"),
    [
        ("1920x1080", "", (180, 320)),
        ("720x576", "-vf setsar=64/45", (180, 320)),
        ("640x480", "", (180, 240)),
        ("360x640", "", (180, 102)),
        ("160x90", "", (90, 160)),
        ("1280x64", "", (16, 320)),
    ],
)
def test_pictures_keep_the_display_aspect_ratio_and_the_colours(
    decoder: Decoder, size: str, options: str, shape: tuple[int, int]
) -> None:
    """Large ones say BT.709 or nothing, and small ones BT.601: the colours are right in each."""
    answer = decoder.ask(request(clip("H.264", size, options)))
    assert picture(answer.image).shape[:2] == shape
    assert shows_bars(answer.image), bars_of(answer.image)
    assert len(answer.image) < 15_000


def test_codec_without_a_decoder_gives_no_request() -> None:
    for encoder in ("Sorenson", "VVC"):
        assert request_of(keyframe_of(clip(encoder)), SIDE) is None


def test_keyframe_without_its_sequence_header_gives_no_request() -> None:
    header, keyframe, *_ = clip("H.264")
    assert request_of(keyframe_of([keyframe]), SIDE) is None
    assert request_of(keyframe_of([header, keyframe]), SIDE) is not None


def test_keyframe_over_the_side_limit_gives_no_request() -> None:
    found = keyframe_of(clip("H.264"))
    assert request_of(found, 640) is not None
    assert request_of(found, 639) is None
    assert request_of(keyframe_of(vp8()), 639) is None


def test_decoder_refuses_a_picture_over_its_own_side_limit() -> None:
    decoder = Decoder(replace(SETTINGS, side=400))
    answer = decoder.ask(request(clip("H.264")))
    decoder.end()
    assert not answer.image
    assert answer.reason


def test_garbage_and_broken_keyframes_do_not_end_the_decoder_process(decoder: Decoder) -> None:
    """Whatever the bytes are: an answer, and the same process makes the next picture."""
    random.seed(1)
    good = {name: request(FORMS[name]()) for name in ("H.264", "H.265", "AV1", "VP9", "VP8")}
    decoder.ask(good["H.264"])
    (pid,) = processes()
    for each in good.values():
        decoder.ask(each._replace(keyframe=random.randbytes(3000)))
        decoder.ask(each._replace(keyframe=each.keyframe[: len(each.keyframe) // 2]))
        decoder.ask(each._replace(header=random.randbytes(50)))
        decoder.ask(each._replace(header=each.header[:7]))
        for _ in range(10):
            broken = bytearray(each.keyframe)
            for at in random.sample(range(len(broken)), 3):
                broken[at] = random.randrange(256)
            decoder.ask(each._replace(keyframe=bytes(broken)))
    assert shows_bars(decoder.ask(good["AV1"]).image)
    assert processes() == [pid]


def test_a_process_that_is_killed_costs_one_picture(decoder: Decoder) -> None:
    good = request(clip("H.264"))
    decoder.ask(good)
    (pid,) = processes()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(LostError, match="ended by signal 9"):
        decoder.ask(good)
    assert decoder.ask(good).image
    assert processes() != [pid]


def test_decoder_process_is_replaced_after_its_limit_of_pictures() -> None:
    decoder = Decoder(replace(SETTINGS, pictures=2))
    good = request(clip("H.264"))
    pids = []
    for _ in range(4):
        assert decoder.ask(good).image
        pids += processes()
    decoder.end()
    assert len(pids) == 4
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_decoder_makes_no_picture_over_its_memory_limit_and_goes_on() -> None:
    decoder = Decoder(replace(SETTINGS, memory_bytes=192 * MIB))
    huge = request(clip("H.264", "8192x4608", "-frames:v 1"))
    small = request(clip("H.264"))
    assert decoder.ask(small).image
    with suppress(LostError):  # A decoder that takes the refusal badly.
        assert not decoder.ask(huge).image
    assert decoder.ask(small).image
    decoder.end()


def test_decoder_process_has_lower_priority_and_no_server_environment(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTMPWEB_SECRET_KEY", "a secret")
    decoder.ask(request(clip("H.264")))
    (pid,) = processes()
    assert b"secret" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0) + 10
    assert len(os.listdir(f"/proc/{pid}/fd")) == 3


def test_decoder_process_ends_when_the_servers_socket_closes() -> None:
    """Nobody is left to kill it: its other end is closed, as when the server is killed."""
    decoder = Decoder(SETTINGS)
    decoder.ask(request(clip("H.264")))
    assert decoder._socket is not None
    decoder._socket.close()
    wait_for(lambda: not processes(), timeout_s=5, what="the process has ended")
    decoder.end()


def test_decoder_process_ends_itself_when_a_picture_takes_too_long() -> None:
    """So it does not go on for ever where nobody is left to kill it."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([*PROGRAM, str(1024 * MIB), "0.0001"], stdin=theirs.fileno())
    theirs.close()
    with ours:
        _, header, keyframe = request(clip("H.264", "1920x1080"))
        asked = decoder_program.REQUEST.pack(b"h264", 320, 180, SIDE * SIDE, len(header), len(keyframe))
        ours.sendall(asked + header + keyframe)
        assert process.wait(10) == -signal.SIGALRM


READY = "import os, signal, socket, time; connection = socket.socket(fileno=0); connection.sendall(b'\\1');"
READ = f"connection.recv({decoder_program.REQUEST.size + MIB}, socket.MSG_WAITALL);"
SLEEP = "time.sleep(600)"
SHORT = replace(SETTINGS, picture_s=0.3)
BAD = {
    "hangs": (READY + "connection.recv(1); time.sleep(600)", "it took over 0.3 s", SHORT),
    "reads nothing": (READY + "time.sleep(600)", "it took over 0.3 s", SHORT),
    "crashes": (READY + "connection.recv(1); os.kill(os.getpid(), signal.SIGSEGV)", "it ended by signal 11", SETTINGS),
    "stops in the middle": (f"{READY} connection.sendall(bytes((1, 0, 0, 9, 9)) + b'RIFF'); {SLEEP}", "0.3 s", SHORT),
    "answers too much": (
        READY + READ + f"connection.sendall(bytes((1, 255, 0, 0, 0))); {SLEEP}",
        "4278190080",
        SETTINGS,
    ),
    "does not start": ("raise SystemExit(3)", "it ended with 3", SETTINGS),
    "is never ready": ("import time; time.sleep(600)", "it did not start within 0.3 s", replace(SETTINGS, start_s=0.3)),
}
"""What it does, what is said of it, and the settings, which are short only in what it passes."""


@pytest.mark.parametrize("how", BAD)
def test_misbehaving_decoder_is_ended_in_time_with_the_reason(how: str) -> None:
    program, words, settings = BAD[how]
    decoder = Decoder(settings, (sys.executable, "-I", "-S", "-c", program))
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(LostError, match=words):
            decoder.ask(Request("h264", b"", bytes(MIB)))
        assert time.monotonic() - began < 10
    assert not [pid for pid in children(os.getpid()) if "-S" in command(pid).split()]


def test_missing_decoder_program_is_reported() -> None:
    decoder = Decoder(SETTINGS, ("/nowhere/python",))
    with pytest.raises(LostError, match="can't be started: No such file"):
        decoder.ask(Request("h264", b"", b"x"))


def test_a_picture_may_take_two_seconds_where_nothing_else_is_set() -> None:
    assert ThumbnailSettings().picture_s == 2.0
