"""The program that makes a small picture of a keyframe. Run by its path, in a process of its own:

    python -I decoder.py MEMORY_BYTES SECONDS

It writes READY into the socket that is its standard input, then reads requests from there, and answers each:

    request   decoder's name (16 bytes, padded with NUL)  width (16 bits)  height (16)  most pixels (32)
              size of the codec's header (32)  size of the keyframe (32)  header  keyframe
    answer    1 or 0 (8 bits)  size (32)  a WebP picture, at most so wide and high, or why there is none (UTF-8)

What it decodes is whatever a peer sends as a keyframe, and FFmpeg's decoders are large: so this may crash, hang or ask
for any amount of memory. It ends by itself when a request takes SECONDS, when it has more than MEMORY_BYTES, and when
the other end is closed. It imports nothing of the project, has an empty environment, and can make no file.

The server imports this file for what stands in requests and answers, and not PyAV with it, which loads all of FFmpeg.
"""

import os
import resource
import signal
import socket
import struct
import sys
from typing import Any

REQUEST = struct.Struct(">16sHHIII")
ANSWER = struct.Struct(">BI")

READY = b"\x01"
NICENESS = 10
"""Of 19: less, and on a busy machine a picture takes longer than it may."""
QUALITY = "60"
"""Of 100. 320x180 is 5 to 15 kB."""
METHOD = "2"
"""Of 0 (fast) to 6 (small)."""


class NoPictureError(Exception):
    """The keyframe can't be decoded; its text says why."""


def picture(decoder: str, header: bytes, keyframe: bytes, size: tuple[int, int], most_pixels: int) -> bytes:
    """A WebP picture of at most `size`, in the ratio in which the keyframe is shown. Raises NoPictureError."""
    import av

    try:
        return _encode(_decode(decoder, header, keyframe, most_pixels), *size)
    except (av.FFmpegError, ValueError, MemoryError, OverflowError) as error:
        raise NoPictureError(f"{type(error).__name__}: {error}") from error


def _decode(decoder: str, header: bytes, keyframe: bytes, most_pixels: int) -> tuple[Any, Any]:
    """The frame, and the ratio of a pixel's sides (None: 1)."""
    import av

    context: Any = av.CodecContext.create(decoder, "r")
    context.thread_count = 1
    context.options = {"max_pixels": str(most_pixels)}
    if header:
        context.extradata = header
    # A decoder may keep the frame until it knows that nothing comes before it.
    for frame in [*context.decode(av.Packet(keyframe)), *context.decode(None)]:
        return frame, context.sample_aspect_ratio
    raise NoPictureError("the decoder gives no picture")


def _encode(found: tuple[Any, Any], most_width: int, most_height: int) -> bytes:
    import av
    from av.video.reformatter import ColorRange, Interpolation

    frame, aspect = found
    shown_width = frame.width * (float(aspect) if aspect else 1.0)
    scale = min(most_width / shown_width, most_height / frame.height, 1.0)
    width, height = _even(shown_width * scale, most_width), _even(frame.height * scale, most_height)
    small = frame.reformat(
        width,
        height,
        "yuv420p",
        src_colorspace=_colorspace(frame),
        dst_colorspace=BT601,  # As WebP has it.
        dst_color_range=ColorRange.MPEG,
        interpolation=Interpolation.AREA,
        threads=1,
    )
    small.pts = 0
    context: Any = av.CodecContext.create("libwebp", "w")
    context.width, context.height, context.pix_fmt = width, height, "yuv420p"
    context.thread_count = 1
    context.options = {"quality": QUALITY, "compression_level": METHOD}
    return b"".join(bytes(packet) for packet in [*context.encode(small), *context.encode(None)])


def _even(length: float, most: int) -> int:
    return min(max(round(length / 2) * 2, 2), most)


BT709, UNSPECIFIED, BT601 = 1, 2, 5
"""Of AVColorSpace."""
HD_HEIGHT = 720


def _colorspace(frame: Any) -> int:
    """Where a stream says none, players take large pictures for BT.709, small ones for BT.601."""
    if frame.colorspace == UNSPECIFIED:
        return BT709 if frame.height >= HD_HEIGHT else BT601
    return int(frame.colorspace)


def _read(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or SystemExit where the other end is closed."""
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 20))
        if not part:
            raise SystemExit
        data += part
    return bytes(data)


def _confine(memory_bytes: int) -> None:
    os.nice(NICENESS)
    for limit, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 16),
    ):
        resource.setrlimit(limit, (value, value))


def main() -> None:
    import av

    memory_bytes, seconds = int(sys.argv[1]), float(sys.argv[2])
    _confine(memory_bytes)
    av.logging.set_level(None)
    connection = socket.socket(fileno=0)
    connection.sendall(READY)
    while True:
        name, width, height, most_pixels, header_size, keyframe_size = REQUEST.unpack(_read(connection, REQUEST.size))
        header, keyframe = _read(connection, header_size), _read(connection, keyframe_size)
        signal.setitimer(signal.ITIMER_REAL, seconds)  # SIGALRM, which nothing handles, ends the process.
        try:
            found = picture(name.rstrip(b"\0").decode(), header, keyframe, (width, height), most_pixels)
            is_picture = True
        except NoPictureError as error:
            found, is_picture = str(error).encode()[:200], False
        signal.setitimer(signal.ITIMER_REAL, 0)
        connection.sendall(ANSWER.pack(is_picture, len(found)) + found)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # A terminal's Ctrl-C is the server's affair.
    main()
