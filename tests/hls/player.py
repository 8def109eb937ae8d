"""A player of low-latency HLS without a screen: it follows a stream by blocking reloads, delta updates, hints, parts.

async with Player(url) as player, asyncio.timeout(10):
    video = await player.open()
    await video.follow(lambda: len(video.received) > 20)
assert player.findings() == []
"""

import asyncio
import io
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Self
from urllib.parse import urljoin

import av
import httpx

from tests.hls.playlist import Part, Playlist, Segment, apply_delta, read
from tests.hls.presentation import Presentation
from tests.hls.presentation import Rendition as MeasuredRendition
from tests.hls.rules import Finding
from tests.hls.segments import Body, Media
from tests.hls.succession import Fetch, Succession

PATIENCE_S: Final = 20.0
"""The limit for an answer: a server may block for that long."""
BY_SCRIPT: Final = {"Origin": "https://player.example"}
"""The header of a page of another origin, which has a low-latency player."""
LOOK_S: Final = 0.05
"""The interval at which the player checks if its own loop stands still."""
HELD_UP_S: Final = 0.02
"""A check that is later than this counts."""


class FollowError(Exception):
    """The server answered with an unexpected status, or the stream went on without this player."""


@dataclass(frozen=True, slots=True)
class Received:
    """A part, or (`part` -1) a whole segment."""

    segment: Segment
    part: int
    answer: httpx.Response

    @property
    def body(self) -> bytes:
        return self.answer.content


