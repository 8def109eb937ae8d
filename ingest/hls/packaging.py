"""Packaging of one stream: messages as players get them come in, renditions come out.

What a publisher sends without a break is a run. At its beginning frames are gathered until the tracks are known
(`gathering`); then each goes through its track's muxer (`tracks`) to the renditions that have it (`rendition`). A new
publisher, a new header and a jump of timestamps end the run, and the next begins with a discontinuity.

The packaging's own time begins with 0 and only rises: a run's RTMP timestamps are shifted behind the run before."""

from collections.abc import Callable
from typing import Final

from ingest.hls.codecs import CODECS
from ingest.hls.cutting import MediaRendition
from ingest.hls.dating import Run
from ingest.hls.frames import Frame, Header, Key, has_captions, read_message
from ingest.hls.gathering import Gathering
from ingest.hls.left_out import LeftOut
from ingest.hls.playlists import multivariant_playlist
from ingest.hls.rendition import Place, Rendition, bound_memory
from ingest.hls.segments import Segment, Targets
from ingest.hls.settings import HlsSettings
from ingest.hls.subtitles import Subtitling
from ingest.hls.timestamps import Breaks, Timestamps
from ingest.hls.tracks import Fragment, Track, UnfitTrackError
from ingest.hls.variants import choices
from ingest.live.message import Kind

BOTH: Final[frozenset[Kind]] = frozenset({"audio", "video"})
SECONDS_EACH: Final = 8
DISCONTINUITIES: Final = 1 << 10
"""A packaging's first discontinuity sequence number is another than the former's, and so small that a player may have
an array of as many: hls.js has, and goes through it with each playlist. With MSNs in seconds it rises for two hours,
then begins anew."""


