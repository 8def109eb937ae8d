"""Messages of clips for a packaging, and what comes out, read by FFmpeg's libraries and by regular expressions."""

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import av

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


def make_flv(path: Path, options: str, *, size: str = "320x180", rate: str = "30", tone: int = 48000) -> Path:
    """By the FFmpeg of the system: H.264, AAC and MP3."""
    inputs = ["-f", "lavfi", "-i", f"testsrc2=size={size}:rate={rate}"]
    inputs += ["-f", "lavfi", "-i", f"sine=frequency=440:sample_rate={tone}"]
    command = [require_tool("ffmpeg"), "-v", "error", "-y", *inputs, *options.split(), "-f", "flv", str(path)]
    subprocess.run(command, check=True, timeout=120)
    return path


def messages_of(path: Path) -> list[Message]:
    tags = TagReader().feed(path.read_bytes())
    return [(KINDS[tag.type_id], tag.timestamp, tag.payload) for tag in tags if tag.type_id in KINDS]


def shifted(messages: Iterable[Message], by_ms: int) -> list[Message]:
    return [(kind, (timestamp + by_ms) & 0xFFFFFFFF, payload) for kind, timestamp, payload in messages]


def only(messages: Iterable[Message], kind: Kind) -> list[Message]:
    return [message for message in messages if message[0] == kind]


@dataclass
class Fed:
    """A packaging, and what it told while it was fed."""

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
        """All segments' bytes while they were in memory, by rendition and MSN."""
        self.inits: dict[str, dict[int, bytes]] = {}
        self.found: dict[str, dict[int, Segment]] = {}

    def _on_segment(self, rendition: Rendition, segment: Segment) -> None:
        self.whole.append((rendition.name, segment.msn))

    def begin(self, wall: float = WALL, gop_s: float | None = None) -> "Fed":
        self.packaging.begin(wall, gop_s)
        return self

    def feed(self, messages: Iterable[Message], *, wall: float = WALL, first_ms: int | None = None) -> "Fed":
        """Each message comes when its timestamp says, from `wall` on."""
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
        """Its segments of that initialisation segment, in one."""
        found = self.found[name]
        parts = [b"".join(data) for msn, data in self.kept[name].items() if found[msn].init == init]
        path.write_bytes(self.inits[name][init] + b"".join(parts))
        return path


@dataclass(frozen=True)
class Timed:
    """A packet with its times in ms."""

    kind: str
    decoded: float
    shown: float
    data: bytes
    is_keyframe: bool
    track: int = 0


def read_timed(path: Path) -> list[Timed]:
    """By libav, in the order of decoding within each track."""
    found = []
    with av.open(str(path)) as container:
        for packet in container.demux():
            if packet.size and packet.dts is not None and packet.pts is not None and packet.time_base is not None:
                kind = packet.stream.type
                track = [each.index for each in container.streams if each.type == kind].index(packet.stream.index)
                times = (float(packet.dts * packet.time_base * 1000), float(packet.pts * packet.time_base * 1000))
                found.append(Timed(kind, *times, bytes(packet), packet.is_keyframe, track))
    return found


def track_of(packets: Iterable[Timed], kind: str, track: int = 0) -> list[Timed]:
    return [packet for packet in packets if (packet.kind, packet.track) == (kind, track)]


TEMPORAL_DELIMITER = b"\x12\x00"
"""Of AV1, which MP4 is without."""


def assert_same(found: Sequence[Timed], sent: Sequence[Timed], *, shift_ms: float = 0.0) -> None:
    """The same packets, bytes and times, within a millisecond."""
    assert len(found) == len(sent)
    for after, before in zip(found, sent, strict=True):
        assert after.data.removeprefix(TEMPORAL_DELIMITER) == before.data.removeprefix(TEMPORAL_DELIMITER)
        assert abs(after.decoded - before.decoded - shift_ms) <= 1.01, (after.decoded, before.decoded)
        assert abs(after.shown - before.shown - shift_ms) <= 1.01, (after.shown, before.shown)
        assert after.is_keyframe == before.is_keyframe


def numbers(pattern: str, text: str) -> list[float]:
    return [float(each) for each in re.findall(pattern, text, re.MULTILINE)]


def one(pattern: str, text: str) -> float:
    (found,) = numbers(pattern, text)
    return found


def parts_of(text: str) -> list[list[tuple[float, bool]]]:
    """Duration and independence of each part, by segments, of those that are listed."""
    found: list[list[tuple[float, bool]]] = [[]]
    for line in text.splitlines():
        if line.startswith("#EXT-X-PART:"):
            found[-1].append((float(line.split("DURATION=")[1].split(",")[0]), "INDEPENDENT=YES" in line))
        elif line.startswith("#EXTINF"):
            found.append([])
    return found


def check_playlist(text: str) -> None:
    """What has to hold of any playlist of ours."""
    assert text.startswith(f"#EXTM3U\n#EXT-X-VERSION:{9 if '#EXT-X-SKIP' in text else 6}\n")
    assert text.endswith("\n")
    target = one(r"^#EXT-X-TARGETDURATION:(\d+)$", text)
    durations = numbers(r"^#EXTINF:([\d.]+),$", text)
    assert all(int(duration + 0.5) <= target for duration in durations), (target, durations)
    part_target = one(r"^#EXT-X-PART-INF:PART-TARGET=([\d.]+)$", text)
    listed = parts_of(text)
    for number, parts in enumerate(listed):
        is_open = number == len(listed) - 1 and "#EXT-X-ENDLIST" not in text
        for at, (duration, _) in enumerate(parts):
            assert duration <= part_target + 0.0005
            is_last = at == len(parts) - 1 and not is_open
            assert is_last or duration >= 0.85 * part_target, (duration, part_target)
    hold = re.search(r"^#EXT-X-SERVER-CONTROL:.*PART-HOLD-BACK=([\d.]+),HOLD-BACK=(\d+)", text, re.M)
    assert hold is not None
    assert float(hold[1]) >= 3 * part_target - 0.001
    assert float(hold[2]) >= 3 * target
    assert one(r"CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=(\d+)", text) >= 6 * target
    dates = re.findall(r"^#EXT-X-PROGRAM-DATE-TIME:(.*)$", text, re.M)
    assert dates == sorted(dates)
    assert len(dates) == len(durations) + (listed[-1] != [])
    assert ("#EXT-X-ENDLIST" in text) != ("#EXT-X-PRELOAD-HINT:TYPE=PART" in text)


def check_all(fed: Fed) -> None:
    for name, rendition in fed.packaging.renditions.items():
        check_playlist(rendition.playlist())
        for segment in rendition.segments:
            data = rendition.segment(segment.msn)
            if data is not None and segment.lists_parts:
                parts = [rendition.part(segment.msn, number) for number in range(len(segment.parts))]
                assert data == b"".join(part or b"" for part in parts), name
        for before, after in pairwise(rendition.segments):
            assert after.msn == before.msn + 1
            assert after.start >= before.start


def enhanced(path: Path, video: Sequence[str], audio: Sequence[str], seconds: float = 4) -> list[Message]:
    return messages_of(make_enhanced_clip(path, video, audio, seconds=seconds, size="320x180"))
