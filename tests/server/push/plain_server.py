"""A small RTMP server that answers as a test says, like servers other than ours."""

import asyncio
import os
import ssl
from typing import Any, Self

from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.chunk_writer import CSID_COMMAND, ChunkWriter
from ingest.rtmp.handshake import ServerHandshake
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.messages import MessageType
from ingest.rtmp.messages.commands import Command, decode_command, encode_command
from tests.rtmp_client import NONCE_BYTES, Changing

STREAM_ID = 5.0
"""Other servers do not give 1."""


def info(level: str, code: str, description: str, **more: Any) -> dict[str, Any]:
    return {"level": level, "code": code, "description": description, **more}


class PlainServer(Changing):
    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._tls = tls
        self.port = 0
        self.commands: list[Command] = []
        self.media: list[tuple[int, int, bytes]] = []
        """Type, timestamp and payload of received messages."""
        self.fails: set[str] = set()
        """Names of commands that it answers with an error."""
        self.connect_answer: dict[str, Any] = {}
        self.connect_error: dict[str, Any] | None = None
        self.begin_status: dict[str, Any] | None = info("status", "NetStream.Publish.Start", "Go on.")
        """The status after a publish. None: it does not answer."""
        self.play_status: dict[str, Any] | None = None
        self.writers: list[asyncio.StreamWriter] = []
        self.chunk_size = 0
        self.reads = asyncio.Event()
        """While this is cleared, it reads nothing."""
        self.reads.set()

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
        return self.commands[self.names.index(name)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        handshake, chunks = ServerHandshake(os.urandom(NONCE_BYTES), 0), ChunkReader(DEFAULT_LIMITS)
        out = ChunkWriter(compress=False)
        try:
            while await self.reads.wait() and (data := await reader.read(1 << 16)):
                if not handshake.completed:
                    answer, data = handshake.receive(data)
                    writer.write(answer)
                chunks.feed(data)
                while found := chunks.read():
                    for type_id, timestamp, _, payload in found:
                        if type_id != MessageType.COMMAND_AMF0:
                            self.media.append((type_id, timestamp, payload))
                        elif reply := self._reply(decode_command(payload, DEFAULT_LIMITS)):
                            writer.write(out.encode(encode_command(reply, 0), CSID_COMMAND))
                chunks.keep()
                self.chunk_size = chunks.chunk_size
                self._changed.set()
        except OSError:
            pass
        finally:
            writer.close()

    def _reply(self, command: Command) -> Command | None:
        self.commands.append(command)
        if command.name in self.fails:
            error = info("error", "NetConnection.Call.Failed", "What is that?")
            return Command("_error", command.transaction, None, [error])
        if command.name == "connect" and self.connect_error is not None:
            return Command("_error", command.transaction, None, [self.connect_error])
        if command.name == "connect":
            said = info("status", "NetConnection.Connect.Success", "Connected.")
            return Command("_result", command.transaction, {"fmsVer": "FMS/3,0,1,123", **self.connect_answer}, [said])
        if command.name == "createStream":
            return Command("_result", command.transaction, None, [STREAM_ID])
        status = {"publish": self.begin_status, "play": self.play_status}.get(command.name)
        return None if status is None else Command("onStatus", 0, None, [status])
