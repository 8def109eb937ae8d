"""Messages of clips, and a packaging that records its segments."""

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ingest.flv import TagReader
from ingest.hls import HlsSettings, Packaging, Rendition, Segment
from ingest.live.message import Kind
from tests.media import make_enhanced_clip
from tests.tools import require_tool

WALL = 1_800_000_000.0
FIRST_MSN = 700
KINDS: dict[int, Kind] = {8: "audio", 9: "video"}

Message = tuple[Kind, int, bytes]
"""Kind, timestamp in ms, payload."""


def make_flv(path: Path, options: str, *, size: str = "320x180", rate: str = "30") -> Path:
    """An FLV of the system's FFmpeg: H.264, AAC and MP3."""
    inputs = f"-f lavfi -i testsrc2=size={size}:rate={rate} -f lavfi -i sine=frequency=440:sample_rate=48000"
    command = f"{require_tool('ffmpeg')} -v error -y {inputs} {options} -f flv"
    subprocess.run([*command.split(), str(path)], check=True, timeout=120)
    return path


def messages_of(path: Path) -> list[Message]:
    tags = TagReader().feed(path.read_bytes())
    return [(KINDS[tag.type_id], tag.timestamp, tag.payload) for tag in tags if tag.type_id in KINDS]


def shifted(messages: Iterable[Message], by_ms: int) -> list[Message]:
    return [(kind, (timestamp + by_ms) & 0xFFFFFFFF, payload) for kind, timestamp, payload in messages]


@dataclass
class Fed:
    """A packaging, its notifications and all of its segments."""

    settings: HlsSettings = field(default_factory=HlsSettings)
    changes: list[str] = field(default_factory=list)
    whole: list[tuple[str, int]] = field(default_factory=list)
    ready_ms: int | None = None
    with_hook: bool = False
    first_msn: int = FIRST_MSN

    def __post_init__(self) -> None:
        self.packaging = Packaging(
            self.settings,
            epoch="c0ffee",
            first_msn=self.first_msn,
            on_change=lambda rendition: self.changes.append(rendition.name),
            on_segment=self._on_segment if self.with_hook else None,
        )
        self.kept: dict[str, dict[int, list[bytes]]] = {}
        """The bytes of all segments that were ever in memory, by rendition and MSN."""
        self.inits: dict[str, dict[int, bytes]] = {}
        self.found: dict[str, dict[int, Segment]] = {}

    def _on_segment(self, rendition: Rendition, segment: Segment) -> None:
        self.whole.append((rendition.name, segment.msn))

    def begin(self, wall: float = WALL, gop_s: float | None = None) -> "Fed":
        self.packaging.begin(wall, gop_s)
        return self

    def feed(self, messages: Iterable[Message], *, wall: float = WALL, first_ms: int | None = None) -> "Fed":
        """Pass each message at the time of its timestamp, counted from `wall`."""
        for kind, timestamp, payload in messages:
            first_ms = timestamp if first_ms is None else first_ms
            behind = ((timestamp - first_ms + 2**31) & 0xFFFFFFFF) - 2**31
            self.packaging.take(kind, timestamp, payload, wall + behind / 1000)
            if self.ready_ms is None and self.packaging.is_ready:
                self.ready_ms = behind
            self._keep()
        return self

    def end(self, *, for_good: bool = True) -> "Fed":
        self.packaging.end(for_good=for_good)
        self._keep()
        return self

    def _keep(self) -> None:
        for name, rendition in self.packaging.renditions.items():
            kept, found = self.kept.setdefault(name, {}), self.found.setdefault(name, {})
            for segment in rendition.segments:
                if segment.msn not in kept and (data := rendition.segment(segment.msn)) is not None:
                    kept[segment.msn], found[segment.msn] = [data], segment
                    if (init := rendition.init(segment.init)) is not None:
                        self.inits.setdefault(name, {})[segment.init] = init

    def rendition(self, name: str = "v0") -> Rendition:
        return self.packaging.renditions[name]

    def text(self, name: str = "v0", *, skip: bool = False) -> str:
        return self.rendition(name).playlist(skip=skip)

    def file(self, path: Path, name: str = "v0", init: int = 0) -> Path:
        """Write all segments of that initialisation segment into one file."""
        found = self.found[name]
        parts = [b"".join(data) for msn, data in self.kept[name].items() if found[msn].init == init]
        path.write_bytes(self.inits[name][init] + b"".join(parts))
        return path


def enhanced(path: Path, video: Sequence[str], audio: Sequence[str], seconds: float = 4) -> list[Message]:
    return messages_of(make_enhanced_clip(path, video, audio, seconds=seconds, size="320x180"))
