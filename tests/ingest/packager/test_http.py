"""Answers of the packager: their headers, what caches may keep, and bounds for who asks too much."""

import asyncio
import socket
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest

from ingest.services.keys import NewKey
from tests.hls.playlist import Playlist, Segment, read
from tests.ingest.packager.running import SHORT, ClipPublisher, Running, running
from tests.ingest.packager.test_viewers import watched
from tests.ingest.ticks import until

pytestmark = pytest.mark.usefixtures("process")


async def playlist_of(hls: Running, name: str) -> Playlist:
    found = read((await hls.get(name)).text)
    assert not found.is_multivariant
    return found


async def test_headers_for_browsers_and_caches(key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip):
        name = await watched(hls)
        index = await hls.get()
        assert index.headers["cache-control"] == "no-store", "it is one viewer's"
        assert index.headers["content-type"] == "application/vnd.apple.mpegurl"
        playlist = await hls.get(name)
        assert playlist.headers["content-type"] == "application/vnd.apple.mpegurl"
        assert playlist.headers["vary"] == "accept-encoding"
        assert playlist.headers["content-encoding"] == "gzip"
        found = read(playlist.text)
        assert not found.is_multivariant
        part = found.all_segments[-1].parts[0]
        for file, kind in ((part.uri, "video/mp4"), (found.all_segments[-1].map_uri, "video/mp4")):
            answer = await hls.get(file, headers={"Origin": "https://church.example"})
            assert answer.headers["cache-control"] == "public, max-age=86400, immutable"
            assert answer.headers["content-type"] == kind
            assert answer.headers["access-control-allow-origin"] == "*"
            again = await hls.get(file, headers={"If-None-Match": answer.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            some = await hls.get(file, headers={"Range": "bytes=4-7"})
            assert (some.status_code, some.content) == (206, answer.content[4:8])
            assert some.headers["content-range"] == f"bytes 4-7/{len(answer.content)}"
            beyond = await hls.get(file, headers={"Range": f"bytes={len(answer.content)}-"})
            assert beyond.status_code == 416
            head = await hls.http.head(hls.url(file))
            assert (head.status_code, head.headers["content-length"]) == (200, str(len(answer.content)))
        preflight = await hls.http.options(hls.url())
        assert preflight.status_code == 204
        assert "Range" in preflight.headers["access-control-allow-headers"]
        assert (await hls.http.put(hls.url())).status_code == 405
        assert (await hls.http.get(f"{hls.base}/")).status_code == 404
        assert (await hls.http.get(hls.url("beacon"))).status_code == 405


async def test_a_playlist_is_the_same_zipped_and_plain(key: NewKey, clip: Path) -> None:
    async with running() as hls:
        async with ClipPublisher(hls, key.secret, clip):
            name = await watched(hls)
        await until(lambda: (found := hls.packager.packaged("live/cam1")) is not None and found._publication is None)
        plain = await hls.get(name, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.text == (await hls.get(name)).text
        assert plain.headers["etag"] != (await hls.get(name)).headers["etag"], "they are other bytes"


async def test_playlist_request_for_a_future_part_waits_for_it(key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip):
        name = await watched(hls)
        found = await playlist_of(hls, name)
        msn, part = found.next_msn, len(found.open.parts) if found.open else 0
        answer = await hls.get(f"{name}&_HLS_msn={msn}&_HLS_part={part}")
        assert read(answer.text).last >= (msn, part)
        assert answer.headers["cache-control"] == "public, max-age=12", "six target durations"
        for wrong in ("_HLS_part=1", f"_HLS_msn={msn + 100}", f"_HLS_msn={msn}&_HLS_part=5000", "_HLS_msn=-1"):
            assert (await hls.get(f"{name}&{wrong}")).status_code == 400


async def test_a_first_playlist_has_whole_segments(key: NewKey, clip: Path) -> None:
    """Players fail with parts alone; those that are no page's need two. No cache keeps one that has fewer."""
    async with running() as hls:
        async with ClipPublisher(hls, key.secret, clip, pace=2.0):
            name = await watched(hls)
            early = await hls.get(name)
            assert len(segments_of(early)) == 1
            assert early.headers["cache-control"] == "no-store"
            async with httpx.AsyncClient(timeout=20) as plain:
                for _ in range(2):
                    answer = await plain.get(hls.url(name))
                    assert len(segments_of(answer)) >= 2
                    assert answer.headers["cache-control"] == "public, max-age=1"
        async with ClipPublisher(hls, key.secret, clip), httpx.AsyncClient(timeout=20) as plain:
            assert len(segments_of(await plain.get(hls.url(name)))) >= 2, "which were there already"


def segments_of(answer: httpx.Response) -> list[Segment]:
    """That are whole."""
    found = read(answer.text)
    assert not found.is_multivariant
    return [segment for segment in found.all_segments if not segment.is_open]


async def test_a_part_that_is_hinted_at_is_waited_for(key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip):
        hint = (await playlist_of(hls, await watched(hls))).hint
        assert hint
        answer = await hls.get(hint)
        assert answer.status_code in (200, 404), "it may turn out to be the next segment's first"
        assert answer.status_code == 404 or answer.content[4:8] == b"moof"


async def test_blocking_playlist_request_times_out_once_the_publisher_has_left(key: NewKey, clip: Path) -> None:
    async with running(blocked_s=0.5) as hls:
        async with ClipPublisher(hls, key.secret, clip):
            name = await watched(hls)
        msn, _ = (await playlist_of(hls, name)).last
        answer = await hls.get(f"{name}&_HLS_msn={msn + 1}")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")


async def test_unknown_files_are_answered_with_404(key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip):
        await watched(hls)
        stream = hls.packager.packaged("live/cam1")
        assert stream is not None
        for file in (
            "00000000/v0-1.m4s",
            f"{stream.epoch}/v0-1.m4s",
            f"{stream.epoch}/v7-1.m4s",
            f"{stream.epoch}/v0-init-99.mp4",
            "a9.m3u8",
        ):
            assert (await hls.get(file)).status_code == 404


# --- Hostile clients, byte by byte ---


async def raw(hls: Running, data: bytes, *, wait_s: float = 10.0) -> bytes:
    """All that is answered until the packager closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", hls.port)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), wait_s)
    finally:
        writer.close()


async def test_missing_endless_or_malformed_request_head_is_refused(key: NewKey) -> None:
    async with running(head_s=0.2, head_bytes=2000) as hls:
        assert await raw(hls, b"") == b""
        assert (await raw(hls, b"GET / HTTP/1.1\r\n")).startswith(b"HTTP/1.1 408 ")
        assert (await raw(hls, b"GET / HTTP/1.1\r\nX: " + b"x" * 4000)).startswith(b"HTTP/1.1 431 ")
        assert (await raw(hls, b"\x16\x03\x01\x02\x00")).startswith(b"HTTP/1.1 400 ")


async def test_connections_per_address_are_limited(key: NewKey) -> None:
    async with running(connections_per_address=3) as hls:
        held = [await asyncio.open_connection("127.0.0.1", hls.port) for _ in range(3)]
        reader, writer = await asyncio.open_connection("127.0.0.1", hls.port)
        assert await reader.read() == b""
        writer.close()
        for _, one in held:
            one.close()
        async with asyncio.timeout(5):
            while not await is_answered(hls):  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def is_answered(hls: Running) -> bool:
    try:
        return (await hls.http.get(f"{hls.base}/")).status_code == 404
    except httpx.TransportError:
        return False


async def test_client_over_the_request_rate_is_delayed(key: NewKey) -> None:
    async with running(requests=5, requests_per_s=10.0) as hls:
        loop = asyncio.get_running_loop()
        began = loop.time()
        request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", hls.port)
        for _ in range(15):
            writer.write(request)
            await reader.readuntil(b"}")
        writer.close()
        assert loop.time() - began >= 0.8


async def test_trusted_proxy_has_no_request_rate_limit(key: NewKey) -> None:
    """By the connections that it keeps: those have no rate of one viewer."""
    async with running(requests=5, requests_per_s=1.0, proxies=(ip_network("127.0.0.1/32"),)) as hls:
        reader, writer = await asyncio.open_connection("127.0.0.1", hls.port)
        async with asyncio.timeout(5):
            for _ in range(30):
                writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                await reader.readuntil(b"}")
        writer.close()


async def test_client_that_does_not_read_is_disconnected(key: NewKey, clip: Path) -> None:
    async with running(answer_s=0.3, requests=100_000) as hls, ClipPublisher(hls, key.secret, clip):
        name = await watched(hls)
        uri = (await playlist_of(hls, name)).all_segments[-1].parts[0].uri
        connected = socket.socket()
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connected.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connected, ("127.0.0.1", hls.port))
        request = f"GET /hls/live/cam1/{uri} HTTP/1.1\r\nHost: a\r\n\r\n".encode()

        async def ask_without_end() -> None:
            while True:
                await loop.sock_sendall(connected, request)
                await asyncio.sleep(0.001)

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(ask_without_end(), 20)
        connected.close()


async def test_pipelined_requests_over_the_rate_are_delayed(key: NewKey) -> None:
    """The answers to those that wait let no more in than the rate does."""
    async with running(requests=5, requests_per_s=10.0) as hls:
        loop = asyncio.get_running_loop()
        began = loop.time()
        reader, writer = await asyncio.open_connection("127.0.0.1", hls.port)
        for _ in range(5):
            writer.write(b"GET /hls/live/cam1/state.json HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
            for _ in range(3):
                await reader.readuntil(b"}")
        writer.close()
        assert loop.time() - began >= 0.6


async def next_segment(hls: Running, key: NewKey, clip: Path) -> str:
    """A playlist's name, with the directive to wait for a segment that will not come."""
    async with ClipPublisher(hls, key.secret, clip):
        name = await watched(hls)
    msn, _ = (await playlist_of(hls, name)).last
    return f"{name}&_HLS_msn={msn + 1}"


def head(name: str) -> bytes:
    return f"GET /hls/live/cam1/{name} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


async def test_few_requests_wait_behind_one_that_is_answered(key: NewKey, clip: Path) -> None:
    async with running(pipelined=4) as hls:
        request = head(await next_segment(hls, key, clip))
        reader, writer = await asyncio.open_connection("127.0.0.1", hls.port)
        writer.write(request + b"GET / HTTP/1.1\r\n\r\n" * 50)
        assert (await asyncio.wait_for(reader.read(), 5)).startswith(b"HTTP/1.1 400 ")
        writer.close()


async def test_nothing_waits_for_a_client_that_is_gone(
    key: NewKey, clip: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(hls=SHORT) as hls:
        request = head(await next_segment(hls, key, clip))
        stream = hls.packager.packaged("live/cam1")
        assert stream is not None
        writers = []
        for count in range(60):
            _, writer = await asyncio.open_connection("127.0.0.1", hls.port)
            writer.write(request * (1 + count % 3))
            writers.append(writer)
        await until(lambda: len(stream._waiting.get("v0", ())) == 60)
        for writer in writers:
            writer.close()
        await until(lambda: not stream._waiting["v0"])
    assert not [record for record in caplog.records if record.name == "uvicorn.error"]


async def test_blocking_requests_that_timed_out_leave_no_waiters(key: NewKey, clip: Path) -> None:
    """However many ask, while nothing comes that would release them."""
    async with running(blocked_s=0.1) as hls:
        name = await next_segment(hls, key, clip)
        for _ in range(3):
            assert (await hls.get(name)).status_code == 503
        stream = hls.packager.packaged("live/cam1")
        assert stream is not None
        assert not any(stream._waiting.values())


async def test_segment_and_its_parts_share_a_single_copy(key: NewKey, clip: Path) -> None:
    async with running() as hls, ClipPublisher(hls, key.secret, clip):
        await watched(hls)
        stream = hls.packager.packaged("live/cam1")
        assert stream is not None
        rendition = stream.packaging.renditions["v0"]
        await until(lambda: rendition.segments)
        msn = rendition.segments[0].msn
        parts = [rendition.part(msn, number) for number in range(len(rendition.segments[0].parts))]
        whole = rendition.segment(msn)
        assert whole is rendition.segment(msn)
        assert whole == b"".join(part or b"" for part in parts)
        pieces = [rendition.part(msn, number) for number in range(len(parts))]
        assert pieces == parts
        assert {piece.obj for piece in pieces if isinstance(piece, memoryview)} == {whole}
