"""Streams as encoders and networks make them, frame by frame, and which issues they have in each second."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ingest.contracts import Issue
from ingest.live import LiveSettings, LiveStream, SocketFigures
from tests.pure.live.payloads import (
    AAC_HEADER,
    START_WALL,
    Socket,
    avc_header,
    inter,
    keyframe,
    make_stream,
    publisher,
    session,
    sound,
)

HEADER = 5
AUDIO_FPS = 48_000 / 1024


@dataclass
class Message:
    at: float
    """When it leaves the encoder, and, after a network, when it arrives (s)."""
    kind: str
    timestamp: int
    size: int
    is_keyframe: bool = False


def video(
    seconds: float,
    *,
    fps: float = 30.0,
    kbps: float | Callable[[float], float] = 800.0,
    gop_s: float = 2.0,
    key_weight: float = 8.0,
    start: float = 0.0,
) -> list[Message]:
    """Frames whose mean is the bitrate, of each group of pictures; a keyframe is so many times as large as another."""
    found = []
    gop = max(1, round(gop_s * fps))
    for number in range(round(seconds * fps)):
        at = number / fps
        rate = kbps(start + at) if callable(kbps) else kbps
        unit = rate * 125 / fps * gop / (gop - 1 + key_weight)
        is_key = number % gop == 0
        size = max(HEADER + 4, round(unit * key_weight if is_key else unit))
        found.append(Message(start + at, "video", round((start + at) * 1000), size, is_key))
    return found


def audio(seconds: float, *, start: float = 0.0, kbps: float = 128.0) -> list[Message]:
    size = round(kbps * 125 / AUDIO_FPS)
    return [
        Message(start + number / AUDIO_FPS, "audio", round((start + number / AUDIO_FPS) * 1000), size)
        for number in range(round(seconds * AUDIO_FPS))
    ]


def altered(messages: list[Message], **how: Callable[[Message], Any]) -> list[Message]:
    """With other fields, each made of the message: `altered(messages, at=lambda each: each.at / 2)`."""
    return [replace(each, **{name: make(each) for name, make in how.items()}) for each in messages]


def through(messages: list[Message], kbps: Callable[[float], float]) -> list[Message]:
    """After an uplink that carries so much at each time; the encoder waits for it, and leaves nothing out."""
    free = 0.0
    arrived = []
    for message in sorted(messages, key=lambda message: message.at):
        free = max(free, message.at) + message.size * 8 / 1000 / kbps(max(free, message.at))
        arrived.append(replace(message, at=free))
    return arrived


class Watched:
    """A stream whose issues are noted each second."""

    def __init__(
        self, *, metadata: dict[str, Any] | None = None, settings: LiveSettings | None = None, **limits: Any
    ) -> None:
        self.stream: LiveStream = make_stream(settings)
        who = publisher(**{"idle_timeout_s": 1e9, **limits})
        self.socket = who.socket = Socket()
        self.stream.start(who, 0.0)
        self.seconds: list[dict[str, str]] = []
        """The levels by check, of each second from 1 on."""
        self._received = 0
        self._next = 1
        if metadata:
            self.stream.data(0, "onMetaData", [metadata], b"metadata", 0.0)
        self.stream.audio(0, AAC_HEADER, 0.0)
        self.stream.video(0, avc_header(), 0.0)

    def play(self, messages: list[Message], until: float | None = None) -> "Watched":
        ordered = sorted(messages, key=lambda message: message.at)
        for number, message in enumerate(ordered):
            self._tick_to(message.at)
            self._received += message.size
            self.socket.figures = SocketFigures(self._received, self.socket.figures.rtt_ms)
            if message.kind == "audio":
                self.stream.audio(message.timestamp, sound(number, message.size), message.at)
            else:
                payload = (keyframe if message.is_keyframe else inter)(number, message.size)
                self.stream.video(message.timestamp, payload, message.at)
        self._tick_to(until if until is not None else ordered[-1].at)
        return self

    def take(self, is_video: bool, timestamp: int, payload: bytes) -> None:
        """A message as an encoder made it, at its time."""
        at = timestamp / 1000
        self._tick_to(at)
        (self.stream.video if is_video else self.stream.audio)(timestamp, payload, at)

    def _tick_to(self, at: float) -> None:
        while self._next <= at:
            self.stream.tick(float(self._next), START_WALL + self._next)
            self.seconds.append({issue["check"]: issue["level"] for issue in self.issues})
            self._next += 1

    @property
    def issues(self) -> list[Issue]:
        """Those that are open now."""
        return session(self.stream).evaluation.health.issues

    @property
    def codes(self) -> set[str]:
        """All that was ever open."""
        return {code for second in self.seconds for code in second}

    def opened(self, code: str, level: str = "") -> int | None:
        """The second (from 1) in which it was first open, at that level."""
        return next((at for at, found in self._with(code) if found and level in ("", found)), None)

    def cleared(self, code: str) -> int | None:
        """The second in which it was open no more."""
        was_open = False
        for at, found in self._with(code):
            if was_open and not found:
                return at
            was_open = bool(found)
        return None

    def _with(self, code: str) -> Iterator[tuple[int, str]]:
        for at, second in enumerate(self.seconds, 1):
            yield at, second.get(code, "")
