"""Where streams may be pushed to: not to private networks unless that is allowed, nor to this server; and TLS."""

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.dial_rules import DialRules
from ingest.server.dialling import destination_of
from tests.certificates import Pair, make_pair
from tests.server.app import ScriptedApp
from tests.server.clients import playing, publishing
from tests.server.conftest import Serve
from tests.server.media import AVC_HEADER, inter_frame, key_frame
from tests.server.push.conftest import KEY, QUICK, becomes_state, order, push, url_of
from tests.server.push.plain_server import PlainServer
from tests.server.push.test_failures import redirect_to, tcp_server
from tests.server.test_rtmps import tls


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.1.2.3", "169.254.169.254", "0.0.0.0"])
async def test_private_networks_are_not_dialled(app: ScriptedApp, server: RtmpServer, host: str) -> None:
    """Until the order allows it, or is another one."""
    async with PlainServer() as plain, publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(url_of(plain.port, host=host), private_allowed=False))
        stopped = await becomes_state(app, "stopped")
        assert stopped["failure"] == "address"
        (figures,) = (await app.next_tick())["pushes"]
        assert (figures["state"], figures["retry_at"]) == ("stopped", None)
        assert not plain.writers
        await push(app, order(plain.port))
        await becomes_state(app, "live")


@pytest.mark.parametrize("host", ["2130706433", "127.1"])
async def test_push_to_a_name_of_a_private_address_is_not_dialled_but_retried(
    app: ScriptedApp, server: RtmpServer, host: str
) -> None:
    """What is no plain address may lead elsewhere in a while; until then it is not dialled."""
    async with PlainServer() as plain, publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(url_of(plain.port, host=host), private_allowed=False))
        retried = await becomes_state(app, "retrying")
        assert retried["failure"] == "address"
        assert not plain.writers


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_push_to_this_server_itself_is_refused(app: ScriptedApp, server: RtmpServer, host: str) -> None:
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(url_of(server, host=host)))
        stopped = await becomes_state(app, "stopped")
        assert stopped["failure"] == "address"
        assert stopped["description"].startswith("It leads to this server itself")
    assert len(app.connections) == 1


def test_dial_rules_recognize_the_addresses_of_this_server() -> None:
    """A listener's address, or any of this machine where it listens on all of them."""
    every = DialRules(lambda: [("0.0.0.0", 1935)])
    one = DialRules(lambda: [("127.0.0.1", 1935), ("::1", 1936)])

    def is_own(rules: DialRules, address: str, port: int) -> bool:
        return rules.forbids(address, port, private_allowed=True) != ""

    assert is_own(every, "127.0.0.1", 1935)
    assert is_own(every, "127.9.9.9", 1935)
    assert is_own(every, "::ffff:127.0.0.1", 1935)
    assert is_own(every, "0.0.0.0", 1935)
    assert not is_own(every, "127.0.0.1", 1936)
    assert not is_own(every, "93.184.216.34", 1935)
    assert is_own(one, "127.0.0.1", 1935)
    assert is_own(one, "0.0.0.0", 1935)
    assert is_own(one, "::1", 1936)
    assert not is_own(one, "127.0.0.2", 1935)


@pytest.mark.parametrize(
    ("url", "host", "port", "app", "tc_url"),
    [
        ("rtmp://a.b/live", "a.b", 1935, "live", "rtmp://a.b/live"),
        ("rtmp://a.b:1935/app/one?x=1&y", "a.b", 1935, "app/one?x=1&y", "rtmp://a.b:1935/app/one?x=1&y"),
        ("rtmps://A.b:443/rtmp/", "a.b", 443, "rtmp", "rtmps://A.b:443/rtmp"),
        ("rtmps://user:pass@[2001:db8::1]/app", "2001:db8::1", 443, "app", "rtmps://[2001:db8::1]/app"),
    ],
)
def test_destination_url_is_split_into_host_port_app_and_tc_url(
    url: str, host: str, port: int, app: str, tc_url: str
) -> None:
    to = destination_of(url)
    assert (to.host, to.port, to.app, to.tc_url) == (host, port, app, tc_url)


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/live", "rtmp://", "rtmp://[::1/live", "rtmp://host:99999/live", "x"),
        *("unix:/run/other.sock", "unix://other.sock/live", "UNIX://other.sock/live"),
    ],
)
async def test_push_to_an_invalid_rtmp_url_is_stopped(app: ScriptedApp, server: RtmpServer, url: str) -> None:
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(url))
        stopped = await becomes_state(app, "stopped")
        assert (stopped["failure"], stopped["description"]) == ("address", "It is no URL of an RTMP server.")


