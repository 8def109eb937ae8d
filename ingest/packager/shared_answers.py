"""Answers that are the same for many viewers: playlists, parts, segments. They are made once, head and body, and given
by the connection itself, at once or when what was asked for comes into being: to each viewer by a look and a write.

What needs more than that (a range, a viewer who is new, an error) is answered by the application, as is whatever was
waited for in vain."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from ingest.hls import Rendition
from ingest.packager.access import Found
from ingest.packager.answers import MOMENT, Content, Header, media_head, playlist_head, waited_for
from ingest.packager.packaged import PLAIN_SEGMENTS, Connection, PackagedStream
from ingest.packager.requests import Directives, Target, read_directives, read_target
from ingest.packager.viewers import Viewers

TARGETS: Final = 4096
NOT_ALIKE: Final = frozenset({b"range", b"if-range", b"if-none-match", b"expect"})
"""Fields of requests whose answer is another."""
KINDS: Final = frozenset({"playlist", "part", "segment", "init"})


Form = tuple[str, bool, bool, bool]
"""Of a playlist: its rendition, and whether it is a delta update, zipped, and was waited for."""


class Shared(NamedTuple):
    head: bytes
    """From behind the date to the body."""
    content: Content


@dataclass(frozen=True, slots=True)
class Awaited:
    """It is not there yet: until it is, or never will be."""

    stream: PackagedStream
    rendition: Rendition
    msn: int
    part: int | None
    is_file: bool

    def is_over(self) -> bool:
        if self.is_file:
            return not self.rendition.awaits(self.msn, self.part or 0)
        return self.rendition.is_ended or self.rendition.has(self.msn, self.part)


class Packager(Protocol):
    viewers: Viewers

    def known(self, target: Target) -> Found | None:
        """What was read of it a moment ago; None: it is to be read anew."""

    def packaged(self, path: str) -> PackagedStream | None: ...


@lru_cache(maxsize=TARGETS)
def _target(path: bytes) -> Target | None:
    return read_target(unquote(path.decode("latin-1")))


class SharedAnswers:
    def __init__(self, packager: Packager) -> None:
        self._packager = packager
        self._playlists: WeakKeyDictionary[PackagedStream, dict[Form, tuple[str, Shared]]] = WeakKeyDictionary()
        """With the text that each is of."""

    def find(self, asked: Connection, url: bytes, fields: Sequence[Header]) -> Shared | Awaited | None:
        """Of a GET. None: the application is to answer."""
        is_zipped = False
        for name, value in fields:
            if name in NOT_ALIKE:
                return None
            if name == b"accept-encoding":
                is_zipped = b"gzip" in value
        path, _, query = url.partition(b"?")
        target = _target(path)
        if target is None or target.kind not in KINDS:
            return None
        found = self._packager.known(target)
        if found is None or found.state == "closed":
            return None
        stream = self._packager.packaged(found.path)
        if stream is None or not stream.packaging.is_ready:
            return None
        rendition = stream.packaging.renditions.get(target.rendition)
        if rendition is None or target.epoch not in ("", stream.epoch):
            return None
        if target.kind == "playlist":
            return self._playlist(asked, stream, rendition, read_directives(query), is_zipped=is_zipped)
        return self._media(asked, stream, rendition, target)

    def _playlist(
        self,
        asked: Connection,
        stream: PackagedStream,
        rendition: Rendition,
        directives: Directives,
        *,
        is_zipped: bool,
    ) -> Shared | Awaited | None:
        viewer = self._packager.viewers.get(directives.viewer) if directives.viewer else None
        if directives.is_wrong or (directives.viewer and viewer is None):
            return None
        msn, part = directives.msn, directives.part
        if msn is None and len(rendition.segments) < PLAIN_SEGMENTS:
            return None
        if msn is not None and not rendition.has(msn, part):
            if rendition.is_too_far(msn, part):
                return None
            stream.touch(viewer, asked)
            return Awaited(stream, rendition, msn, part, is_file=False)
        stream.touch(viewer, asked)
        answer = self._made_playlist(stream, rendition, directives.skip, is_zipped, msn is not None)
        stream.count(viewer, len(answer.content))
        return answer

    def _made_playlist(
        self, stream: PackagedStream, rendition: Rendition, skip: bool, is_zipped: bool, was_waited_for: bool
    ) -> Shared:
        text = rendition.playlist(skip=skip)
        key = (rendition.name, skip, is_zipped, was_waited_for)
        known = self._playlists.get(stream, {}).get(key)
        if known is not None and known[0] is text:
            return known[1]
        body = stream.playlist(rendition, skip=skip)
        content = body.zipped if is_zipped else body.plain
        keep = waited_for(rendition.targets.duration_s) if was_waited_for else MOMENT
        head = playlist_head(body, keep, is_zipped=is_zipped)
        answer = Shared(head_bytes(head, len(content)), content)
        self._playlists.setdefault(stream, {})[key] = (text, answer)
        return answer

    def _media(
        self, asked: Connection, stream: PackagedStream, rendition: Rendition, target: Target
    ) -> Shared | Awaited | None:
        content = stream.content(rendition, target)
        if content is None:
            if target.kind != "part" or rendition.is_too_far(target.number, target.part):
                return None
            if not rendition.awaits(target.number, target.part):
                return None
            return Awaited(stream, rendition, target.number, target.part, is_file=True)
        stream.asked_at = stream.loop_time
        stream.count(self._packager.viewers.get(asked.viewer), len(content))
        return Shared(_media_head(target, len(content)), content)


@lru_cache(maxsize=TARGETS)
def _media_head(target: Target, size: int) -> bytes:
    return head_bytes(media_head(target), size)


def head_bytes(headers: Sequence[Header], size: int) -> bytes:
    lines = b"".join(b"%s: %s\r\n" % header for header in headers)
    return b"%scontent-length: %d\r\n\r\n" % (lines, size)
