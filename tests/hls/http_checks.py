"""What holds for the answers that a player got, and how a server answers what it should refuse."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from tests.hls.checks import Check, Finding

if TYPE_CHECKING:
    from tests.hls.client import Answer, Player, Rendition

PLAYLIST_TYPES: Final = ("application/vnd.apple.mpegurl", "audio/mpegurl")
MEDIA_ENDINGS: Final = (".m4s", ".mp4")


def _is_playlist(answer: "Answer") -> bool:
    return answer.name.endswith(".m3u8") and answer.status == 200


def playlist_type(found: "Sequence[Answer]") -> Iterator[str]:
    wrong = {
        (answer.name, answer.headers.get("content-type", ""))
        for answer in found
        if _is_playlist(answer)
        and answer.headers.get("content-type", "").partition(";")[0].lower() not in PLAYLIST_TYPES
    }
    for name, kind in sorted(wrong):
        yield f"{name} has the type {kind!r}"


def compressed(found: "Sequence[Answer]") -> Iterator[str]:
    """httpx says that it takes gzip."""
    plain = {answer.name for answer in found if _is_playlist(answer) and "content-encoding" not in answer.headers}
    for name in sorted(plain):
        yield f"{name} is not compressed"


def constant(found: "Sequence[Answer]") -> Iterator[str]:
    bodies: dict[str, set[bytes]] = defaultdict(set)
    for answer in found:
        if answer.status == 200 and answer.name.endswith(MEDIA_ENDINGS):
            bodies[urlsplit(answer.url).path].add(answer.body)
    for path, several in sorted(bodies.items()):
        if len(several) > 1:
            yield f"{path} had {len(several)} contents"


ANSWERS: "list[Check[Sequence[Answer]]]" = [
    Check("playlist-type", "4", "Playlists are application/vnd.apple.mpegurl or audio/mpegurl", playlist_type),
    Check("compressed", "6.2.1", "Playlists are compressed for who takes that", compressed, "should"),
    Check("constant", "6.2.1", "What is at a segment's, part's or map's URL stays the same", constant),
]


async def refusals(player: "Player", rendition: "Rendition") -> list[Finding]:
    """Asks for what is to be refused at once; of a stream that is live, and of a rendition that was reloaded."""
    msn = rendition.playlist.next_msn - 1
    joint = "&" if urlsplit(rendition.url).query else "?"
    asked: list[tuple[dict[str, object], str, str]] = [
        ({"_HLS_part": 0}, "must", "_HLS_part without _HLS_msn is a bad request"),
        ({"_HLS_msn": "x"}, "must", "_HLS_msn is a number"),
        ({"_HLS_msn": msn + 50}, "should", "_HLS_msn is at most two beyond the last"),
        ({"_HLS_msn": msn + 1, "_HLS_part": 1000}, "should", "_HLS_part is within the Advance Part Limit"),
    ]
    found = []
    for query, level, says in asked:
        answer = await player.get(f"{rendition.url}{joint}{urlencode(query)}", 0)
        if answer.status != 400:
            words = f"{says}: {query} was answered with {answer.status}"
            found.append(Finding("refusals", "6.2.5.2", "must" if level == "must" else "should", words))
    return found
