"""What the processes that share a machine's ports, its workers, tell one another: so bounds hold for all together.

Each listens on a Unix socket in a folder that is their user's alone, and has a connection to each of the others, by
which it tells: first all that it has of each topic, then every change, as it happens. A worker that ends closes its
connections, and the others forget what is only true while it lives. Nobody waits for another: who doesn't read what it
is told is left, and told all of it again later. So a decision is made at once, by what was heard until then.

Both wings of ingest have topics: the server its connections, the services the secrets that were wrong."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

logger = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Between two tries to reach a worker, unless it comes itself before."""

UNREAD_BYTES = 4 * 1024 * 1024
"""That may wait for another worker, which stands still then; over it the connection ends."""

LINE_BYTES = 1024 * 1024
"""What is told at once; longer is a fault."""

SOCKET_MODE = 0o600


class SiblingsError(Exception):
    """Others could not be told anything. The message is for the operator."""


class Topic(Protocol):
    """What is told is JSON. To hear the same twice changes nothing."""

    def told(self, worker: int, what: Any, /) -> None: ...

    def gone(self, worker: int, /) -> None:
        """It has ended, or tells all of it anew."""

    def everything(self) -> Iterable[Any]:
        """What a worker that has just come is told, in portions, each as of the moment that it is asked for."""


class Siblings:
    """One worker's connections with the others. In the event loop's thread."""

    def __init__(self, worker: int, sockets: Mapping[int, Path]) -> None:
        """`sockets`: of all workers by their numbers, this one's with them."""
        self._worker = worker
        self._sockets = sockets
        self._topics: dict[str, Topic] = {}
        self._told_to: dict[int, asyncio.StreamWriter] = {}
        self._heard_from: dict[int, asyncio.StreamWriter] = {}
        """The latest connection of each other; nothing is written to it."""
        self._seen = {other: asyncio.Event() for other in sockets if other != worker}
        self._telling: list[asyncio.Task[None]] = []
        self._hearing: set[asyncio.StreamWriter] = set()
        """All that there are. Their tasks end with them."""
        self._server: asyncio.Server | None = None

    def share(self, name: str, topic: Topic) -> Callable[[Any], None]:
        """Before `start`. Returns what tells the others of a change."""
        self._topics[name] = topic

        def tell(what: Any) -> None:
            if self._told_to:
                line = _line(name, what)
                for writer in list(self._told_to.values()):
                    self._write(writer, line)

        return tell

    async def start(self) -> None:
        """Listens, and tries to reach the others, again and again. Raises SiblingsError."""
        path = self._sockets[self._worker]
        try:
            path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._hear, path, limit=LINE_BYTES)
            path.chmod(SOCKET_MODE)
        except OSError as error:
            raise SiblingsError(
                f"{path} can't be listened on: {error.strerror or error}. By such sockets workers share their limits "
                "and bans: put the data folder on a disk that can have them, and let this user write there."
            ) from error
        loop = asyncio.get_running_loop()
        self._telling = [loop.create_task(self._keep_telling(other)) for other in self._seen]

    async def close(self) -> None:
        if self._server:
            self._server.close()
            with suppress(OSError):
                self._sockets[self._worker].unlink()
        for writer in self._hearing:
            writer.transport.abort()
        for task in self._telling:
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)

    # --- To tell ---

    async def _keep_telling(self, other: int) -> None:
        seen = self._seen[other]
        while True:
            seen.clear()
            with suppress(OSError):
                await self._tell(other)
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    await seen.wait()

    async def _tell(self, other: int) -> None:
        """All that there is, then what `share` gave tells, until the connection ends."""
        reader, writer = await asyncio.open_unix_connection(self._sockets[other])
        try:
            writer.write(json.dumps(self._worker).encode() + b"\n")
            self._told_to[other] = writer
            for name, topic in self._topics.items():
                for portion in topic.everything():
                    writer.write(_line(name, portion))
                    await writer.drain()
            await reader.read()  # Nothing is said to it: it returns when the connection ends.
        finally:
            if self._told_to.get(other) is writer:
                del self._told_to[other]
            writer.transport.abort()

    @staticmethod
    def _write(writer: asyncio.StreamWriter, line: bytes) -> None:
        if writer.transport.get_write_buffer_size() > UNREAD_BYTES:
            writer.transport.abort()
        elif not writer.is_closing():
            writer.write(line)

    # --- To hear ---

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._hearing.add(writer)
        other = 0
        try:
            hello = await reader.readline()
            if not hello.endswith(b"\n"):
                return  # It ended as it came.
            other = int(hello)
            self._seen[other].set()
            self._forget(other)
            self._heard_from[other] = writer
            while (line := await reader.readline()).endswith(b"\n"):
                name, what = json.loads(line)
                if self._heard_from.get(other) is not writer:
                    break  # It has come again.
                self._topics[name].told(other, what)
        except OSError:
            pass  # It ends as at an end in order.
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            logger.warning("Worker %d said what can't be read (%s): is it of another version?", other, error)
        finally:
            if self._heard_from.get(other) is writer:
                del self._heard_from[other]
                self._forget(other)
            self._hearing.discard(writer)
            writer.transport.abort()

    def _forget(self, other: int) -> None:
        for topic in self._topics.values():
            topic.gone(other)


def _line(name: str, what: Any) -> bytes:
    return json.dumps([name, what], separators=(",", ":")).encode() + b"\n"
