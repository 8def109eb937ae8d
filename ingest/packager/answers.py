"""Heads of answers: what browsers and caches are told of playlists and media.

Pages of other origins are answered too (CORS): whoever has the URL may play it anyway. A segment's, part's and
initialisation segment's URL never has other bytes, so that caches may keep them for long; a playlist that was waited
for may be kept for a while, any other for a moment; what is one viewer's own is not kept."""

import gzip
import hashlib
from dataclasses import dataclass
from typing import Final

from ingest.packager.requests import Target

Header = tuple[bytes, bytes]
Content = bytes | memoryview

M3U8: Final = (b"content-type", b"application/vnd.apple.mpegurl")
JSON: Final = (b"content-type", b"application/json")
TYPES: Final = {
    "v": (b"content-type", b"video/mp4"),
    "a": (b"content-type", b"audio/mp4"),
    "s": (b"content-type", b"text/vtt"),
}
"""By a rendition's first letter."""

CORS: Final = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"Date, Content-Range, Retry-After"),
)
PREFLIGHT: Final = (
    *CORS,
    (b"access-control-allow-methods", b"GET, HEAD, POST, OPTIONS"),
    (b"access-control-allow-headers", b"Range, Content-Type"),
    (b"access-control-max-age", b"86400"),
)
NOT_KEPT: Final = (b"cache-control", b"no-store")
KEPT: Final = (b"cache-control", b"public, max-age=86400, immutable")
MOMENT: Final = (b"cache-control", b"public, max-age=1")
GZIP: Final = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
VARY: Final = ((b"vary", b"accept-encoding"),)
RANGES: Final = (b"accept-ranges", b"bytes")
RETRY: Final = (b"retry-after", b"2")

GZIP_LEVEL: Final = 5
TAG_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Body:
    """Of a playlist, as it is sent to all who ask for it."""

    plain: bytes
    zipped: bytes
    tag: bytes
    """Names its bytes (an ETag), as does the other the zipped ones."""

    @property
    def zipped_tag(self) -> bytes:
        return b'"z-' + self.tag[1:]


def make_body(text: str) -> Body:
    plain = text.encode()
    tag = hashlib.blake2b(plain, digest_size=TAG_BYTES).hexdigest()
    return Body(plain, gzip.compress(plain, GZIP_LEVEL, mtime=0), f'"{tag}"'.encode())


def playlist_head(body: Body, keep: Header, *, is_zipped: bool) -> tuple[Header, ...]:
    tag = body.zipped_tag if is_zipped else body.tag
    return (M3U8, *CORS, keep, (b"etag", tag), *(GZIP if is_zipped else VARY))


def waited_for(target_s: int) -> Header:
    """For so long caches may keep a playlist that was waited for: six target durations."""
    return (b"cache-control", b"public, max-age=%d" % (6 * target_s))


def media_tag(target: Target) -> bytes:
    return f'"{target.epoch}-{target.rendition}-{target.kind}-{target.number}-{target.part}"'.encode()


def media_head(target: Target) -> tuple[Header, ...]:
    return (TYPES[target.rendition[0]], *CORS, KEPT, RANGES, (b"etag", media_tag(target)))
