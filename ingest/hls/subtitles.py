"""Renditions of subtitles (the draft's 3.1.4): texts as WebVTT. Their segments and parts are those of the main
rendition, in number, time and discontinuities.

When a part is made nobody knows yet how long its text will be shown. So a text that goes on has a cue in each part,
which ends with the part, as the draft has it for live streams; a segment has its parts' cues."""

from collections import deque
from collections.abc import Callable
from html import escape
from typing import Final

from ingest.hls.cutting import MediaRendition
from ingest.hls.rendition import Place, Rendition
from ingest.hls.segments import Part, Segment
from ingest.hls.settings import HlsSettings
from ingest.hls.texts import Cue, Text, TextKey, TextTrack, is_text, read_text

MAPPED_MS: Final = 86_399_987
"""Any moment tells how cues are placed, as the packaging's time is that of the media. hls.js places them otherwise
where it is the one with which its own time begins, so it is one with which no window does."""
TICKS_PER_MS: Final = 90


def clock(time_ms: int) -> str:
    """As WebVTT has it."""
    seconds, ms = divmod(time_ms, 1000)
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}.{ms:03}"


HEADER: Final = f"WEBVTT\nX-TIMESTAMP-MAP=LOCAL:{clock(MAPPED_MS)},MPEGTS:{MAPPED_MS * TICKS_PER_MS}\n\n".encode()


def written(cue: Cue) -> str:
    """Each cue ends with an empty line."""
    lines = "\n".join(escape(line, quote=False) for line in cue.lines)
    return f"{clock(cue.start_ms)} --> {clock(cue.end_ms)}\n{lines}\n\n"


class SubtitlesRendition(Rendition):
    """Its parts have cues alone: what is served begins with the header."""

    def __init__(
        self, name: str, label: str, language: str, main: MediaRendition, track: TextTrack, settings: HlsSettings
    ) -> None:
        """It has all of `main` that is in memory, as far as it is over without a text."""
        known = [segment for segment in main.segments if segment.is_in_memory]
        before = [segment for segment in main.segments if not segment.is_in_memory]
        msn = known[0].msn if known else main.next_msn
        discontinuities = main.discontinuities + sum(segment.is_discontinuous for segment in before)
        super().__init__(name, settings, main.targets, Place(msn, discontinuities), epoch=main.epoch, suffix="vtt")
        self.label, self.language = label, language
        self.is_independent = True
        self._track = track
        self.on_segment, self.reports = main.on_segment, main.reports
        for segment in [*known, *([main.open] if main.open is not None else [])]:
            for part in segment.parts:
                self.follow(segment, part)
            if segment.is_whole:
                self.follow_end()

    def follow(self, segment: Segment, part: Part) -> None:
        if self.open is None:
            self.open = segment.followed()
            self._next_msn = segment.msn + 1
        self.open.lists_parts = segment.lists_parts
        text = "".join(map(written, self._track.cues(round(part.start * 1000), round(part.end * 1000))))
        mine = Part(part.start, is_independent=True, duration=part.duration, data=text.encode())
        mine.size = len(mine.data)
        self.open.add(mine, self.targets.most_s)
        self.bytes += mine.size
        self._is_changed = True

    def follow_end(self) -> None:
        segment, self.open = self.open, None
        if segment is not None:
            self._add_whole(segment)

    def segment(self, msn: int) -> bytes | None:
        found = super().segment(msn)
        return HEADER + found if found is not None else None

    def part(self, msn: int, number: int) -> bytes | None:
        found = super().part(msn, number)
        return HEADER + bytes(found) if found is not None else None


class Subtitling:
    """The texts of a packaging: which tracks they are of, and the renditions of these."""

    def __init__(self, settings: HlsSettings, all_renditions: dict[str, Rendition]) -> None:
        """`all_renditions`: by their names, to which the new ones are added."""
        self._settings, self._all = settings, all_renditions
        self._tracks: dict[TextKey, TextTrack] = {}
        self._renditions: dict[TextKey, SubtitlesRendition] = {}
        self._main: MediaRendition | None = None
        self._waiting: deque[tuple[int, Text]] = deque(maxlen=settings.waiting_texts)
        self._second = 0
        self._in_second = 0
        self._number = 0

    def read(self, payload: bytes, wall: float) -> Text | None:
        """Of a data message. None: it is none, or one of too many."""
        settings = self._settings
        if not is_text(payload, settings) or not self._may_read(int(wall)):
            return None
        text = read_text(payload, settings)
        if text is None or (text.key not in self._tracks and len(self._tracks) >= settings.text_tracks):
            return None
        self._tracks.setdefault(text.key, TextTrack(settings))
        return text

    def _may_read(self, second: int) -> bool:
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        return self._in_second <= self._settings.texts_per_s

    def wait(self, timestamp: int, text: Text) -> None:
        """It is not known yet what RTMP's time is in the packaging's."""
        self._waiting.append((timestamp, text))

    def begin_run(self, main: MediaRendition, time_of: Callable[[int], int]) -> None:
        """`main`: whose parts there are from now on; `time_of`: the packaging's time of RTMP's."""
        if main is not self._main:
            for rendition in self._renditions.values():
                rendition.end()
            self._renditions.clear()
            self._main = main
        while self._waiting:
            timestamp, text = self._waiting.popleft()
            self.take(time_of(timestamp), text)

    def end_run(self) -> None:
        """No text is shown any longer."""
        self._waiting.clear()
        for track in self._tracks.values():
            track.clear()

    def take(self, time_ms: int, text: Text) -> None:
        """`time_ms`: of the packaging's time."""
        main = self._main
        if main is None:
            return
        track = self._tracks[text.key]
        if text.key not in self._renditions:
            rendition = self._renditions[text.key] = self._make(main, text.key, track)
            main.followers.append(rendition)
            self._all[rendition.name] = rendition
        track.add(time_ms, text.lines)

    def _make(self, main: MediaRendition, key: TextKey, track: TextTrack) -> SubtitlesRendition:
        label = f"Captions ({key.language})" if key.language else "Captions"
        taken = {rendition.label for rendition in self._renditions.values()}
        labels = [label, *(f"{label} {number}" for number in range(2, self._settings.text_tracks + 1))]
        name = f"s{self._number}"
        self._number += 1
        free = next(each for each in labels if each not in taken)
        return SubtitlesRendition(name, free, key.language, main, track, self._settings)