class Player:
    """A player of one stream. Its renditions share their connections."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.multivariant: Playlist | None = None
        self.renditions: dict[str, Rendition] = {}
        """{URI in the multivariant playlist: rendition}"""
        self.held_up_s = 0.0
        """The time in all for which the player's own loop stood still, and everything else in that loop."""
        self._media: defaultdict[str, set[bytes]] = defaultdict(set)
        """The contents of each media file, by its path."""
        self._http = httpx.AsyncClient(headers=BY_SCRIPT, timeout=PATIENCE_S, trust_env=False)

    async def __aenter__(self) -> Self:
        self._looking = asyncio.create_task(self._look_at_the_loop())
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [self._looking, *(task for each in self.renditions.values() for task in each.hinted.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.aclose()

    async def _look_at_the_loop(self) -> None:
        while True:
            due = time.monotonic() + LOOK_S
            await asyncio.sleep(LOOK_S)
            late_s = time.monotonic() - due
            self.held_up_s += late_s if late_s > HELD_UP_S else 0.0

    async def get(self, url: str, **params: Any) -> httpx.Response:
        """Raises FollowError unless the status is 200."""
        answer = await self._http.get(httpx.URL(url).copy_merge_params(params))
        if answer.status_code != 200:
            raise FollowError(f"{answer.status_code} for {url}: {answer.text[:300]!r}")
        if (path := answer.url.path).endswith((".m4s", ".mp4")):
            self._media[path].add(answer.content)
        return answer

    async def open(self) -> "Rendition":
        """Request the multivariant playlist, and take its first variant."""
        found = read((await self.get(self.url)).content.decode())
        if not found.is_multivariant:
            raise FollowError(f"{self.url} is no multivariant playlist")
        self.multivariant = found
        return self.rendition(found.variants[0][1])

    def rendition(self, uri: str) -> "Rendition":
        return self.renditions.setdefault(uri, Rendition(self, uri))

    def findings(self) -> list[Finding]:
        """The findings of all that was received, except for texts."""
        changed = [path for path, contents in self._media.items() if len(contents) > 1]
        found = [Finding("constant", "6.2.1", f"What is at a URL of media stays the same: {path}") for path in changed]
        for rendition in self.renditions.values():
            found += Succession(rendition.fetches).findings()
            found += rendition.media().findings() if not rendition.is_text else []
        if self.multivariant:
            measured = {uri: one.measured() for uri, one in self.renditions.items() if one.fetches}
            found += Presentation(self.multivariant, measured).findings()
        return found


class Rendition:
    """A media playlist that a player follows."""

    def __init__(self, player: Player, uri: str) -> None:
        self.url = urljoin(player.url, uri)
        self.fetches: list[Fetch] = []
        self.received: list[Received] = []
        """All parts and segments, without a gap."""
        self.inits: dict[str, bytes] = {}
        """By the URIs of their maps."""
        self.wholes: dict[int, bytes] = {}
        """The segments of `fetch_wholes`, by their numbers."""
        self.playlist = Playlist()
        """The newest one, with delta updates applied."""
        self.hinted: dict[str, asyncio.Task[httpx.Response]] = {}
        """The requests for hinted parts, by their URIs."""
        self._player = player
        self._msn = self._part = -1
        """The next part to fetch."""
        self._segments: dict[int, Segment] = {}

    @property
    def is_text(self) -> bool:
        """True if its segments are WebVTT."""
        uris = [uri for each in self._segments.values() for uri in (each.uri, *(part.uri for part in each.parts))]
        return any(uri.partition("?")[0].endswith(".vtt") for uri in uris)

    async def reload(self, asked: tuple[int, int] | None = None, *, skip: bool = False) -> Playlist:
        """`asked`: _HLS_msn and _HLS_part (-1: without)."""
        query = dict(zip(("_HLS_msn", "_HLS_part"), (number for number in asked or () if number >= 0), strict=False))
        answer = await self._get(self.url, **query, **({"_HLS_skip": "YES"} if skip else {}))
        found = read(answer.content.decode())
        if found.is_multivariant:
            raise FollowError(f"{self.url} is no media playlist")
        self.fetches.append(Fetch(found, time.monotonic(), asked, skip, self._player.held_up_s))
        try:
            self.playlist = apply_delta(self.playlist, found)
        except ValueError:  # It slept while segments came and went.
            return await self.reload()
        self._segments |= {segment.msn: segment for segment in self.playlist.all_segments}
        return self.playlist

    async def follow(self, is_enough: Callable[[], bool]) -> None:
        """Begin where players do, and go on until it is enough, or the stream has ended."""
        if self._msn < 0:
            self._begin(await self.reload())
        while not is_enough():
            wanted = self._next()
            if wanted is not None:
                await self._receive(*wanted)
            elif self.playlist.is_ended:
                return
            else:
                hint = self.playlist.hint
                if hint and hint not in self.hinted:
                    self.hinted[hint] = asyncio.create_task(self._get(hint))
                await self._reload_next()

    async def fetch_wholes(self) -> None:
        """Fetch the listed segments whole that were received in parts, to compare them."""
        received = {one.segment.msn for one in self.received}
        for segment in self.playlist.segments:
            if segment.msn in received - set(self.wholes):
                self.wholes[segment.msn] = (await self._get(segment.uri)).content

    async def _get(self, uri: str, **params: Any) -> httpx.Response:
        return await self._player.get(urljoin(self.url, uri), **params)

    # --- The way through the playlist ---

    def _begin(self, playlist: Playlist) -> None:
        """Begin at the last possible place that is as far from the end as the server says (6.3.3)."""
        hold_s = playlist.control.number("PART-HOLD-BACK") if playlist.part_target else None
        hold_s = hold_s or playlist.control.number("HOLD-BACK") or 3.0 * playlist.target
        left_s = playlist.length_s
        self._msn, self._part = playlist.media_sequence, 0
        for segment in playlist.all_segments:
            pieces: Sequence[Part | Segment] = segment.parts or [segment]
            for place, piece in enumerate(pieces):
                if left_s >= hold_s and (isinstance(piece, Segment) or piece.is_independent):
                    self._msn, self._part = segment.msn, place
                left_s -= piece.duration

    def _next(self) -> tuple[Segment, int] | None:
        """(segment, its part or -1 for all of it); None if it is not there yet."""
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
            self.inits[segment.map_uri] = (await self._get(segment.map_uri)).content
        uri = segment.uri if place < 0 else segment.parts[place].uri
        answer = None
        if ahead := self.hinted.pop(uri, None):
            with suppress(FollowError):
                answer = await ahead
        self.received.append(Received(segment, place, answer or await self._get(uri)))
        self._msn, self._part = (segment.msn + 1, 0) if place < 0 else (segment.msn, place + 1)

    async def _reload_next(self) -> None:
        until_s = self.playlist.control.number("CAN-SKIP-UNTIL") or 0
        skip = time.monotonic() - self.fetches[-1].at < until_s / 2
        msn, part = self.playlist.last
        await self.reload((msn, part + 1) if part >= 0 else (msn + 1, 0), skip=skip)

    # --- What was received ---

    def joined(self) -> list[bytes]:
        """All of it as files, one for each init segment."""
        of_inits = groupby(self.received, key=lambda one: one.segment.map_uri)
        return [self.inits[uri] + b"".join(one.body for one in some) for uri, some in of_inits]

    def decoded(self, kind: str) -> int:
        """The number of frames of "video" or "audio" that FFmpeg decodes of all of it. Raises what FFmpeg raises."""
        count = 0
        for file in self.joined():
            with av.open(io.BytesIO(file), "r") as container:
                count += sum(len(packet.decode()) for packet in container.demux(**{kind: 0}))
        return count

    def media(self) -> Media:
        """All segments, with all of their parts except at the beginning and the end."""
        bodies = []
        for msn, some in groupby(self.received, key=lambda one: one.segment.msn):
            ones = list(some)
            parts = [None] * ones[0].part + [one.body for one in ones] if ones[0].part >= 0 else []
            whole = self.wholes.get(msn) if parts else ones[0].body
            # The newest playlist may not list the parts any more.
            segment = max(self._segments[msn], ones[-1].segment, key=lambda each: len(each.parts))
            bodies.append(Body(segment, whole, parts))
        are_independent = any(fetch.playlist.first("EXT-X-INDEPENDENT-SEGMENTS") for fetch in self.fetches)
        return Media(self.inits, bodies, are_independent)

    def measured(self) -> MeasuredRendition:
        """The newest playlist, with the sizes of its segments and the rate of its pictures."""
        contents = [(body.segment, body.joined if body.whole is None else body.whole) for body in self.media().bodies]
        sizes = {segment.uri: len(data) for segment, data in contents if data is not None and not segment.is_open}
        runs = [run for _, runs in self.media().pieces for run in runs if run.track.kind == "video"]
        seconds = sum(run.duration_s for run in runs)
        rate = sum(len(run.durations) for run in runs) / seconds if seconds else 0.0
        init = self.inits.get(self.received[-1].segment.map_uri) if self.received else None
        return MeasuredRendition(self.playlist, init, sizes, rate, self.fetches[-1].at)
