"""One track: its frames come in, and come out as fragments of MP4, one each, by libav's muxer.

A fragment needs its frame's duration, so it is there when the next frame comes (`flush`: when none will). What comes
out is the same whatever else is packaged: one muxer has one track, and renditions put fragments together.

Video counts in 1/90,000 s, exact multiples of RTMP's milliseconds. Audio counts in samples from the time of its first
frame on, and again from a frame whose RTMP time is further away than its rounding explains. So neither drifts, and each
frame is within 1 ms of its RTMP time."""

from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from typing import Any, Final

from ingest.hls.codecs import CODECS, Config, bare_header, name_of, read_config
from ingest.hls.frames import Frame, Key
from ingest.hls.initialisation import without_header
from ingest.rtmp.codecs import AudioConfig, VideoConfig

VIDEO_RATE: Final = 90_000
TRACK_NUMBERS: Final = {"video": 1, "audio": 2}
"""In the file: a rendition has one of a kind at most."""
MOST_OFF_MS: Final = 1.0
"""Audio whose time is further from RTMP's is counted anew."""
USUAL_FRAME_S: Final = 1 / 30
LAYOUTS: Final = {1: "mono", 2: "stereo", 3: "2.1", 4: "quad", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}

OPTIONS: Final = {
    "avoid_negative_ts": "disabled",
    "use_editlist": "0",
    "use_stream_ids_as_track_ids": "1",
    "video_track_timescale": str(VIDEO_RATE),
}
FLAGS: Final = "empty_moov+default_base_moof+frag_every_frame+frag_discont+skip_trailer"
DELAYED: Final = FLAGS + "+delay_moov"


def libav_errors() -> tuple[type[Exception], ...]:
    """What PyAV raises for media that libav refuses."""
    import av  # Loads FFmpeg's libraries, which a packager needs once it has something to package.

    return (av.FFmpegError, ValueError, OverflowError, MemoryError)


class UnfitTrackError(Exception):
    """It can't be carried by HLS; the text is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """moof and mdat of one frame."""

    track: "Track"
    start: float
    """Seconds of the packaging's time, of decoding."""
    duration: float
    is_keyframe: bool
    data: bytes

    @property
    def end(self) -> float:
        return self.start + self.duration


