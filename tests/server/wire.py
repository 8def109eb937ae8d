"""TCP connections without RTMP; what an application is told of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.server.app import Message, ScriptedApp


@contextlib.asynccontextmanager
async def raw(port: int, **options: object) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A TCP connection without any protocol, or TLS alone."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)  # type: ignore[arg-type]
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """All that the server sends until it closes; a reset counts as the end."""
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        return b""


async def only_event(app: ScriptedApp) -> Message:
    """The one event of the latest connection, after its end; it never said to which application it would go."""
    await app.event("rtmp.disconnect")
    (event,) = app.connections[-1].events
    assert app.connections[-1].scope["app"] == ""
    return event