async def test_push_to_an_unknown_host_name_is_retried(app: ScriptedApp, server: RtmpServer) -> None:
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order("rtmp://no-such-host.invalid/live"))
        failed = await becomes_state(app, "retrying")
        assert failed["failure"] == "address"
        assert failed["description"].startswith("The name no-such-host.invalid can't be looked up")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_push_by_rtmps_delivers_all_frames(
    app: ScriptedApp, serve: Serve, serve_target: Serve, pair: Pair, host: str, quiet: None
) -> None:
    """The name is looked up before, and is the certificate's all the same."""
    server = await serve(config={"push": replace(QUICK, ca=pair.chain)})
    target = await serve_target(config=tls(pair))
    async with playing(target, name=KEY) as there, publishing(server, AVC_HEADER, key_frame(0)) as (client, stream_id):
        await push(app, order(url_of(target, scheme="rtmps", host=host)))
        await becomes_state(app, "live")
        frames = [key_frame(number, 200_000) for number in range(1, 20)]
        for number, frame in enumerate(frames, 1):
            await client.send_video(stream_id, 40 * number, frame)
        await there.wait_count(events.VideoReceived, 2 + len(frames))
        assert [event.payload for event in there.of(events.VideoReceived)][2:] == frames


async def test_push_to_a_certificate_with_another_name_fails_as_tls(
    app: ScriptedApp, serve: Serve, serve_target: Serve, pair: Pair
) -> None:
    """The address leads there, and the name is not in it."""
    server = await serve(config={"push": replace(QUICK, ca=pair.chain)})
    target = await serve_target(config=tls(pair) | {"rtmps": ("127.0.0.2", 0)})
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(url_of(target, scheme="rtmps", host="127.0.0.2")))
        failed = await becomes_state(app, "retrying")
        assert failed["failure"] == "tls"
        assert failed["description"].startswith("The certificate is not valid: IP address mismatch")


async def test_push_to_an_untrusted_self_signed_certificate_fails_as_tls(
    app: ScriptedApp, server: RtmpServer, serve_target: Serve, pair: Pair
) -> None:
    target = await serve_target(config=tls(pair))
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(url_of(target, scheme="rtmps", host="localhost")))
        failed = await becomes_state(app, "retrying")
        assert failed["failure"] == "tls"
        assert failed["description"].startswith("The certificate is not valid: self-signed certificate")


async def test_rtmps_push_to_a_server_without_tls_fails_as_tls(
    app: ScriptedApp, server: RtmpServer, target: RtmpServer
) -> None:
    async with publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(url_of(target.addresses[0][1], scheme="rtmps")))
        failed = await becomes_state(app, "retrying")
        assert failed["failure"] == "tls"


async def test_rtmps_push_without_a_tls_handshake_in_time_fails_as_tls(app: ScriptedApp, serve: Serve) -> None:
    server = await serve(config={"push": replace(QUICK, begin_s=0.3)})

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read(-1)
        writer.close()

    async with tcp_server(hold) as port, publishing(server, AVC_HEADER, key_frame(0)):
        await push(app, order(url_of(port, scheme="rtmps")))
        failed = await becomes_state(app, "retrying")
        assert (failed["failure"], failed["description"]) == ("tls", "TLS was not agreed on within 0.3 s.")


async def test_a_redirect_from_tls_to_none_is_not_followed(app: ScriptedApp, serve: Serve, pair: Pair) -> None:
    server = await serve(config={"push": replace(QUICK, ca=pair.chain)})
    async with (
        PlainServer(tls=pair.server()) as first,
        PlainServer() as second,
        publishing(server, AVC_HEADER, key_frame(0)) as (publisher, stream_id),
    ):
        first.connect_error = redirect_to(f"rtmp://127.0.0.1:{second.port}/live")
        await push(app, order(url_of(first.port, scheme="rtmps")))
        failed = await becomes_state(app, "retrying")
        assert failed["failure"] == "tls"
        await publisher.send_video(stream_id, 40, inter_frame(1))
        assert not second.writers
