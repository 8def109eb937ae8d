"""What a request names: a playlist, a segment, a part, a stream's state, a page's beacon.

    /hls/[TOKEN/]APP/NAME/index.m3u8, state.json, beacon, v0.m3u8
    /hls/[TOKEN/]APP/NAME/EPOCH/v0-MSN.m4s, v0-MSN.PART.m4s, v0-init-N.mp4, s0-MSN.vtt, s0-MSN.PART.vtt

NAME may be INSTANCE/NAME. A token has ':' in it, and no name of an application has."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ingest import clean

Kind = Literal["index", "state", "beacon", "playlist", "segment", "part", "init"]

PREFIX: Final = "/hls/"

_playlist: Final = re.compile(r"([avs]\d{1,3})\.m3u8")
_media: Final = re.compile(r"([av]\d{1,3})-(?:(init)-(\d{1,9})\.mp4|(\d{1,18})(?:\.(\d{1,9}))?\.m4s)")
_subtitles: Final = re.compile(r"(s\d{1,3})-()()(\d{1,18})(?:\.(\d{1,9}))?\.vtt")
_epoch: Final = re.compile(r"[0-9a-f]{8}")
_number: Final = re.compile(r"\d{1,18}")

FILES: Final[Mapping[str, Kind]] = {"index.m3u8": "index", "state.json": "state", "beacon": "beacon"}

MOST_PARTS: Final = 6
"""Of a path, behind the prefix."""


@dataclass(frozen=True, slots=True)
class Target:
    kind: Kind
    app: str
    name: str
    token: str = field(default="", repr=False)
    rendition: str = ""
    epoch: str = ""
    number: int = 0
    """The media sequence number, or which init segment."""
    part: int = 0


def read_target(path: str) -> Target | None:
    """Of a decoded path; None: there is nothing under it."""
    if not path.startswith(PREFIX) or len(path) > 4096:
        return None
    parts = path[len(PREFIX) :].split("/")
    if not 3 <= len(parts) <= MOST_PARTS or not all(parts):
        return None
    token = parts.pop(0) if ":" in parts[0] else ""
    *names, file = parts
    if kind := FILES.get(file):
        return _target(kind, names, token)
    if found := _playlist.fullmatch(file):
        return _target("playlist", names, token, rendition=found[1])
    found = _media.fullmatch(file) or _subtitles.fullmatch(file)
    if found is None or not names or not _epoch.fullmatch(names[-1]):
        return None
    epoch = names.pop()
    rendition, init, which, msn, part = found.groups()
    if init:
        return _target("init", names, token, rendition=rendition, epoch=epoch, number=int(which))
    if part is None:
        return _target("segment", names, token, rendition=rendition, epoch=epoch, number=int(msn))
    return _target("part", names, token, rendition=rendition, epoch=epoch, number=int(msn), part=int(part))


def _target(
    kind: Kind, names: list[str], token: str, *, rendition: str = "", epoch: str = "", number: int = 0, part: int = 0
) -> Target | None:
    if len(names) not in (2, 3) or any("?" in name or not clean.fits(name) for name in names):
        return None
    return Target(kind, names[0], "/".join(names[1:]), token, rendition, epoch, number, part)


MOST_FIELDS: Final = 16
"""Of a query that are read."""


@dataclass(frozen=True, slots=True)
class Directives:
    """Of a media playlist's query (section 6.2.5 of the draft), and whose it is."""

    msn: int | None = None
    part: int | None = None
    skip: bool = False
    viewer: str = ""
    is_wrong: bool = False
    """It makes no sense: a part without a segment, or what is no number."""


def read_directives(query: bytes) -> Directives:
    if not query:
        return Directives()
    pairs = query.decode("latin-1").split("&", MOST_FIELDS)
    fields = {name: value for name, _, value in (pair.partition("=") for pair in pairs[:MOST_FIELDS])}
    msn, part = fields.get("_HLS_msn"), fields.get("_HLS_part")
    is_wrong = any(value is not None and not _number.fullmatch(value) for value in (msn, part))
    if is_wrong or (part is not None and msn is None):
        return Directives(is_wrong=True)
    return Directives(
        int(msn) if msn is not None else None,
        int(part) if part is not None else None,
        fields.get("_HLS_skip") in ("YES", "v2"),
        fields.get("viewer", "")[:64],
    )
