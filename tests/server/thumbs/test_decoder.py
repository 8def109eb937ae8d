"""The decoder's process: pictures of all codecs, and what becomes of bytes that are none."""

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
from pathlib import Path

import pytest

from ingest.rtmp.limits import MIB
from ingest.server import thumbnail_decoder as decoder_program
from ingest.server.config import ThumbnailSettings
from ingest.server.thumbnails import PROGRAM, Decoder, LostError, Request, request_of
from tests.rtmpweb.processes import children, command
from tests.server.thumbs import clips
from tests.server_process import wait_for

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
    found = request_of(clips.keyframe_of(messages), SIDE)
    assert found is not None
    return found


FORMS: dict[str, Callable[[], tuple[bytes, ...] | list[bytes]]] = {
    "H.264": lambda: clips.clip("H.264"),
    "H.264 by FourCC": lambda: clips.with_fourcc(clips.clip("H.264"), b"avc1"),
    "H.265": lambda: clips.clip("H.265"),
    "H.265 10 bits": lambda: clips.clip("H.265 10 bits"),
    "H.265 by codec id": lambda: clips.with_codec_id(clips.clip("H.265"), 12),
    "AV1": lambda: clips.clip("AV1"),
    "AV1 by codec id": lambda: clips.with_codec_id(clips.clip("AV1"), 13),
    "VP9": lambda: clips.clip("VP9"),
    "VP8": clips.vp8,
    "tracks": lambda: clips.as_tracks(
        clips.with_fourcc(clips.clip("H.264"), b"avc1")[:2],
        clips.with_fourcc(clips.clip("H.264", "320x240"), b"avc1")[:2],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_codec_in_each_form_becomes_a_picture(decoder: Decoder, form: str) -> None:
    answer = decoder.ask(request(FORMS[form]()))
    assert answer.image, answer.reason
    assert clips.picture(answer.image).shape == (180, 320, 3)
    assert clips.shows_bars(answer.image), clips.bars_of(answer.image)
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
    answer = decoder.ask(request(clips.clip("H.264", size, options)))
    assert clips.picture(answer.image).shape[:2] == shape
    assert clips.shows_bars(answer.image), clips.bars_of(answer.image)
    assert len(answer.image) < 15_000


def test_codec_without_a_decoder_gives_no_request() -> None:
    for encoder in ("Sorenson", "VVC"):
        assert request_of(clips.keyframe_of(clips.clip(encoder)), SIDE) is None


def test_keyframe_without_its_sequence_header_gives_no_request() -> None:
    header, keyframe, *_ = clips.clip("H.264")
    assert request_of(clips.keyframe_of([keyframe]), SIDE) is None
    assert request_of(clips.keyframe_of([header, keyframe]), SIDE) is not None


def test_keyframe_over_the_side_limit_gives_no_request() -> None:
    found = clips.keyframe_of(clips.clip("H.264"))
    assert request_of(found, 640) is not None
    assert request_of(found, 639) is None
    assert request_of(clips.keyframe_of(clips.vp8()), 639) is None


def test_decoder_refuses_a_picture_over_its_own_side_limit() -> None:
    decoder = Decoder(replace(SETTINGS, side=400))
    answer = decoder.ask(request(clips.clip("H.264")))
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
    assert clips.shows_bars(decoder.ask(good["AV1"]).image)
    assert processes() == [pid]


def test_a_process_that_is_killed_costs_one_picture(decoder: Decoder) -> None:
    good = request(clips.clip("H.264"))
    decoder.ask(good)
    (pid,) = processes()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(LostError, match="ended by signal 9"):
        decoder.ask(good)
    assert decoder.ask(good).image
    assert processes() != [pid]


def test_decoder_process_is_replaced_after_its_limit_of_pictures() -> None:
    decoder = Decoder(replace(SETTINGS, pictures=2))
    good = request(clips.clip("H.264"))
    pids = []
    for _ in range(4):
        assert decoder.ask(good).image
        pids += processes()
    decoder.end()
    assert len(pids) == 4
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_decoder_makes_no_picture_over_its_memory_limit_and_goes_on() -> None:
    decoder = Decoder(replace(SETTINGS, memory_bytes=192 * MIB))
    huge = request(clips.clip("H.264", "8192x4608", "-frames:v 1"))
    small = request(clips.clip("H.264"))
    assert decoder.ask(small).image
    with suppress(LostError):  # A decoder that takes the refusal badly.
        assert not decoder.ask(huge).image
    assert decoder.ask(small).image
    decoder.end()


def test_decoder_process_has_lower_priority_and_no_server_environment(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTMPWEB_SECRET_KEY", "a secret")
    decoder.ask(request(clips.clip("H.264")))
    (pid,) = processes()
    assert b"secret" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0) + 10
    assert len(os.listdir(f"/proc/{pid}/fd")) == 3


def test_decoder_process_ends_when_the_servers_socket_closes() -> None:
    """Nobody is left to kill it: its other end is closed, as when the server is killed."""
    decoder = Decoder(SETTINGS)
    decoder.ask(request(clips.clip("H.264")))
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
        _, header, keyframe = request(clips.clip("H.264", "1920x1080"))
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