class Packaging:
    def __init__(
        self,
        settings: HlsSettings,
        *,
        epoch: str,
        first_msn: int,
        on_change: Callable[[Rendition], None],
        on_segment: Callable[[Rendition, Segment], None] | None = None,
    ) -> None:
        """
        epoch: hex, in all URLs; first_msn: of the media sequence, over those of former packagings
        on_change: a rendition has a new part, segment or end, or can be served now
        on_segment: a segment is whole; with it renditions list more than is in memory (`HlsSettings.rewind_s`)
        """
        self.on_segment = on_segment
        self.settings = settings
        self.epoch = epoch
        self.renditions: dict[str, Rendition] = {}
        self.left_out = LeftOut(settings.sentences)
        self._first_place = Place(first_msn, first_msn // SECONDS_EACH % DISCONTINUITIES)
        self._on_change = on_change
        self._targets: Targets | None = None
        self._main: MediaRendition | None = None
        self._subtitling = Subtitling(settings, self.renditions)
        self._tracks: dict[Key, Track] = {}
        self._users: dict[Key, list[MediaRendition]] = {}
        self._by_track: dict[Key, MediaRendition] = {}
        """Who is led by it."""
        self._headers: dict[Key, Header] = {}
        self._numbers: dict[Kind, int] = {"audio": 0, "video": 0}
        self._fps: dict[Key, float] = {}
        self._has_captions = False
        self._is_settled = self._is_ready = False
        self._began: float | None = None
        self._publisher_at = self._publisher_s = 0.0
        """When the present one began, by the time of day, and how long media have come of it."""
        self._run = Run()
        self._gathering: Gathering | None = None
        self._keyframe_interval_s: float | None = None
        self._offset_ms = 0
        self._end_ms = 0
        """Up to where the packaging's time is taken."""
        self._timestamps = Timestamps(settings)
        self._breaks = Breaks(settings.breaks_per_minute)
        self._muted: set[Key] = set()
        """Tracks with a new header, for which there were too many breaks."""
        self._is_joining = False
        """Audio has come to a main rendition of video alone, and is to be in it."""
        self._is_ended = False

    # --- What is asked ---

    @property
    def is_ready(self) -> bool:
        """Whether playlists can be served: each rendition had a part, and the burst of the beginning is over."""
        return self._is_ready

    @property
    def is_unfit(self) -> bool:
        """Whether nothing has come but what is left out, for as long as one kind is waited for beside the other."""
        unfit = self.left_out.tracks
        if self._users or not unfit or self._publisher_s * 1000 < self.settings.layout_ms:
            return False
        return {*self._headers, *self._timestamps.tracks} <= unfit

    def multivariant(self, query: str = "") -> str:
        """`query`: follows "?" in the URI of each media playlist."""
        listed = [each for each in self.renditions.values() if each.is_live or (self._is_ended and each.has_media)]
        return multivariant_playlist(
            *choices(listed, self._fps, suffix=f"?{query}" if query else "", has_captions=self._has_captions)
        )

    # --- What comes ---

    def begin(self, wall: float, keyframe_interval_s: float | None) -> None:
        """A publisher begins, or begins again.

        wall: seconds since the epoch; keyframe_interval_s: as the node measured it, None: unknown
        """
        if self._is_ended:
            return
        self._finish()
        self._headers.clear()
        self.left_out.tracks.clear()
        self._publisher_at, self._publisher_s = wall, 0.0
        self._keyframe_interval_s = keyframe_interval_s
        self._gather(BOTH)

    def take(self, kind: Kind, timestamp: int, payload: bytes, wall: float) -> None:
        """A message as players get it.

        timestamp: RTMP's, 32 bits in ms; wall: when it came, in seconds since the epoch
        """
        if self._is_ended:
            return
        if kind == "data":
            self._take_data(timestamp, payload, wall)
            return
        if self._gathering is None and not self._users:
            self._gather(BOTH)
        time_ms = self._timestamps.unwrapped(timestamp)
        for item in read_message(kind, payload):
            if isinstance(item, Header):
                self._take_header(item, wall)
            else:
                self._take_frame(item, time_ms, wall)
        if self._began is None:
            self._began = wall
        self._publisher_s = wall - self._publisher_at
        self._is_settled = self._is_settled or wall - self._began >= self.settings.settle_s
        self._tell()

    def _take_data(self, timestamp: int, payload: bytes, wall: float) -> None:
        text = self._subtitling.read(payload, wall)
        if text is not None and self._gathering is None and self._users:
            self._subtitling.take(self._time_of(timestamp), text)
            self._tell()
        elif text is not None:
            self._subtitling.wait(timestamp, text)

    def _time_of(self, timestamp: int) -> int:
        """The packaging's, of what is no frame."""
        return self._timestamps.beside(timestamp) + self._offset_ms

    def end(self, *, for_good: bool) -> None:
        """The publisher has left. `for_good`: playlists end (EXT-X-ENDLIST), and nothing is taken any more."""
        if self._is_ended:
            return
        self._finish()
        if for_good:
            self._is_ended = self._is_settled = True
            for rendition in self.renditions.values():
                rendition.end()
        self._tell()

    def _finish(self) -> None:
        """Nothing more comes. A beginning of which too little came changes no rendition that there is."""
        gathering = self._gathering
        if gathering is not None and (gathering.is_whole or (gathering.frames and self._main is None)):
            self._decide(gathering)
        self._end_run()
        self._gathering = None

    def _take_header(self, header: Header, wall: float) -> None:
        known = self._headers.get(header.key)
        if header.fourcc not in CODECS:
            self.left_out.codec(header.key, header.fourcc)
            return
        if header == known or (known is None and not self._has_room(header.key)):
            return
        track = self._tracks.get(header.key)
        if self._gathering is not None:
            self._gathering.forget(header.key)
            self._gathering.announced.add(header.key[0])
        elif track is not None and not track.is_same(header.fourcc, header.body):
            if self._breaks.may(wall):
                self._break()
            else:
                self._muted.add(header.key)
        else:
            self._muted.discard(header.key)
        self._headers[header.key] = header
        self.left_out.tracks.discard(header.key)

    def _has_room(self, key: Key) -> bool:
        if key in self._timestamps:
            return True
        known = {*self._headers, *self._tracks, *self._timestamps.tracks}
        most = self.settings.tracks_per_kind
        if key in known or sum(kind == key[0] for kind, _ in known) < most:
            return True
        self.left_out.further(key[0], most)
        return False

    def _take_frame(self, frame: Frame, time_ms: int, wall: float) -> None:
        if frame.fourcc not in CODECS:
            self.left_out.codec(frame.key, frame.fourcc)
            return
        if not self._has_room(frame.key):
            return
        if self._timestamps.is_jump(frame.key, time_ms, self._longest_ms(frame.key)):
            gathering = self._gathering
            if gathering is not None and gathering.frames and gathering.stragglers < self.settings.most_stragglers:
                gathering.stragglers += 1
                return
            if not self._breaks.may(wall):
                return
            self._break()
        if self._is_another(frame):
            if not self._breaks.may(wall):
                return
            self._break()
        if frame.key[0] == "video" and not self._has_captions:
            self._has_captions = has_captions(frame)
        if self._is_joining and frame.is_keyframe and self._is_cut_by(frame.key) and self._breaks.may(wall):
            self._end_run()
            self._gather(BOTH)
        self._timestamps.take(frame.key, time_ms)
        if self._gathering is None and (frame.key in self._users or self._join(frame, wall)):
            self._run.arrived((time_ms + self._offset_ms) / 1000, wall)
            self._deliver(frame, time_ms)
        if self._gathering is not None:
            self._gathering.add(frame, time_ms, wall)
            if self._gathering.is_enough:
                self._decide(self._gathering)

    def _longest_ms(self, key: Key) -> int | None:
        """A frame of the track by which segments are cut can't be longer than one."""
        is_flowing = self._gathering is None and self._is_cut_by(key)
        return self._targets.duration_s * 1000 if is_flowing and self._targets is not None else None

    def _is_another(self, frame: Frame) -> bool:
        """It is of a configuration that its track hasn't."""
        if self._gathering is not None or frame.key not in self._users:
            return False
        return frame.key in self._muted or self._tracks[frame.key].fourcc != frame.fourcc

    def _is_cut_by(self, key: Key) -> bool:
        return self._main is not None and self._main.lead.key == key

    # --- Runs ---

    def _break(self) -> None:
        """A discontinuity within a publication: the same kinds of tracks are expected behind it."""
        kinds = frozenset(kind for kind, _ in self._users) or BOTH
        self._end_run()
        self._gather(kinds)

    def _gather(self, expects: frozenset[Kind]) -> None:
        self._gathering = Gathering(self.settings, expects, self._targets is None, self._keyframe_interval_s)
        self._timestamps = Timestamps(self.settings)
        self._muted.clear()
        self._is_joining = False

    def _end_run(self) -> None:
        """What is in muxers comes out, and segments end."""
        for key, track in self._tracks.items():
            fragment = track.flush()
            if fragment is not None and key in self._users:
                self._hand_out(fragment)
        for rendition in self._by_track.values():
            rendition.end_run()
        self._subtitling.end_run()
        self._users.clear()

    def _decide(self, gathering: Gathering) -> None:
        """The tracks are known: renditions are bound to them, and what was gathered goes on."""
        tracks = self._make_tracks(gathering)
        if not tracks:
            self._gather(gathering.expects)
            return
        self._gathering = None
        self._tracks = tracks
        videos, sounds = (sorted(key for key in tracks if key[0] == kind) for kind in ("video", "audio"))
        lead = (videos or sounds)[0]
        if self._targets is None:
            self._targets = gathering.targets(lead, tracks[lead].frame_s)
        self._fps |= {key: fps for key in videos if (fps := gathering.fps(key, tracks[key].config))}
        first_ms = min(waiting.time_ms for waiting in gathering.frames)
        self._offset_ms = self._end_ms - first_ms
        self._run = Run(self._run.least if self._run.anchor is None else self._run.anchor)
        self._bind(videos, sounds)
        self._began = gathering.began if self._began is None else self._began
        for waiting in gathering.frames:
            self._run.arrived((waiting.time_ms + self._offset_ms) / 1000, waiting.wall)
        if self._main is not None:
            self._subtitling.begin_run(self._main, self._time_of)
        for waiting in gathering.frames:
            if waiting.frame.key in self._users:
                self._deliver(waiting.frame, waiting.time_ms)

    def _make_tracks(self, gathering: Gathering) -> dict[Key, Track]:
        tracks: dict[Key, Track] = {}
        failed: set[Key] = set()
        for waiting in gathering.frames:
            key = waiting.frame.key
            if key not in tracks and key not in failed:
                track = self._make_track(waiting.frame)
                if track is None:
                    failed.add(key)
                else:
                    tracks[key] = track
        return tracks

    def _make_track(self, frame: Frame) -> Track | None:
        header = self._headers.get(frame.key)
        body = header.body if header is not None and header.fourcc == frame.fourcc else b""
        former = self._tracks.get(frame.key)
        if former is not None and former.is_same(frame.fourcc, body) and former.fits(frame):
            return former
        try:
            return Track(frame.key, frame.fourcc, body, frame)
        except UnfitTrackError as error:
            self.left_out.track(frame.key, str(error))
            return None

    def _bind(self, videos: list[Key], sounds: list[Key]) -> None:
        """The first video has the main audio with it, as have the other videos; other audio goes alone."""
        other = self._tracks[sounds[0]] if videos and sounds else None
        first, *further = [*videos, *(sounds[1:] if videos else sounds)]
        self._main = self._lead(first, other if videos else None)
        for key in further:
            self._lead(key, other if key[0] == "video" else None)
        if other is not None and other.key in self._by_track:
            self._lead(other.key, None)  # Somebody may listen to it since there was no video.
        for name in [name for name, rendition in self.renditions.items() if rendition.is_ended]:
            del self.renditions[name]  # It ended with a run before.
        for key, rendition in list(self._by_track.items()):
            rendition.leads = rendition is self._main
            if key not in self._users:
                rendition.end()
                del self._by_track[key]

    def _lead(self, key: Key, other: Track | None) -> MediaRendition:
        """The rendition that was led by this track, or a new one, goes on with it."""
        track = self._tracks[key]
        rendition = self._by_track.get(key)
        if rendition is None:
            rendition = self._by_track[key] = self._add(track, other)
        else:
            rendition.begin_run(self._run, track, other)
        self._users.setdefault(key, []).append(rendition)
        if other is not None:
            self._users.setdefault(other.key, []).append(rendition)
        return rendition

    def _add(self, track: Track, other: Track | None) -> MediaRendition:
        main, targets = self._main, self._targets
        if targets is None:
            raise RuntimeError("a rendition before its targets are known")
        number = self._numbers[track.kind]
        if track.kind == "audio" and main is not None:
            number = max(number, 1)  # 0 is the main one, which is alone where there is no video.
        self._numbers[track.kind] = number + 1
        name = f"{track.kind[0]}{number}"
        rendition = MediaRendition(
            name,
            self.settings,
            targets,
            Place(main.next_msn, main.discontinuities_so_far) if main else self._first_place,
            self._run,
            track,
            other,
            epoch=self.epoch,
        )
        rendition.on_segment = self.on_segment
        rendition.reports = self._others_of
        self.renditions[name] = rendition
        return rendition

    def _join(self, frame: Frame, wall: float) -> bool:
        """A track that appears within a run. True: it is there, and its frame can be delivered."""
        kind, _ = frame.key
        main = self._main
        if main is None or (kind == "video" and not frame.is_keyframe):
            return False
        if kind == "audio" and main.lead.kind == "video" and main.other is None:
            self._is_joining = True  # At the next keyframe.
            return False
        if kind == "video" and main.lead.kind == "audio":
            if self._breaks.may(wall):
                self._end_run()
                self._gather(BOTH)
            return False
        track = self._make_track(frame)
        if track is None:
            return False
        self._tracks[frame.key] = track
        self._lead(frame.key, main.other if kind == "video" else None)
        return True

    # --- What goes on ---

    def _deliver(self, frame: Frame, time_ms: int) -> None:
        track = self._tracks[frame.key]
        if frame.fourcc != track.fourcc:
            return
        if track.faults > self.settings.faults_per_track:
            self.left_out.frames(track.name)
            return
        fragment = track.take(max(time_ms + self._offset_ms, 0), frame)
        if fragment is not None:
            self._hand_out(fragment)

    def _hand_out(self, fragment: Fragment) -> None:
        self._end_ms = max(self._end_ms, round(fragment.end * 1000))
        for rendition in self._users[fragment.track.key]:
            begun = rendition.take(fragment)
            if begun is not None and rendition is self._main:
                for other in self._by_track.values():
                    if other is not rendition:
                        other.cut_at(begun)

    def _tell(self) -> None:
        renditions = list(self.renditions.values())
        changed = [each for each in renditions if each.take_changed()]
        if self._is_settled and not self._is_ready and renditions and all(each.has_media for each in renditions):
            self._is_ready, changed = True, renditions
        if not changed:
            return
        bound_memory(renditions, self.settings.memory_bytes)
        for rendition in renditions:
            rendition.forget_texts()
        for rendition in changed:
            self._on_change(rendition)

    def _others_of(self, rendition: Rendition) -> list[Rendition]:
        return [
            each for each in self.renditions.values() if each is not rendition and not each.is_ended and each.has_media
        ]
