"""Who may connect: sockets, places, open files, and a drain, after which nobody new comes."""

import asyncio
import logging
import socket
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer, ServerConfig, listener
from ingest.server.connection_limits import ADDRESSES, ConnectionLimits
from ingest.server.sockets import Address, Listening
from tests.certificates import make_pair
from tests.pure.live.payloads import session
from tests.rtmp_client import RtmpClient
from tests.rtmpweb import processes
from tests.server.app import Instance, Message, ScriptedApp
from tests.server.clients import connected, publishing
from tests.server.conftest import Serve
from tests.server.media import AVC_HEADER, key_frame
from tests.server.waiting import becomes, within


async def test_a_tls_connection_that_can_not_be_begun_is_the_only_one_lost(caplog: pytest.LogCaptureFixture) -> None:
    begun: asyncio.Queue[socket.socket] = asyncio.Queue()
    faults = [RuntimeError("broken on purpose")]

    def secure(connected: socket.socket, _peer: Address) -> None:
        if faults:
            raise faults.pop()
        begun.put_nowait(connected)

    config = ServerConfig(node="node-1", rtmp=None, rtmps=("127.0.0.1", 0))
    listening = Listening(config, asyncio.Protocol, secure, asyncio.Protocol)
    await listening.open()
    try:
        reader, writer = await asyncio.open_connection(*listening.bound["rtmps"][0])
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        with socket.create_connection(listening.bound["rtmps"][0]):
            (await asyncio.wait_for(begun.get(), 5)).close()
    finally:
        listening.close()
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage().endswith("given up")


def places(most: int) -> ConnectionLimits:
    return ConnectionLimits(10_000, most)


def test_ipv6_network_shares_the_connection_limit_of_one_address() -> None:
    found = places(2)
    assert [found.take(f"2001:db8:1:2::{number}") for number in range(4)] == [True, True, False, False]
    assert found.take("2001:db8:1:3::1")
    assert found.take_refused() == [{"address": "2001:db8:1:2::2", "count": 2}]
    found.free("2001:db8:1:2::1")
    assert found.take("2001:db8:1:2::9")


