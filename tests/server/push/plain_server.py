"""An RTMP server of few words, which answers as a test says: as others do that are not ours."""

import asyncio
import os
import ssl
from collections.abc import Callable
from typing import Any, Self

from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.chunk_writer import CSID_COMMAND, ChunkWriter
from ingest.rtmp.handshake import ServerHandshake
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.messages import MessageType
from ingest.rtmp.messages.commands import Command, decode_command, encode_command
from tests.rtmp_client import NONCE_BYTES

STREAM_ID = 5.0
"""Not the usual one."""


def info(level: str, code: str, description: str, **more: Any) -> dict[str, Any]:
    return {"level": level, "code": code, "description": description, **more}


class PlainServer:
    def __init__(self, port: int = 0, *, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.port = port
        self.commands: list[Command] = []
        self.media: list[tuple[int, int, bytes]] = []
        """Type, timestamp and payload of what came."""
        self.fails: set[str] = set()
        """Commands that are answered by an error."""
        self.connect_answer: dict[str, Any] = {}
        self.connect_error: dict[str, Any] | None = None
        self.begin_status: dict[str, Any] | None = info("status", "NetStream.Publish.Start", "Go on.")
        """To publish; None: there is no answer."""
        self.play_status: dict[str, Any] | None = None
        self.writers: list[asyncio.StreamWriter] = []
        self.chunk_size = 0
        self.reads = asyncio.Event()
        """Cleared: it takes nothing more."""
        self.reads.set()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self.writers:
            writer.close()
        await asyncio.sleep(0)

    @property
    def names(self) -> list[str]:
        return [command.name for command in self.commands]

    async def wait_for(self, name: str) -> Command:
        await self.wait_until(lambda: name in self.names)
        return next(each for each in self.commands if each.name == name)

    async def wait_until(self, condition: Callable[[], object], timeout_s: float = 5.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        handshake, chunks, out = (
            ServerHandshake(os.urandom(NONCE_BYTES), 0),
            ChunkReader(DEFAULT_LIMITS),
            _Writer(writer),
        )
        try:
            while await self.reads.wait() and (data := await reader.read(1 << 16)):
                if not handshake.completed:
                    answer, data = handshake.receive(data)
                    writer.write(answer)
                chunks.feed(data)
                while found := chunks.read():
                    for type_id, timestamp, _, payload in found:
                        self._take(out, type_id, timestamp, payload)
                chunks.keep()
                self.chunk_size = chunks.chunk_size
                self._changed.set()
        except OSError:
            pass
        finally:
            writer.close()

    def _take(self, out: "_Writer", type_id: int, timestamp: int, payload: bytes) -> None:
        if type_id != MessageType.COMMAND_AMF0:
            self.media.append((type_id, timestamp, payload))
            return
        command = decode_command(payload, DEFAULT_LIMITS)
        self.commands.append(command)
        transaction = command.transaction
        if command.name in self.fails:
            out.send("_error", transaction, None, info("error", "NetConnection.Call.Failed", "What is that?"))
        elif command.name == "connect" and self.connect_error is not None:
            out.send("_error", transaction, None, self.connect_error)
        elif command.name == "connect":
            said = info("status", "NetConnection.Connect.Success", "Connected.")
            out.send("_result", transaction, {"fmsVer": "FMS/3,0,1,123", **self.connect_answer}, said)
        elif command.name == "createStream":
            out.send("_result", transaction, None, STREAM_ID)
        elif command.name == "publish" and self.begin_status is not None:
            out.send("onStatus", 0, None, self.begin_status)
        elif command.name == "play" and self.play_status is not None:
            out.send("onStatus", 0, None, self.play_status)


class _Writer:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._chunks = ChunkWriter(compress=False)

    def send(self, name: str, transaction: float, *values: Any) -> None:
        message = encode_command(Command(name, transaction, values[0], list(values[1:])), 0)
        self._writer.write(self._chunks.encode(message, CSID_COMMAND))
