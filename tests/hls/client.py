"""A player of HLS without a screen: it follows a stream as players do, by blocking reloads, delta updates, hints and
parts, and keeps every playlist and body with its times.

    async with Player(url) as player:
        video = await player.open()
        async with asyncio.timeout(10):
            await video.follow(lambda: len(video.received) > 20)
    assert not faults(player.findings())
"""

import asyncio
import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import groupby
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode, urljoin, urlsplit

import av
import httpx

from tests.hls import validator
from tests.hls.checks import Finding, run
from tests.hls.http_checks import ANSWERS
from tests.hls.mp4 import Sample, Track, read_fragments, read_init
from tests.hls.playlist import MediaPlaylist, MultivariantPlaylist, Part, Segment, apply_delta, read
from tests.hls.validator import Body, Fetch, Media, Presentation, Succession

PATIENCE_S: Final = 20.0
"""How long an answer may take, as long as a server blocks."""
BY_SCRIPT: Final = {"Origin": "https://player.example"}
"""As a page of another origin asks, which has a player of low latency."""


LOOK_S: Final = 0.05
"""How often the player looks whether its own loop stands still,"""
HELD_UP_S: Final = 0.02
"""and how late it is then."""


class FollowError(Exception):
    """The server answered with another status than was wanted, or the stream went on without this player."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Times by `time.monotonic`."""

    url: str
    status: int
    headers: httpx.Headers
    body: bytes
    asked_at: float
    at: float

    @property
    def name(self) -> str:
        """The path's last piece."""
        return urlsplit(self.url).path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Received:
    """A part, or (`part` -1) a whole segment. `date`: of its first sample by the playlist, in seconds since the epoch;
    None without one."""

    segment: Segment
    part: int
    duration: float
    answer: Answer
    date: float | None


@dataclass(frozen=True, slots=True)
class Demuxed:
    """A packet, its times in seconds. `kind` as in `Track`."""

    kind: str
    dts_s: float
    pts_s: float
    is_keyframe: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Arrived:
    """A sample, when it came by `time.monotonic`, and its times in seconds."""

    track: Track
    sample: Sample
    at: float

    @property
    def pts_s(self) -> float:
        return self.sample.pts / self.track.timescale


class Player:
    """Of one stream; its renditions share their connections."""

    def __init__(self, url: str, *, headers: dict[str, str] | None = None) -> None:
        self.url = url
        self.answers: list[Answer] = []
        """All, in the order in which they came."""
        self.multivariant: MultivariantPlaylist | None = None
        self.renditions: dict[str, Rendition] = {}
        """By the URIs that the multivariant playlist has for them."""
        self.held_up_s = 0.0
        """How long its own loop stood still, in all: who is in the same loop was held up as well."""
        self._http = httpx.AsyncClient(headers=headers or BY_SCRIPT, timeout=PATIENCE_S, trust_env=False)
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._looking = asyncio.create_task(self._look_at_the_loop())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for rendition in self.renditions.values():
            await rendition.forget()
        await self._http.aclose()

    async def _look_at_the_loop(self) -> None:
        while True:
            due = time.monotonic() + LOOK_S
            await asyncio.sleep(LOOK_S)
            late_s = time.monotonic() - due
            if late_s > HELD_UP_S:
                self.held_up_s += late_s

    async def get(self, url: str, status: int = 200) -> Answer:
        """Raises FollowError with another status; `status` 0 takes any."""
        asked_at = time.monotonic()
        got = await self._http.get(url)
        answer = Answer(url, got.status_code, got.headers, got.content, asked_at, time.monotonic())
        self.answers.append(answer)
        if status not in (0, answer.status):
            raise FollowError(f"{answer.status} for {url}: {answer.body[:300]!r}")
        return answer

    async def open(self, place: int = 0) -> "Rendition":
        """Asks for the multivariant playlist, and takes the variant of that place."""
        found = read((await self.get(self.url)).body.decode())
        if not isinstance(found, MultivariantPlaylist):
            raise FollowError(f"{self.url} is no multivariant playlist")
        self.multivariant = found
        return self.rendition(found.variants[place].uri)

    def rendition(self, uri: str) -> "Rendition":
        if uri not in self.renditions:
            self.renditions[uri] = Rendition(self, uri)
        return self.renditions[uri]

    def findings(self) -> list[Finding]:
        """What the validator has to say of all that was received."""
        found = list(run(ANSWERS, self.answers))
        for rendition in self.renditions.values():
            found += validator.succession(Succession(rendition.fetches))
            media = rendition.media()
            found += validator.texts(media.bodies) if rendition.is_text else validator.segments(media)
        if self.multivariant:
            known = {uri: one.measured() for uri, one in self.renditions.items() if one.fetches}
            found += validator.presentation(Presentation(self.multivariant, known))
        return found


