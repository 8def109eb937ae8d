"""What the packager answers to a request (an ASGI application), but for what many viewers are given alike
(`shared_answers`): that comes here only if it was waited for in vain."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any, Final, Protocol

from ingest import addresses
from ingest.addresses import Network
from ingest.byte_range import NoSuchRange, read_range
from ingest.hls import Rendition
from ingest.packager.access import Found, Unsure
from ingest.packager.answers import (
    CORS,
    JSON,
    MOMENT,
    NOT_KEPT,
    PREFLIGHT,
    RETRY,
    Body,
    Content,
    Header,
    make_body,
    media_head,
    media_tag,
    playlist_head,
    waited_for,
)
from ingest.packager.packaged import PLAIN_SEGMENTS, PackagedStream
from ingest.packager.requests import Target, read_directives, read_target
from ingest.packager.rewind import NotReady
from ingest.packager.viewers import Asking, TurnedAway, Viewers

logger = logging.getLogger(__name__)

Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
HAS_WAITED: Final = "has_waited"
"""In the scope of a request that was held back until now (`http_server`)."""

METHODS: Final = {"beacon": ("POST",)}
READS: Final = ("GET", "HEAD")

WORDS: Final = {
    "live": "",
    "waiting": "The stream has not begun yet.",
    "ended": "The stream has ended.",
}
STARTING: Final = "The stream begins: try again in a moment."
LATE: Final = "Nothing more has come of the stream yet."
GONE: Final = "This part of the stream is not kept any more, or never was."
NOTHING: Final = "There is nothing here. Live streams are at /hls/APPLICATION/STREAM/index.m3u8."
FULL: Final = "The server packages as many streams as it may. Try again in a while."


class Failed(Exception):  # noqa: N818 - an answer, not an error.
    def __init__(self, status: HTTPStatus, words: str = "", *headers: Header) -> None:
        super().__init__(words)
        self.status, self.headers = status, headers


class Packager(Protocol):
    """What the application asks of its process."""

    viewers: Viewers

    async def look(self, target: Target, address: str) -> Found:
        """`address`: who asks. Raises Unsure."""

    async def look_until_begun(self, target: Target, address: str) -> Found:
        """The same, of now and not of a moment ago; of a stream on demand, once it is live or that takes too long."""

    def packaged(self, path: str) -> PackagedStream | None: ...

    def from_disk(self, target: Target) -> AbstractAsyncContextManager[bytes | None]:
        """A segment of the rewind, while it is sent. Raises NotReady: too many are at it."""


class HlsApplication:
    def __init__(self, packager: Packager, proxies: Sequence[Network]) -> None:
        self._packager = packager
        self._proxies = proxies

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        except Failed as failed:
            await self._fail(send, failed)
        except TurnedAway as away:
            status = HTTPStatus.SERVICE_UNAVAILABLE if away.passes else HTTPStatus.FORBIDDEN
            await self._fail(send, Failed(status, str(away), *((RETRY,) if away.passes else ())))
        except NotReady:
            await self._fail(send, Failed(HTTPStatus.SERVICE_UNAVAILABLE, STARTING, RETRY))
        except Unsure:
            await self._fail(send, Failed(HTTPStatus.SERVICE_UNAVAILABLE, "Try again in a moment.", RETRY))

    async def _answer(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        method, target = scope["method"], read_target(scope["path"])
        if target is None:
            raise Failed(HTTPStatus.NOT_FOUND, NOTHING, MOMENT)
        if method == "OPTIONS":
            await _send(send, HTTPStatus.NO_CONTENT, PREFLIGHT)
            return
        allowed = METHODS.get(target.kind, READS)
        if method not in allowed:
            raise Failed(HTTPStatus.METHOD_NOT_ALLOWED, "", (b"allow", ", ".join(allowed).encode()))
        await ANSWERS[target.kind](self, target, scope, receive, send)

    # --- Whether it may be watched ---

    async def _checked(self, target: Target, scope: Mapping[str, Any]) -> Found:
        found = await self._packager.look(target, self._address(scope))
        if found.state == "closed":
            raise Failed(HTTPStatus.FORBIDDEN, found.words, NOT_KEPT)
        return found

    def _address(self, scope: Mapping[str, Any]) -> str:
        peer = scope["client"][0] if scope["client"] else ""
        forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
        return addresses.client_of(peer, forwarded, self._proxies)

    def _asking(self, target: Target, scope: Mapping[str, Any]) -> Asking:
        fields = dict(scope["headers"])

        def text(name: bytes) -> str:
            return str(fields.get(name, b"").decode("latin-1"))

        return Asking(
            app=target.app,
            name=target.name,
            token=target.token,
            address=self._address(scope),
            agent=text(b"user-agent")[:512],
            page=(text(b"referer") or text(b"origin"))[:512],
            host=text(b"host")[:256],
        )

    def _stream(self, found: Found) -> PackagedStream:
        stream = self._packager.packaged(found.path)
        if stream is None:
            raise Failed(HTTPStatus.NOT_FOUND, WORDS["waiting"], NOT_KEPT)
        return stream

    def _rendition(self, stream: PackagedStream, target: Target) -> Rendition:
        rendition = stream.packaging.renditions.get(target.rendition)
        if rendition is None or target.epoch not in ("", stream.epoch):
            raise Failed(HTTPStatus.NOT_FOUND, GONE, MOMENT)
        return rendition

    # --- Playlists ---

    async def _index(self, target: Target, scope: Mapping[str, Any], _receive: Receive, send: Send) -> None:
        """The multivariant playlist: a new viewer's. Who may not watch is refused by the node's application, which
        records it."""
        found = await self._packager.look_until_begun(target, self._address(scope))
        if found.state == "waiting":
            raise Failed(HTTPStatus.NOT_FOUND, WORDS["waiting"], NOT_KEPT)
        try:
            viewer = await self._packager.viewers.enter(self._asking(target, scope))
        except TurnedAway as away:
            if found.state == "closed" and not away.passes:
                raise Failed(HTTPStatus.FORBIDDEN, found.words, NOT_KEPT) from None
            raise
        stream = self._packager.packaged(viewer.path)
        if stream is None:
            viewer.leave()
            raise Failed(HTTPStatus.SERVICE_UNAVAILABLE, FULL, RETRY)
        try:
            await stream.ready()
        except NotReady:
            viewer.leave()
            if stream.packaging.left_out:
                raise Failed(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, str(stream.packaging.left_out), NOT_KEPT) from None
            raise
        stream.touch(viewer, scope.get("connection"))
        body = make_body(stream.packaging.multivariant(f"viewer={viewer.id}"))
        await self._send_text(stream, scope, send, body, NOT_KEPT)

    async def _playlist(self, target: Target, scope: Mapping[str, Any], _receive: Receive, send: Send) -> None:
        directives = read_directives(scope["query_string"])
        if directives.is_wrong:
            raise Failed(HTTPStatus.BAD_REQUEST, "_HLS_msn or _HLS_part makes no sense.")
        stream = await self._followed(await self._checked(target, scope), directives.viewer, target, scope)
        await stream.ready()
        rendition = self._rendition(stream, target)
        self._follow(directives.viewer, target, scope, stream)
        keep = MOMENT
        if directives.msn is None:
            await stream.wait_for_segments(rendition, 1 if _is_by_script(scope) else PLAIN_SEGMENTS)
            if len(rendition.segments) < PLAIN_SEGMENTS:
                keep = NOT_KEPT
        else:
            if rendition.is_too_far(directives.msn, directives.part):
                raise Failed(HTTPStatus.BAD_REQUEST, "The playlist is not that far yet.", NOT_KEPT)
            if not scope.get(HAS_WAITED):
                await stream.wait_for(rendition, directives.msn, directives.part)
            if not rendition.has(directives.msn, directives.part):  # Section 6.2.5.2.
                raise Failed(HTTPStatus.SERVICE_UNAVAILABLE, LATE, NOT_KEPT, RETRY)
            keep = waited_for(rendition.targets.duration_s)
        await self._send_text(stream, scope, send, stream.playlist(rendition, skip=directives.skip), keep)

    async def _followed(self, found: Found, viewer_id: str, target: Target, scope: Mapping[str, Any]) -> PackagedStream:
        """Who was a viewer before it was packaged, such as by a packager that has ended, makes it be so again."""
        viewers = self._packager.viewers
        is_packaged = self._packager.packaged(found.path) is not None
        if found.state == "live" and not is_packaged and viewers.ids.is_given(viewer_id, found.path):
            await viewers.enter(self._asking(target, scope), viewer_id)
        return self._stream(found)

    def _follow(self, viewer_id: str, target: Target, scope: Mapping[str, Any], stream: PackagedStream) -> None:
        """Whose playlist it is: he is still there, or is so again."""
        if not viewer_id:
            stream.asked_at = stream.loop_time
            return
        viewer = self._packager.viewers.get(viewer_id)
        if viewer is None:
            self._packager.viewers.come_back(self._asking(target, scope), viewer_id)
            stream.asked_at = stream.loop_time
        elif viewer.path == stream.live.path:
            stream.touch(viewer, scope.get("connection"))

    async def _send_text(
        self, stream: PackagedStream, scope: Mapping[str, Any], send: Send, body: Body, keep: Header
    ) -> None:
        fields = dict(scope["headers"])
        is_zipped = b"gzip" in fields.get(b"accept-encoding", b"")
        content, tag = (body.zipped, body.zipped_tag) if is_zipped else (body.plain, body.tag)
        if tag in fields.get(b"if-none-match", b""):
            await _send(send, HTTPStatus.NOT_MODIFIED, (*CORS, keep, (b"etag", tag)))
            return
        self._count(stream, scope, len(content))
        await _send(send, HTTPStatus.OK, playlist_head(body, keep, is_zipped=is_zipped), content)

    # --- Media ---

    async def _media(self, target: Target, scope: Mapping[str, Any], _receive: Receive, send: Send) -> None:
        stream = self._stream(await self._checked(target, scope))
        rendition = self._rendition(stream, target)
        if target.kind == "part" and not scope.get(HAS_WAITED):
            await self._await_part(stream, rendition, target)
        content = stream.content(rendition, target)
        if content is not None:
            await self._send_media(stream, target, scope, send, content)
            return
        if target.kind == "segment":
            async with self._packager.from_disk(target) as content:
                if content is not None:
                    await self._send_media(stream, target, scope, send, content)
                    return
        raise Failed(HTTPStatus.NOT_FOUND, GONE, MOMENT)

    async def _send_media(
        self, stream: PackagedStream, target: Target, scope: Mapping[str, Any], send: Send, content: Content
    ) -> None:
        """Returns once the client has taken most of it."""
        stream.asked_at = stream.loop_time
        fields = dict(scope["headers"])
        tag, head = media_tag(target), media_head(target)
        if tag in fields.get(b"if-none-match", b""):
            await _send(send, HTTPStatus.NOT_MODIFIED, head)
            return
        status = HTTPStatus.OK
        wanted = fields.get(b"range")
        if wanted is not None and fields.get(b"if-range", tag) == tag:
            try:
                found = read_range(wanted.decode("latin-1"), len(content))
            except NoSuchRange as beyond:
                size = (b"content-range", b"bytes */%d" % beyond.size)
                raise Failed(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "", size) from None
            if found is not None:
                first, end = found
                head = (*head, (b"content-range", b"bytes %d-%d/%d" % (first, end - 1, len(content))))
                content, status = memoryview(content)[first:end], HTTPStatus.PARTIAL_CONTENT  # No copy for each.
        self._count(stream, scope, len(content))
        await _send(send, status, head, content, waits=True)

    async def _await_part(self, stream: PackagedStream, rendition: Rendition, target: Target) -> None:
        """One that a preload hint has named may be asked for before it is there."""
        if rendition.is_too_far(target.number, target.part):
            raise Failed(HTTPStatus.NOT_FOUND, GONE, MOMENT)
        await stream.wait_for_part(rendition, target.number, target.part)

    def _count(self, stream: PackagedStream, scope: Mapping[str, Any], size: int) -> None:
        connection = scope.get("connection")
        stream.count(self._packager.viewers.get(connection.viewer) if connection is not None else None, size)

    # --- The watch page ---

    async def _state(self, target: Target, scope: Mapping[str, Any], _receive: Receive, send: Send) -> None:
        found = await self._packager.look(target, self._address(scope))
        stream = self._packager.packaged(found.path)
        state, words = str(found.state), found.words or WORDS.get(found.state, "")
        if state == "waiting" and stream is not None and stream.has_ended:
            state, words = "ended", WORDS["ended"]
        if state == "live" and stream is not None and not stream.packaging.is_ready and stream.packaging.left_out:
            state, words = "closed", str(stream.packaging.left_out)
        content = json.dumps({"state": state, "words": words}).encode()
        await _send(send, HTTPStatus.OK, (JSON, *CORS, NOT_KEPT), content)

    async def _beacon(self, target: Target, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        said = await _read_body(receive, self._packager.viewers.beacon_bytes)
        viewer = self._packager.viewers.get(read_directives(scope["query_string"]).viewer)
        if viewer is not None and viewer.path == f"{target.app}/{target.name}":
            viewer.reported(said)
        await _send(send, HTTPStatus.NO_CONTENT, CORS)

    async def _fail(self, send: Send, failed: Failed) -> None:
        words = str(failed)
        content = json.dumps({"detail": words}).encode() if words else b""
        kind = (JSON,) if words else ()
        await _send(send, failed.status, (*kind, *CORS, *failed.headers), content)


def _is_by_script(scope: Mapping[str, Any]) -> bool:
    """Whether a page of another origin asks, such as the watch page: what plays there knows of parts."""
    return any(name == b"origin" for name, _ in scope["headers"])


async def _read_body(receive: Receive, most: int) -> Any:
    """What a page says, as JSON; None for what is none."""
    content = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        content += message.get("body", b"")
        more = message.get("more_body", False)
        if len(content) > most:
            raise Failed(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", (b"connection", b"close"))
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


async def _send(
    send: Send, status: HTTPStatus, headers: Sequence[Header], content: Content = b"", *, waits: bool = False
) -> None:
    """`waits`: until most of it is sent."""
    has_body = status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
    length = ((b"content-length", b"%d" % len(content)),) if has_body else ()
    await send({"type": "http.response.start", "status": int(status), "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": content, "more_body": waits})
    if waits:
        await send({"type": "http.response.body"})


ANSWERS: Final[Mapping[str, Callable[..., Awaitable[None]]]] = {
    "index": HlsApplication._index,
    "state": HlsApplication._state,
    "beacon": HlsApplication._beacon,
    "playlist": HlsApplication._playlist,
    "segment": HlsApplication._media,
    "part": HlsApplication._media,
    "init": HlsApplication._media,
}
