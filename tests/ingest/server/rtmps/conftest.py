"""A server with TLS, its certificate for localhost."""

from pathlib import Path

import pytest
import pytest_asyncio

from ingest.server import RtmpServer
from tests.certificates import Pair, make_pair
from tests.ingest.server.conftest import Serve
from tests.ingest.server.rtmps.wire import ServeTls


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path)


@pytest_asyncio.fixture
async def serve_tls(serve: Serve, pair: Pair) -> ServeTls:
    async def start(**deadlines: float) -> RtmpServer:
        tls = {"rtmps": ("127.0.0.1", 0), "certificate": pair.chain, "certificate_key": pair.key}
        return await serve(config=tls | {"certificate_look_s": 0.02}, **deadlines)

    return start


@pytest_asyncio.fixture
async def tls_server(serve_tls: ServeTls) -> RtmpServer:
    return await serve_tls()