class Rendition:
    """A media playlist, followed."""

    def __init__(self, player: Player, uri: str) -> None:
        self.url = urljoin(player.url, uri)
        self.fetches: list[Fetch] = []
        self.received: list[Received] = []
        """One after another, without a gap."""
        self.inits: dict[str, bytes] = {}
        """By the URIs of their maps."""
        self.wholes: dict[int, bytes] = {}
        """Segments by their numbers, as `fetch_wholes` had them."""
        self.playlist = MediaPlaylist("", (), ())
        """As it is, delta updates applied."""
        self._player = player
        self._msn = self._part = -1
        """What is to be fetched next."""
        self._updated_at = 0.0
        self._hinted: dict[str, asyncio.Task[Answer]] = {}
        self._segments: dict[int, Segment] = {}

    @property
    def is_text(self) -> bool:
        """Its segments are WebVTT."""
        first = next(iter(self._segments.values()), None)
        uris = [first.uri, *(part.uri for part in first.parts)] if first is not None else []
        return any(uri.partition("?")[0].endswith(".vtt") for uri in uris)

    async def reload(self, asked: tuple[int, int] | None = None, *, skip: bool = False) -> MediaPlaylist:
        """With _HLS_msn and _HLS_part (-1: without), where they are `asked` for."""
        query: dict[str, Any] = {}
        if asked is not None:
            query["_HLS_msn"] = asked[0]
            if asked[1] >= 0:
                query["_HLS_part"] = asked[1]
        if skip:
            query["_HLS_skip"] = "YES"
        joint = "&" if urlsplit(self.url).query else "?"
        answer = await self._player.get(self.url + (joint + urlencode(query) if query else ""))
        found = read(answer.body.decode())
        if not isinstance(found, MediaPlaylist):
            raise FollowError(f"{self.url} is no media playlist")
        self.fetches.append(Fetch(found, answer.at, asked, skip, self._player.held_up_s))
        try:
            self.playlist = apply_delta(self.playlist, found)
        except ValueError:  # It slept while segments came and went.
            return await self.reload()
        self._segments |= {segment.msn: segment for segment in self.playlist.all_segments}
        self._updated_at = answer.at
        return self.playlist

    async def follow(self, is_enough: Callable[[], bool], *, hints: bool = True) -> None:
        """Begins where players do, and goes on until it is enough, or the stream has ended. `hints`: what is hinted at
        is asked for before it is there."""
        if self._msn < 0:
            self._begin(await self.reload())
        while not is_enough():
            wanted = self._next()
            if wanted is not None:
                await self._receive(*wanted)
            elif self.playlist.is_ended:
                return
            else:
                if hints and self.playlist.hint:
                    self._ask_ahead(self.playlist.hint)
                await self._reload_next()

    async def fetch_wholes(self) -> None:
        """The segments that were received in parts, whole, as far as they are listed: to be compared."""
        for segment in self.playlist.segments:
            if segment.msn in {one.segment.msn for one in self.received} and segment.msn not in self.wholes:
                self.wholes[segment.msn] = (await self._player.get(urljoin(self.url, segment.uri))).body

    async def forget(self) -> None:
        """Asks for no hint any more."""
        for task in self._hinted.values():
            task.cancel()
        await asyncio.gather(*self._hinted.values(), return_exceptions=True)

    # --- The way through the playlist ---

    def _begin(self, playlist: MediaPlaylist) -> None:
        """At the last place to begin that is as far from the end as the server says (6.3.3)."""
        hold_s = playlist.control.number("PART-HOLD-BACK") if playlist.part_target else None
        if hold_s is None:
            hold_s = playlist.control.number("HOLD-BACK") or 3.0 * playlist.target
        left_s = playlist.length_s
        self._msn, self._part = playlist.media_sequence, 0
        for segment in playlist.all_segments:
            pieces: Sequence[Part | Segment] = segment.parts or [segment]
            for place, piece in enumerate(pieces):
                begins = place == 0 if isinstance(piece, Segment) else piece.is_independent
                if left_s >= hold_s and begins:
                    self._msn, self._part = segment.msn, place
                left_s -= piece.duration

    def _next(self) -> tuple[Segment, int] | None:
        """(segment, its part or -1 for all of it); None where it is not there yet."""
        if self._msn < self.playlist.media_sequence:
            raise FollowError(f"segment {self._msn} is gone, the playlist begins with {self.playlist.media_sequence}")
        for segment in self.playlist.all_segments[self._msn - self.playlist.media_sequence :]:
            if self._part < len(segment.parts):
                return segment, self._part
            if segment.is_open:
                return None
            if not segment.parts:
                if self._part:
                    raise FollowError(f"the parts of segment {segment.msn} are gone")
                return segment, -1
            self._msn, self._part = segment.msn + 1, 0
        return None

    async def _receive(self, segment: Segment, place: int) -> None:
        if segment.map_uri and segment.map_uri not in self.inits:
            self.inits[segment.map_uri] = (await self._player.get(urljoin(self.url, segment.map_uri))).body
        piece: Part | Segment = segment if place < 0 else segment.parts[place]
        ahead = self._hinted.pop(piece.uri, None)
        answer = await ahead if ahead is not None else None
        if answer is None or answer.status != 200:
            answer = await self._player.get(urljoin(self.url, piece.uri))
        before_s = sum(part.duration for part in segment.parts[: max(0, place)])
        date = datetime.fromisoformat(segment.date_time).timestamp() + before_s if segment.date_time else None
        self.received.append(Received(segment, place, piece.duration, answer, date))
        self._msn, self._part = (segment.msn + 1, 0) if place < 0 else (segment.msn, place + 1)

    def _ask_ahead(self, uri: str) -> None:
        if uri not in self._hinted:
            self._hinted[uri] = asyncio.create_task(self._player.get(urljoin(self.url, uri), 0))

    async def _reload_next(self) -> None:
        control, target = self.playlist.control, self.playlist.target
        until_s = control.number("CAN-SKIP-UNTIL")
        skip = until_s is not None and time.monotonic() - self._updated_at < until_s / 2
        if not control.is_yes("CAN-BLOCK-RELOAD"):
            await asyncio.sleep(target / 2)
            await self.reload(skip=skip)
            return
        msn, part = self.playlist.last
        after = (msn, part + 1) if part >= 0 else (msn + 1, 0)
        await self.reload(after if self.playlist.part_target else (self.playlist.next_msn, -1), skip=skip)

    # --- What was received ---

    def joined(self) -> bytes:
        """All of it as one file; another init segment stands where it begins to apply."""
        return b"".join(self._joined(map_uri, list(some)) for map_uri, some in self._eras())

    def _eras(self) -> "groupby[str, Received]":
        return groupby(self.received, key=lambda one: one.segment.map_uri)

    def _joined(self, map_uri: str, some: list[Received]) -> bytes:
        return self.inits[map_uri] + b"".join(one.answer.body for one in some)

    def packets(self) -> list[Demuxed]:
        """Of all of it, as FFmpeg reads it."""
        found = []
        for map_uri, some in self._eras():
            with av.open(io.BytesIO(self._joined(map_uri, list(some))), "r") as container:
                for packet in container.demux():
                    if packet.size and packet.dts is not None and packet.pts is not None:
                        base = packet.time_base
                        times = (float(packet.dts * base), float(packet.pts * base))
                        found.append(Demuxed(packet.stream.type, *times, packet.is_keyframe, bytes(packet)))
        return found

    def decoded(self, kind: str) -> int:
        """How many frames of "video" or "audio" FFmpeg decodes of all of it. Raises what it raises."""
        count = 0
        for map_uri, some in self._eras():
            with av.open(io.BytesIO(self._joined(map_uri, list(some))), "r") as container:
                streams = [stream for stream in container.streams if stream.type == kind]
                count += sum(len(packet.decode()) for packet in container.demux(streams))
        return count

    def arrived(self) -> list[Arrived]:
        """Each sample with its time of arrival, which is that of its part's last byte."""
        tracks = cache(lambda uri: read_init(self.inits[uri]))
        if self.is_text:
            return []
        return [
            Arrived(run.track, sample, one.answer.at)
            for one in self.received
            for fragment in read_fragments(one.answer.body, tracks(one.segment.map_uri))
            for run in fragment
            for sample in run.samples
        ]

    def delays(self, clock: Callable[[Arrived], float | None]) -> list[float]:
        """Seconds from when a sample was sent, which `clock` tells in `time.monotonic`, to its arrival; without those
        of which it doesn't know."""
        known = ((one, clock(one)) for one in self.arrived())
        return [one.at - sent for one, sent in known if sent is not None]

    def date_delays(self) -> list[float]:
        """Seconds from the date of each part's end, by the playlist, to the part's arrival: of clocks that agree."""
        shift = time.time() - time.monotonic()
        return [one.answer.at + shift - one.date - one.duration for one in self.received if one.date is not None]

    def media(self) -> Media:
        """For the validator. What was received in parts has them all, but at the beginning and the end."""
        bodies = []
        for msn, some in groupby(self.received, key=lambda one: one.segment.msn):
            segment, whole = self._segments[msn], self.wholes.get(msn)
            parts: list[bytes | None] = []
            for one in some:
                if one.part < 0:
                    whole = one.answer.body
                    continue
                parts += [None] * (one.part + 1 - len(parts))
                parts[one.part] = one.answer.body
                if len(segment.parts) <= one.part:
                    segment = one.segment  # Its parts are not listed any more.
            bodies.append(Body(segment, whole, parts))
        independent = any(fetch.playlist.first("EXT-X-INDEPENDENT-SEGMENTS") for fetch in self.fetches)
        return Media(self.inits, bodies, are_independent=independent)

    def measured(self) -> validator.Rendition:
        """For the validator: the newest playlist, with the sizes of what was received of its segments."""
        sizes: dict[str, int] = {}
        for body in self.media().bodies:
            there = [part for part in body.parts if part is not None]
            if body.whole is not None:
                sizes[body.segment.uri] = len(body.whole)
            elif not body.segment.is_open and len(there) == len(body.segment.parts):
                sizes[body.segment.uri] = sum(map(len, there))
        pictures = [one for one in self.arrived() if one.track.kind == "video"]
        lasted_s = sum(one.sample.duration / one.track.timescale for one in pictures)
        init = self.inits.get(self.received[-1].segment.map_uri) if self.received else None
        rate = len(pictures) / lasted_s if lasted_s else 0.0
        return validator.Rendition(self.playlist, init, sizes, rate, self._updated_at)
