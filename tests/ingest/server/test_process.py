"""What the server sets for its own process, seen from a process of its own."""

import subprocess
import sys

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


def start(soft: int, hard: int, connections: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(soft), str(hard), str(connections)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_limit_of_open_files_follows_that_of_connections() -> None:
    """And a file for each that is recorded, or plays a recording."""
    assert start(256, 4096, 1000) == "limit 2200\n"


def test_a_limit_that_is_high_enough_stays() -> None:
    assert start(3000, 4096, 1000) == "limit 3000\n"


def test_one_that_may_not_be_raised_so_far_is_told() -> None:
    said = start(256, 1000, 5000)
    assert "800 are possible" in said
    assert "RTMPWEB_MAX_CONNECTIONS" in said
    assert said.endswith("limit 1000\n")


EXHAUSTED = """
import asyncio, logging, resource, socket
from ingest.server import Deadlines, RtmpServer, ServerConfig

logging.disable(logging.ERROR)
told = asyncio.Event()

async def application(scope, receive, send):
    while (event := await receive())["type"] != "node.stopped":
        if scope["type"] == "rtmp.node" and event["type"] == "node.tick":
            for issue in event["figures"]["issues"]:
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
    done = subprocess.run([sys.executable, "-c", EXHAUSTED], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("node_files bad 1")
    assert " of 120 files" in done.stdout
    assert "LimitNOFILE" in done.stdout
