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
    assert start(256, 4096, 1000) == "limit 1200\n"


def test_a_limit_that_is_high_enough_stays() -> None:
    assert start(2000, 4096, 1000) == "limit 2000\n"


def test_one_that_may_not_be_raised_so_far_is_told() -> None:
    said = start(256, 1000, 5000)
    assert "800 are possible" in said
    assert "RTMPWEB_MAX_CONNECTIONS" in said
    assert said.endswith("limit 1000\n")
