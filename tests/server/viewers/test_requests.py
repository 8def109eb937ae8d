"""What a request gets that gets no stream: who may not, what is not there, what can't be read; limits and proxies."""

import asyncio
import random
from contextlib import AsyncExitStack
from ipaddress import ip_network
from typing import Any

import pytest
from wsproto.events import CloseConnection, Ping

from ingest.live.player_queue import QueueLimits
from ingest.server import RtmpServer
from ingest.server.media.live_viewer import LiveViewer
from tests.rtmp_client import RtmpClient
from tests.server.app import ScriptedApp
from tests.server.clients import publishing
from tests.server.conftest import Serve
from tests.server.media import key_frame
from tests.server.viewers.browser import SocketViewer, Viewer, ask
from tests.server.viewers.conftest import PAGE
from tests.server.waiting import becomes, set_deadlines

CAM = "/live/live/cam1.flv"
MEDIA: dict[str, Any] = {"media": ("127.0.0.1", 0)}
UPGRADE = (
    "HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


async def exchange(port: int, sent: bytes) -> bytes:
    """Return the server's answer, up to its close."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        async with asyncio.timeout(5):
            return await reader.read(-1)
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        ("", "NetConnection.Connect.InvalidApp", 404),
        ("", "NetConnection.Connect.Rejected", 403),
        ("", "NetConnection.Connect.Failed", 503),
        ("play", "NetStream.Play.StreamNotFound", 404),
        ("play", "NetStream.Play.Failed", 403),
        ("play", "NetStream.Failed", 503),
    ],
)
async def test_a_refusal_is_a_status_with_the_reason(
    media_port: int, app: ScriptedApp, kind: str, code: str, status: int
) -> None:
    app.refuse(kind, code, "Not for you.")
    answer = await ask(media_port, CAM)
    assert (answer.status, answer.detail, answer.over) == (status, "Not for you.", True)
    assert ("retry-after" in answer.headers) == (status == 503)
    async with SocketViewer(media_port, CAM) as viewer:
        await viewer.wait_until(lambda: viewer.closed)
        assert viewer.status == status
        assert b"Not for you." in viewer.refusal
    ended = await app.event("rtmp.disconnect")
    assert (ended["reason"], ended["description"]) == ("rejected", f"{code}: Not for you.")


async def test_temporary_refusal_is_503_with_retry_after(media_port: int, app: ScriptedApp) -> None:
    app.refuse("play", "NetStream.Play.Failed", "The database is away.", passes=True)
    answer = await ask(media_port, CAM)
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")


async def test_no_decision_is_503_and_a_late_one_is_undone(serve: Serve, app: ScriptedApp) -> None:
    decided = app.hold("rtmp.play")
    server = await serve(config=MEDIA, decision_s=0.1)
    async with Viewer(server, CAM) as viewer:
        await viewer.wait_until(lambda: viewer.status == 503)
        decided.set()
        assert (await app.event("rtmp.stop"))["totals"]["bytes_out"] == 0
        assert not server.sessions


async def test_a_viewer_that_leaves_before_the_decision_has_no_session(
    media_port: int, server: RtmpServer, app: ScriptedApp
) -> None:
    decided = app.hold("rtmp.play")
    async with Viewer(media_port, CAM):
        await app.event("rtmp.play")
    decided.set()
    assert (await app.event("rtmp.stop"))["reason"] == "tcp_reset"
    assert not server.sessions


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/live/live/cam1", 404),
        ("GET", "/live/live/.flv", 404),
        ("GET", "/live/live/a/.flv", 404),
        ("GET", "/live/live//b.flv", 404),
        ("GET", "/live/live/a/b/c.flv", 404),
        ("GET", "/live/live/room/more/cam1.flv", 404),
        ("GET", "/live/live/a%3Ftoken=x.flv", 404),
        ("GET", "/hls/live/cam1.flv", 404),
        ("GET", "//live/live/cam1.flv", 404),
        ("GET", "/live/live/%ff.flv", 400),
        ("POST", CAM, 405),
        ("DELETE", CAM, 405),
        ("GE", CAM, 405),
        ("OPTIONS", CAM, 204),
        ("OPTIONS", "/", 404),
    ],
)
async def test_invalid_paths_and_methods_are_answered_without_the_application(
    media_port: int, app: ScriptedApp, method: str, target: str, status: int
) -> None:
    answer = await ask(media_port, target, method=method)
    assert (answer.status, answer.over) == (status, True)
    assert not [told for told in app.connections if told.of("rtmp.connect")]


# --- Pages ---


async def test_allowed_origin_may_play_and_gets_cors_headers(media_port: int, shown: RtmpClient) -> None:
    async with Viewer(media_port, CAM, headers={"Origin": PAGE}) as viewer:
        await viewer.wait_tags(3)
        assert viewer.headers["access-control-allow-origin"] == PAGE
        assert viewer.headers["vary"] == "Origin"
    async with SocketViewer(media_port, CAM, origin=PAGE) as socket:
        await socket.wait_tags(3)
    missing = await ask(media_port, "/", headers={"Origin": PAGE})
    assert (missing.status, missing.headers["access-control-allow-origin"]) == (404, PAGE)


async def test_origin_that_is_not_allowed_gets_403(media_port: int, app: ScriptedApp) -> None:
    for origin in ("https://other.example", "null", f"{PAGE}.evil.example"):
        answer = await ask(media_port, CAM, headers={"Origin": origin})
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers
        async with SocketViewer(media_port, CAM, origin=origin) as viewer:
            await viewer.wait_until(lambda viewer=viewer: viewer.status == 403)  # type: ignore[misc]
    assert "RTMPWEB_MEDIA_ORIGINS" in (await app.event("rtmp.disconnect"))["description"]
    assert {told.kinds[0] for told in app.connections} == {"rtmp.disconnect"}


async def test_cors_preflight_of_an_allowed_origin_is_answered(media_port: int) -> None:
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "range"}
    answer = await ask(media_port, CAM, method="OPTIONS", headers=asked)
    assert (answer.status, bytes(answer.body)) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "GET" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "Range"


async def test_wildcard_media_origin_allows_every_page(serve: Serve) -> None:
    server = await serve(config=MEDIA | {"media_origins": frozenset({"*"})})
    answer = await ask(server, CAM, method="HEAD", headers={"Origin": "null"})
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")


# --- What is no request ---


@pytest.mark.parametrize(
    "sent",
    [
        b"\x03" + bytes(1536),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET\r\n\r\n",
        b"GET /live/live/cam1.flv?token=secret HTTP/1.1\r\n\r\n",
        b"GET /live/live/cam1.flv?token=secret HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 20_000,
        b"GET /live/live/cam1.flv HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"GET /live/live/cam1.flv HTTP/1.1\r\nHost: xn--\xff\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n\r\n",
        b"GET /live/live/cam1.flv HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    ],
)
async def test_unreadable_request_gets_400_or_431_and_is_reported_without_secrets(
    media_port: int, app: ScriptedApp, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await exchange(media_port, sent)
    assert answer.split(b"\r\n")[0].split()[1] in (b"400", b"431")
    assert b"secret" not in answer
    ended = await app.event("rtmp.disconnect")
    assert ended["reason"] == "protocol_error"
    assert "secret" not in repr(app.connections[-1].events) + caplog.text
    assert not [record for record in caplog.records if record.exc_info]


async def test_damaged_requests_and_frames_leave_no_session_and_no_traceback(
    media_port: int, server: RtmpServer, app: ScriptedApp, caplog: pytest.LogCaptureFixture
) -> None:
    """Damaged requests, then damaged frames to a WebSocket: all end, and nothing is left."""
    pick = random.Random(7)
    whole = f"GET {CAM}?token=x {UPGRADE}".encode() + bytes.fromhex("8185000000004142434445") * 4

    async def send(number: int) -> None:
        damaged = bytearray(whole)
        for _ in range(pick.randrange(1, 6)):
            at = pick.randrange(len(damaged))
            damaged[at : at + pick.randrange(3)] = pick.randbytes(pick.randrange(4))
        reader, writer = await asyncio.open_connection("127.0.0.1", media_port)
        cut = pick.randrange(len(damaged))
        writer.write(damaged[:cut])
        await writer.drain()
        writer.write(damaged[cut:])
        writer.write_eof()
        await reader.read(-1)
        writer.close()

    async with asyncio.timeout(20):
        for round_ in range(10):
            await asyncio.gather(*(send(round_) for _ in range(20)), return_exceptions=True)
        await app.wait_until(lambda: all(told.of("rtmp.disconnect") for told in app.connections))
    assert not server.sessions
    assert not [record for record in caplog.records if record.exc_info]


# --- Limits ---


async def test_request_head_that_comes_too_slowly_gets_408(serve: Serve, app: ScriptedApp) -> None:
    server = await serve(config=MEDIA, handshake_s=60)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.bound["http"][0][1])

    async def drip() -> None:
        for byte in f"GET {CAM} HTTP/1.1\r\nHost: a\r\nX: ".encode() + bytes(b"y" * 1000):
            writer.write(bytes([byte]))
            await asyncio.sleep(0.01)

    dripping = asyncio.create_task(drip())
    await becomes(lambda: bool(server.connections))
    set_deadlines(server, handshake_s=0.3)
    answer = await asyncio.wait_for(reader.read(-1), 5)
    assert answer.split()[1] == b"408"
    dripping.cancel()
    writer.close()
    assert (await app.event("rtmp.disconnect"))["reason"] == "idle_timeout"


async def test_connection_without_a_request_is_closed_and_not_reported(serve: Serve, app: ScriptedApp) -> None:
    """Browsers open connections that they may need."""
    server = await serve(config=MEDIA, handshake_s=0.1)
    assert await exchange(server.bound["http"][0][1], b"") == b""
    set_deadlines(server, handshake_s=60)
    await ask(server, CAM, method="HEAD")
    assert len(app.connections) == 1


async def one_more(port: int) -> bytes:
    try:
        return await exchange(port, f"GET {CAM} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    except ConnectionResetError:
        return b""


async def test_viewers_count_against_the_connection_limit_per_address(serve: Serve, app: ScriptedApp) -> None:
    server = await serve(config=MEDIA | {"max_connections_per_address": 1})
    media_port = server.bound["http"][0][1]
    async with Viewer(media_port, CAM) as viewer:
        await viewer.wait_accepted()
        assert await one_more(media_port) == b""
    await app.event("rtmp.disconnect")
    assert (await ask(media_port, CAM, method="HEAD")).status == 200


@pytest.mark.parametrize("kind", [Viewer, SocketViewer])
async def test_a_viewer_that_never_reads_holds_little_and_is_ended(
    serve: Serve, app: ScriptedApp, kind: type[Viewer | SocketViewer]
) -> None:
    server = await serve(config=MEDIA | {"queue": QueueLimits(size_bytes=1 << 20)}, write_s=1.0)
    rtmp, media = server.addresses[0][1], server.bound["http"][0][1]
    async with publishing(rtmp) as (publisher, _), kind(media, CAM) as viewer:
        await check_it_is_ended(server, app, publisher, viewer)


async def arrives(session: LiveViewer, timestamp: int) -> None:
    await becomes(lambda: session.live.time.latest == timestamp)


async def check_it_is_ended(
    server: RtmpServer, app: ScriptedApp, publisher: RtmpClient, viewer: Viewer | SocketViewer
) -> None:
    await viewer.wait_accepted()
    viewer.pause_reading()
    (session,) = (found for found in server.sessions.values() if isinstance(found, LiveViewer))
    connection = next(found for found in server.connections if found.sessions.get(1) is session)
    most = 0
    for number in range(2000):
        await publisher.send_video(1, 40 * number, key_frame(number, 100_000))
        await arrives(session, 40 * number)  # So that no turn of the loop brings many at once.
        waiting = session.subscriber.pending_bytes + connection.transport.get_write_buffer_size()
        most = max(most, waiting)
        if app.connections[-1].of("rtmp.stop"):
            break
    stopped = await app.event("rtmp.stop")
    assert stopped["reason"] == "too_slow"
    assert stopped["totals"]["dropped_frames"] > 0
    limits = server.config
    assert most <= limits.queue.size_bytes + 2 * limits.write_high_bytes + 200_000


async def test_a_viewer_that_talks_too_much_is_ended(media_port: int, app: ScriptedApp) -> None:
    for kind in (Viewer, SocketViewer):
        async with kind(media_port, CAM) as viewer:
            await viewer.wait_accepted()
            viewer.writer.write(bytes.fromhex("81fe0400") + bytes(1028) + bytes.fromhex("818000000000") * 5000)
            assert (await app.event("rtmp.stop"))["reason"] == "protocol_error"


async def test_a_silent_websocket_is_pinged_and_one_that_does_not_answer_ended(serve: Serve, app: ScriptedApp) -> None:
    server = await serve(config=MEDIA, ping_after_s=0.1, ping_answer_s=0.3)
    media_port = server.bound["http"][0][1]
    reader, writer = await asyncio.open_connection("127.0.0.1", media_port)
    writer.write(f"GET {CAM} {UPGRADE}".encode())
    await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    for _ in range(5):
        assert await asyncio.wait_for(reader.readexactly(2), 5) == b"\x89\x00"
        writer.write(bytes.fromhex("8a8000000000"))
    assert not app.connections[-1].of("rtmp.stop")
    assert await asyncio.wait_for(reader.readexactly(2), 5) == b"\x89\x00"
    assert (await app.event("rtmp.stop"))["reason"] == "idle_timeout"
    writer.close()


async def test_a_websocket_is_closed_by_its_viewer(media_port: int, app: ScriptedApp) -> None:
    async with SocketViewer(media_port, CAM) as viewer:
        await viewer.wait_accepted()
        viewer.writer.write(viewer.ws.send(Ping(b"there?")) + viewer.ws.send(CloseConnection(1000)))
        await viewer.wait_until(lambda: viewer.close_code == 1000)
    assert (await app.event("rtmp.stop"))["reason"] == "client_unpublish"


PROXIED = MEDIA | {"trusted_proxies": (ip_network("127.0.0.0/8"),)}


def by(*addresses: str) -> dict[str, str]:
    return {"X-Forwarded-For": ", ".join(addresses)}


@pytest.mark.parametrize(
    ("config", "addresses", "client"),
    [
        (PROXIED, ["198.51.100.9", "192.0.2.7", "127.0.0.2"], "192.0.2.7"),
        (PROXIED, ["192.0.2.7", "unknown"], "127.0.0.1"),
        (MEDIA, ["192.0.2.7"], "127.0.0.1"),
    ],
    ids=["who asks", "a proxy whose word makes no sense", "no proxy"],
)
async def test_client_address_is_taken_from_trusted_proxies_only(
    serve: Serve, app: ScriptedApp, config: dict[str, Any], addresses: list[str], client: str
) -> None:
    server = await serve(config=config)
    async with Viewer(server, CAM, headers=by(*addresses)) as viewer:
        await viewer.wait_accepted()
    assert app.connections[-1].scope["client"][0] == client
    await becomes(lambda: not server.connections)


async def test_each_client_behind_a_proxy_has_its_own_connection_limit(serve: Serve) -> None:
    server = await serve(config={**PROXIED, "max_connections_per_address": 2})
    async with AsyncExitStack() as stack:
        for address in ("192.0.2.7", "192.0.2.7", "192.0.2.8", "192.0.2.8"):
            viewer = await stack.enter_async_context(Viewer(server, CAM, headers=by(address)))
            await viewer.wait_accepted()
        more = await ask(server, CAM, headers=by("192.0.2.7"))
        assert (more.status, more.headers["retry-after"]) == (503, "5")
        assert "this address" in more.detail
        assert server.connection_limits.take_refused() == [{"address": "192.0.2.7", "count": 1}]
    await becomes(lambda: not server.connections)
    async with Viewer(server, CAM, headers=by("192.0.2.7")) as viewer:
        await viewer.wait_accepted()