class _Sink:
    """What libav writes to."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._written.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        taken = b"".join(self._written)
        self._written.clear()
        return taken


class Track:
    def __init__(self, key: Key, fourcc: bytes, header: bytes, frame: Frame) -> None:
        """`header`: empty where none came; `frame`: the first one, of video a keyframe. UnfitTrackError."""
        self.key = key
        self.fourcc = fourcc
        self.header = header
        self.kind, self.number = key
        self.codec = CODECS[fourcc]
        config = read_config(key, fourcc, header, frame)
        header = bare_header(fourcc, header)
        if config is None or not header.startswith(self.codec.marks):
            raise UnfitTrackError(
                f"{self.name} can't be played by HLS: its {name_of(fourcc)} configuration can't be read."
            )
        self.config: Config = config
        self.rate = (config.sample_rate or 0) if isinstance(config, AudioConfig) else VIDEO_RATE
        self._extradata = b"" if self.codec.is_told_by_frames else header
        self._time_base = Fraction(1, self.rate)
        self._pending: tuple[int, int, bool] | None = None
        """Of the frame in the muxer: when it is decoded, how long it probably takes, and whether it is a keyframe."""
        self._usual = round(USUAL_FRAME_S * self.rate)
        self._expected: int | None = None
        """When the next frame of audio is due by the samples so far."""
        self._out: Any = None
        samples = self._samples(frame.data)
        self.frame_s: float | None = samples / self.rate if samples else None
        """How long a frame is, where the codec says it."""
        self.faults = 0
        try:
            self.init = self._make_init(frame)
        except libav_errors() as error:
            reason = f"{self.name} can't be played by HLS: its {name_of(fourcc)} does not go into MP4."
            raise UnfitTrackError(reason) from error

    @property
    def name(self) -> str:
        return f"{self.kind.capitalize()} track {self.number + 1}"

    def is_same(self, fourcc: bytes, header: bytes) -> bool:
        return self.fourcc == fourcc and self.header == header

    def fits(self, frame: Frame) -> bool:
        """Whether a frame that others may come before is of the same configuration."""
        return read_config(self.key, self.fourcc, self.header, frame) == self.config

    def take(self, time_ms: int, frame: Frame) -> Fragment | None:
        """`time_ms`: of the packaging's time, of decoding. The frame before comes out."""
        decoded, usual = self._place(time_ms, frame)
        shown = decoded + max(frame.composition_ms, 0) * self.rate // 1000
        before = self._pending
        try:
            if self._out is None:
                self._open()
            self._mux(decoded, shown, usual, frame)
        except libav_errors():
            self.faults += 1
            return self.flush()
        self._pending = (decoded, usual, frame.is_keyframe)
        return self._fragment(before, decoded - before[0]) if before is not None else None

    def flush(self) -> Fragment | None:
        """The last frame, as long as those before it. The next one begins anew."""
        pending, self._pending, self._expected = self._pending, None, None
        if self._out is None:
            return None
        out, self._out = self._out, None
        try:
            out.close()
        except libav_errors():
            self.faults += 1
        return self._fragment(pending, pending[1]) if pending is not None else None

    # --- When ---

    def _place(self, time_ms: int, frame: Frame) -> tuple[int, int]:
        """When the frame is decoded, and how long it probably takes."""
        before = self._pending
        at = time_ms * self.rate // 1000
        if isinstance(self.config, VideoConfig):
            if before is None:
                return at, self._usual
            at = max(at, before[0] + 1)
            self._usual = at - before[0]
            return at, self._usual
        samples = self._samples(frame.data)
        expected = self._expected
        if expected is not None and abs(expected * 1000 - time_ms * self.rate) <= MOST_OFF_MS * self.rate:
            at = expected
        if before is not None:
            at = max(at, before[0] + 1)
        self._expected = at + samples if samples else None
        return at, samples or (at - before[0] if before else self._usual)

    def _samples(self, frame: bytes) -> int:
        if self.codec.samples is None or not isinstance(self.config, AudioConfig):
            return 0
        return self.codec.samples(self.config, self.header, frame)

    # --- libav ---

    def _open(self) -> None:
        self._sink = _Sink()
        self._out, self._stream = self._muxer(self._sink, DELAYED if self.codec.needs_frame else FLAGS)
        self._out.start_encoding()
        self._sink.take()

    def _muxer(self, sink: _Sink, flags: str) -> tuple[Any, Any]:
        import av

        out: Any = av.open(sink, "w", format="mp4", options={"movflags": flags, **OPTIONS})
        stream: Any = out.add_stream_from_template(_template(self.kind, self.fourcc), opaque=True)
        stream.id = TRACK_NUMBERS[self.kind]
        stream.time_base = self._time_base
        context = stream.codec_context
        if self._extradata:
            context.extradata = self._extradata
        if self.codec.sample_entry:
            context.codec_tag = self.codec.sample_entry
        if isinstance(self.config, VideoConfig):
            context.width, context.height = self.config.width, self.config.height
            if self.fourcc == b"vp09":
                context.pix_fmt = "yuv420p" if (self.config.bit_depth or 8) == 8 else "yuv420p10le"
        else:
            context.sample_rate = self.rate
            context.layout = LAYOUTS.get(self.config.channels or 2, "stereo")
        return out, stream

    def _mux(self, decoded: int, shown: int, usual: int, frame: Frame) -> None:
        self._out.mux_one(self._packet(self._stream, decoded, shown, usual, frame))

    def _packet(self, stream: Any, decoded: int, shown: int, usual: int, frame: Frame) -> Any:
        import av

        packet: Any = av.Packet(frame.data)
        packet.stream = stream
        packet.time_base = self._time_base
        packet.dts, packet.pts, packet.duration = decoded, shown, usual
        packet.is_keyframe = frame.is_keyframe
        return packet

    def _make_init(self, frame: Frame) -> bytes:
        sink = _Sink()
        out, stream = self._muxer(sink, DELAYED if self.codec.needs_frame else FLAGS)
        out.start_encoding()
        if self.codec.needs_frame:
            out.mux_one(self._packet(stream, 0, 0, self._usual, frame))
        out.close()
        header, _ = without_header(sink.take())
        if not header:
            raise ValueError("no header")
        return header

    def _fragment(self, frame: tuple[int, int, bool], duration: int) -> Fragment | None:
        data = self._sink.take()
        if self.codec.needs_frame and data[4:8] != b"moof":
            _, data = without_header(data)
        if not data:
            return None
        return Fragment(self, frame[0] / self.rate, duration / self.rate, frame[2], data)


_TEMPLATES: dict[bytes, Any] = {}
"""PyAV describes a stream for libav by one of a container that it has read."""


def _template(kind: str, fourcc: bytes) -> Any:
    """A stream of that codec of which nothing is known: from a file of FLV with an empty header in it."""
    if fourcc not in _TEMPLATES:
        import av

        tag_type, flags = (9, 1) if kind == "video" else (8, 4)
        payload = b"\x90" + fourcc + bytes(4)
        tag = bytes((tag_type,)) + len(payload).to_bytes(3, "big") + bytes(7) + payload
        data = b"FLV\x01" + bytes((flags,)) + bytes((0, 0, 0, 9)) + bytes(4) + tag + (len(tag)).to_bytes(4, "big")
        _TEMPLATES[fourcc] = av.open(BytesIO(data), format="flv").streams[0]
    return _TEMPLATES[fourcc]
