"""A server with a media listener, and a publisher."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ingest.server import RtmpServer
from tests.rtmp_client import RtmpClient
from tests.server.clients import publishing
from tests.server.conftest import Serve
from tests.server.media import AAC_HEADER, AVC_HEADER, key_frame

PAGE = "https://page.example"
"""The origin of pages that may play."""


@pytest_asyncio.fixture
async def server(serve: Serve) -> RtmpServer:
    return await serve(config={"media": ("127.0.0.1", 0), "media_origins": frozenset({PAGE})})


@pytest.fixture
def media_port(server: RtmpServer) -> int:
    return server.bound["http"][0][1]


@pytest_asyncio.fixture
async def publisher(port: int) -> AsyncIterator[RtmpClient]:
    """A publisher of live/cam1 on message stream 1 that has sent its headers."""
    async with publishing(port, AVC_HEADER) as (client, stream_id):
        assert stream_id == 1
        await client.send_audio(1, 0, AAC_HEADER)
        yield client


@pytest_asyncio.fixture
async def shown(publisher: RtmpClient) -> RtmpClient:
    """The publisher, which has sent a keyframe."""
    await publisher.send_video(1, 40, key_frame(1))
    return publisher