def test_each_ipv4_address_has_its_own_connection_limit() -> None:
    found = places(1)
    assert [found.take(address) for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1")] == [True, True, False]


def test_refused_networks_are_counted_separately_up_to_a_bound() -> None:
    found = places(0)
    for number in range(2 * ADDRESSES):
        assert not found.take(f"2001:db8:{number:x}::1")
    told = found.take_refused()
    assert [refused["count"] for refused in told] == [1] * ADDRESSES + [ADDRESSES]
    assert told[-1]["address"] == ""


PROGRAM = """
import asyncio, logging, resource, sys
from ingest.server import RtmpServer, ServerConfig

soft, hard, connections = map(int, sys.argv[1:])
logging.basicConfig(format="%(message)s", stream=sys.stdout, level=logging.WARNING)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

async def application(scope, receive, send):
    while (await receive())["type"] != "node.stopped":
        pass

async def main():
    server = RtmpServer(application, ServerConfig(node="n", rtmp=("127.0.0.1", 0), max_connections=connections))
    await server.start()
    print("limit", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    await server.stop()

asyncio.run(main())
"""


def run(program: str, *arguments: int) -> str:
    done = processes.run(sys.executable, "-c", program, *map(str, arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_open_files_limit_is_raised_to_fit_the_connection_limit() -> None:
    """And a file for each that is recorded, or plays a recording. One that is high enough stays."""
    assert run(PROGRAM, 256, 4096, 1000) == "limit 2200\n"
    assert run(PROGRAM, 3000, 4096, 1000) == "limit 3000\n"


def test_open_files_limit_that_cannot_be_raised_enough_is_logged() -> None:
    said = run(PROGRAM, 256, 1000, 5000)
    assert "800 are possible" in said
    assert "RTMPWEB_MAX_CONNECTIONS" in said
    assert said.endswith("limit 1000\n")


EXHAUSTED = """
import asyncio, logging, resource, socket
from ingest.server import Deadlines, RtmpServer, ServerConfig, node

node.TICK_S = 0.1
logging.disable(logging.ERROR)
told = asyncio.Event()

async def application(scope, receive, send):
    while (event := await receive())["type"] != "node.stopped":
        if scope["type"] == "rtmp.node" and event["type"] == "node.tick":
            for issue in event["figures"]["issues"]:
                if issue["level"] == "bad":  # It may have been a warning before.
                    print(issue["check"], issue["level"], issue["actual"].partition(" (")[0], issue["advice"])
                    told.set()
        if event["type"] == "rtmp.disconnect":
            return

async def main():
    patient = Deadlines(handshake_s=60.0)
    config = ServerConfig(node="n", rtmp=("127.0.0.1", 0), max_connections=500, deadlines=patient)
    server = RtmpServer(application, config)
    await server.start()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    connected = []
    try:
        while True:
            connected.append(socket.create_connection(server.addresses[0]))
            await asyncio.sleep(0)
    except OSError:
        pass
    await asyncio.wait_for(told.wait(), 30)
    for each in connected:
        each.close()
    await server.stop()

resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120))
asyncio.run(main())
"""


def test_a_process_that_runs_out_of_files_is_an_issue_of_its_node() -> None:
    """Nobody is told by the system: connections wait, or are closed."""
    said = run(EXHAUSTED)
    assert said.startswith("node_files bad 1")
    assert " of 120 files" in said
    assert "LimitNOFILE" in said


DRAIN = {"type": "node.drain", "grace_s": 60.0}
RECONNECT = "NetConnection.Connect.ReconnectRequest"


def asked(client: RtmpClient) -> list[dict[str, Any]]:
    """The reconnect requests that the client was sent."""
    return [event.info for event in client.of(events.StatusReceived) if event.code == RECONNECT]


async def refused(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return True
    writer.close()
    return False


@pytest.mark.parametrize(
    ("url", "called", "where"),
    [
        ("", "live", {}),
        ("rtmp://two.example.net:1936", "live", {"tcUrl": "rtmp://two.example.net:1936/live"}),
        ("rtmp://two.example.net:1936", "live?key=rk_" + "A" * 32, {}),
    ],
    ids=["same address", "another", "its key is in the app"],
)
async def test_drain_sends_a_reconnect_request_to_clients_that_support_it(
    app: ScriptedApp, serve: Serve, url: str, called: str, where: dict[str, str]
) -> None:
    server = await serve(config={"reconnect_url": url})
    async with publishing(server, app=called, capsEx=1.0) as (client, _):
        await app.node.send(DRAIN)
        await client.wait_until(lambda: bool(asked(client)))
        (info,) = asked(client)
        assert info == {"level": "status", "code": RECONNECT, "description": "The server is being drained."} | where
        assert client.of(events.StatusReceived)[-1].stream_id == 0
        await app.wait_until(lambda: any(event["code"] == RECONNECT for event in app.connections[0].of("rtmp.status")))
        await app.node.send(DRAIN)
    await app.event("rtmp.disconnect")
    assert len(asked(client)) == 1
    assert len(app.node.of("node.draining")) == 1


async def test_drain_sends_no_reconnect_request_to_clients_without_support(
    app: ScriptedApp, server: RtmpServer
) -> None:
    flags: list[Any] = [None, 2.0, "1", float("nan"), 1e300, True]
    async with AsyncExitStack() as stack:
        clients = []
        for number, value in enumerate([*flags, 3.0]):
            said = {} if value is None else {"capsEx": value}
            client, _ = await stack.enter_async_context(publishing(server, name=f"cam{number}", **said))
            clients.append(client)
        await app.node.send(DRAIN)
        await clients[-1].wait_until(lambda: len(asked(clients[-1])) == 1)
        assert [asked(client) for client in clients[:-1]] == [[]] * len(flags)


async def test_sessions_end_after_the_drain_grace_and_the_node_stays(app: ScriptedApp, server: RtmpServer) -> None:
    async with publishing(server, AVC_HEADER) as (client, _):
        await app.node.send(DRAIN)
        assert await refused(server.addresses[0][1])
        await client.send_video(1, 40, key_frame(1))  # It goes on meanwhile.
        meter = session(server.registry.streams["live/cam1"]).meter
        await becomes(lambda: meter.video_line.frames == 1)
        await app.node.send({"type": "node.drain", "grace_s": 0.1})
        end = await app.event("rtmp.unpublish")
        assert (end["reason"], end["totals"]["video_frames"]) == ("node_shutdown", 1)
        await client.wait_closed()
        assert client.of(events.StatusReceived)[-1].code == "NetConnection.Connect.AppShutdown"
        await app.next_tick()
        assert not app.node.of("node.stopped")


async def test_a_resumed_node_listens_where_it_did(app: ScriptedApp, serve: Serve, tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    server = await serve(config={"rtmps": ("127.0.0.1", 0), "certificate": pair.chain, "certificate_key": pair.key})
    ports = [server.addresses[0][1], server.bound["rtmps"][0][1]]
    async with publishing(server):
        await app.node.send({"type": "node.resume"})  # Nothing to resume.
        await app.node.send(DRAIN)
        for port in ports:
            assert await within(20, partial(refused, port), True)
        await app.node.send({"type": "node.drain", "grace_s": 0.5})
        await app.node.send({"type": "node.resume"})
        await app.wait_until(lambda: bool(app.node.of("node.resumed")))
        assert [server.addresses[0][1], server.bound["rtmps"][0][1]] == ports
        async with publishing(server, name="cam2"), connected(ports[1], tls=pair.client()):
            await asyncio.sleep(0.6)  # The former grace is over, and ended nothing.
            assert len(server.sessions) == 2
    kinds = [kind for kind in app.node.kinds if kind in ("node.draining", "node.resumed")]
    assert kinds == ["node.draining", "node.resumed"]


async def test_a_resume_waits_for_a_port_that_is_taken(
    app: ScriptedApp, server: RtmpServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "LISTEN_AGAIN_S", 0.05)
    host, port = server.addresses[0]
    await app.wait_until(lambda: bool(app.instances))
    await app.node.send(DRAIN)
    other = await asyncio.start_server(lambda _reader, writer: writer.close(), host, port)
    await app.node.send({"type": "node.resume"})
    await becomes(lambda: "can't listen" in caplog.text)
    assert not app.node.of("node.resumed")
    other.close()
    await app.wait_until(lambda: bool(app.node.of("node.resumed")))
    assert caplog.text.count("can't listen") == 1
    async with publishing(server):
        pass


async def test_leave_waits_for_the_last_session_or_the_end_of_its_grace(app: ScriptedApp, serve: Serve) -> None:
    server = await serve()
    async with publishing(server):
        leaving = asyncio.create_task(server.leave(30))
        await app.wait_until(lambda: bool(app.node.of("node.draining")))
        await app.node.send({"type": "node.resume"})  # Too late: the process stops.
        assert await refused(server.addresses[0][1])
        assert not leaving.done()
    await asyncio.wait_for(leaving, 20)
    impatient = await serve()
    async with publishing(impatient):
        await asyncio.wait_for(impatient.leave(0.3), 20)
        assert (await app.event("rtmp.unpublish"))["reason"] == "node_shutdown"


async def test_restarted_node_application_gets_the_drain_and_unread_samples(
    app: ScriptedApp, server: RtmpServer
) -> None:
    """The application stalls, ticks pile up in its inbox, and it fails: no sample is lost."""
    go = asyncio.Event()

    async def stall_and_fail(_instance: Instance, _event: Message) -> None:
        await go.wait()
        del app.on["node.tick"]
        raise RuntimeError("broken on purpose")

    async with publishing(server, AVC_HEADER) as (client, _):
        await app.wait_until(lambda: bool(app.ticks))
        app.on["node.tick"] = stall_and_fail
        await app.next_tick()  # It stalls now.
        delivered = len(app.samples)
        await app.node.send(DRAIN)
        assert server.node._driver is not None
        inbox = server.node._driver._inbox
        async with asyncio.timeout(20):
            while len([event for event in inbox if event["type"] == "node.tick"]) < 3:
                await client.send_video(1, 40, key_frame(1))
                await asyncio.sleep(0.1)
        go.set()

        await app.wait_until(lambda: len(app.nodes) == 2 and bool(app.nodes[1].of("node.tick")))
        assert app.nodes[1].kinds[:2] == ["node.started", "node.draining"]
        samples = app.nodes[1].of("node.tick")[0]["samples"]
        sequences = [sample.sequence for sample in samples]
        assert sequences == list(range(delivered + 1, delivered + 1 + len(sequences)))
        assert len(sequences) >= 3


async def test_connections_over_the_limit_are_reported_by_the_tick_and_logged(
    app: ScriptedApp, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve(config={"max_connections": 1})
    port = server.addresses[0][1]
    async with publishing(server, AVC_HEADER):
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b""
            writer.close()
        await app.wait_until(lambda: sum(r["count"] for tick in app.ticks for r in tick["refused"]) == 3)
        assert {r["address"] for tick in app.ticks for r in tick["refused"]} == {"127.0.0.1"}
        assert app.ticks[-1]["figures"]["refused_connections"] == 3
        assert len(app.connections) == 1
        (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert "1 in all (RTMPWEB_MAX_CONNECTIONS)" in warning
        assert "Raise the limit" in warning


async def test_drain_and_resume_show_in_the_log_and_the_figures(
    app: ScriptedApp, server: RtmpServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ingest.server.listener")

    def drains() -> bool:
        return bool(app.ticks[-1]["figures"]["draining"])

    await app.wait_until(lambda: bool(app.ticks))
    assert not drains()
    server.drain(60.0)
    await app.wait_until(drains)
    server.resume()
    await app.wait_until(lambda: not drains())
    said = [record.getMessage() for record in caplog.records if "node-1" in record.getMessage()]
    assert said == [
        "Node node-1 drains: it takes no new connections, and ends what is still live in 60 s (0 sessions now).",
        "Node node-1 takes connections again.",
    ]
