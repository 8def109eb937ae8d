"""A clip of low-latency HLS that FFmpeg makes once for the tests of the player. Its playlists are written by hand here,
not by the server's code."""

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Final

import imageio_ffmpeg

from tests.hls.mp4 import boxes, read_init

FPS: Final = 25
PART_S, PARTS = 0.2, 5
"""Seconds of a part, and parts of a segment, which begins with a keyframe."""
WINDOW: Final = 9
"""Whole segments that are listed."""
BEGAN: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MAKE: Final = (
    "-v error -f lavfi -i testsrc2=size=320x180:rate=25 -f lavfi -i sine=sample_rate=48000 -t 16 -pix_fmt yuv420p"
    " -c:v libx264 -preset ultrafast -tune zerolatency -b:v 300k -g 25 -keyint_min 25 -c:a aac -ac 2 -af asetpts=N+1024"
    " -f mp4 -movflags empty_moov+default_base_moof+skip_trailer -frag_duration 200000 pipe:1"
)
"""A fragment for each part. The encoder of AAC has a delay of 1,024 samples."""
MULTIVARIANT: Final = """#EXTM3U
#EXT-X-VERSION:9
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-STREAM-INF:BANDWIDTH={bandwidth},CODECS="{codecs}",RESOLUTION=320x180,FRAME-RATE=25.000
v0.m3u8?viewer=1
"""


@dataclass(frozen=True)
class Clip:
    init: bytes
    parts: list[bytes]

    def playlist(self, count: int, *, delta: bool = False, ended: bool = False, began: datetime = BEGAN) -> str:
        """The playlist when `count` parts are there."""
        whole, rest = divmod(count, PARTS)
        first = max(0, whole - WINDOW)
        skipped = max(0, whole - first - 7) if delta else 0
        lines = [
            "#EXTM3U",
            f"#EXT-X-VERSION:{9 if skipped else 6}",
            "#EXT-X-TARGETDURATION:1",
            "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=6.0,HOLD-BACK=3.0,PART-HOLD-BACK=0.6",
            f"#EXT-X-PART-INF:PART-TARGET={PART_S}",
            f"#EXT-X-MEDIA-SEQUENCE:{first}",
            "#EXT-X-INDEPENDENT-SEGMENTS",
            f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}" if skipped else '#EXT-X-MAP:URI="init.mp4"',
        ]
        for msn in range(first + skipped, whole + bool(rest)):
            at = began + timedelta(seconds=msn * PARTS * PART_S)
            lines.append(f"#EXT-X-PROGRAM-DATE-TIME:{at.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}")
            for place in range(PARTS if msn < whole else rest) if msn >= whole - 3 else ():
                independent = ",INDEPENDENT=YES" if place == 0 else ""
                lines.append(f'#EXT-X-PART:DURATION={PART_S:.5f},URI="p{msn}.{place}.m4s"{independent}')
            if msn < whole:
                lines += [f"#EXTINF:{PART_S * PARTS:.5f},", f"s{msn}.m4s"]
        last = "#EXT-X-ENDLIST" if ended else f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="p{whole}.{rest}.m4s"'
        return "\n".join([*lines, last, ""])

    def segment(self, msn: int) -> bytes:
        return b"".join(self.parts[msn * PARTS : (msn + 1) * PARTS])

    def multivariant(self) -> str:
        largest = max(len(self.segment(msn)) for msn in range(len(self.parts) // PARTS))
        codecs = ",".join(track.codec for track in read_init(self.init).values())
        return MULTIVARIANT.format(bandwidth=round(largest * 8 * 1.1), codecs=codecs)


@cache
def clip() -> Clip:
    """Sixteen seconds of H.264 and AAC."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), *MAKE.split()]
    data = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    pairs = list(pairwise(boxes(data)))
    parts = [data[one.start : other.end] for one, other in pairs if one.kind == b"moof"]
    return Clip(data[: pairs[0][1].end], parts[: round(16 / PART_S)])
