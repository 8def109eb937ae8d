"""What tests of RTMPS do with sockets and logs."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from ingest.server import RtmpServer
from tests.ingest.server.app import Message, ScriptedApplication

ServeTls = Callable[..., Awaitable[RtmpServer]]


def tls_port(server: RtmpServer) -> int:
    return server.tls_addresses[0][1]


def assert_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """No warning, no traceback; asyncio's and uvloop's own reports are logged at ERROR."""
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@contextlib.asynccontextmanager
async def raw(port: int, **options: object) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)  # type: ignore[arg-type]
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        return b""


async def only_event(app: ScriptedApplication) -> Message:
    await app.event("rtmp.disconnect")
    (event,) = app.connections[-1].events
    return event
