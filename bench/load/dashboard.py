"""A browser's WebSocket on the wall, as far as its cost to the server goes: it reads what comes, and answers pings."""

import asyncio
import base64
import json
import os
import struct
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from bench.load.client import Refused

PATH = "/ws/live/"
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
OPEN_S = 30.0


@dataclass(slots=True)
class Dashboard:
    """What it was sent since `reset`: bytes on the wire, framing included."""

    bytes_read: int = 0
    updates: int = 0
    snapshots: list[int] = field(default_factory=list)
    """The bytes of each."""
    loop_delays_ms: list[float] = field(default_factory=list)
    """What the nodes said each second of their event loops, if it `listens`."""
    gaps_ms: list[float] = field(default_factory=list)
    """Between two updates."""
    listens: bool = False
    closed: str = ""
    _last: float = 0.0

    def reset(self) -> None:
        self.bytes_read = self.updates = 0
        self.snapshots, self.loop_delays_ms, self.gaps_ms = [], [], []

    async def watch(self, http: str, cookie: str) -> None:
        """Until it is cancelled, or the server closes it."""
        reader, writer = await asyncio.wait_for(_opened(http, cookie), OPEN_S)
        try:
            while True:
                opcode, payload, size = await _frame(reader)
                self.bytes_read += size
                if opcode == TEXT:
                    self._take(payload, size)
                elif opcode == PING:
                    writer.write(_masked(PONG, payload))
                elif opcode == CLOSE:
                    self.closed = f"closed with {struct.unpack('>H', payload[:2])[0] if payload else 'no code'}"
                    return
        except asyncio.IncompleteReadError:
            self.closed = "lost"
        finally:
            writer.close()

    def _take(self, payload: bytes, size: int) -> None:
        now = time.monotonic()
        if payload.startswith(b'{"kind":"snapshot"'):
            self.snapshots.append(size)
            return
        self.updates += 1
        if self._last:
            self.gaps_ms.append((now - self._last) * 1000)
        self._last = now
        if self.listens:
            update: dict[str, Any] = json.loads(payload)
            self.loop_delays_ms += [node["loop_delay_ms"] for node in update["nodes"]]


async def _opened(http: str, cookie: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Raises Refused."""
    address = urlsplit(http)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = (
        f"GET {PATH} HTTP/1.1",
        f"Host: {address.netloc}",
        f"Origin: {http}",
        f"Cookie: {cookie}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
    )
    writer.write("\r\n".join((*lines, "", "")).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 101 " not in head.partition(b"\r\n")[0]:
        raise Refused(head.partition(b"\r\n")[0].decode(errors="replace"))
    return reader, writer


async def _frame(reader: asyncio.StreamReader) -> tuple[int, bytes, int]:
    """Opcode, payload, and bytes with the header. The server sends whole, unmasked frames (RFC 6455, 5.2)."""
    first, length = await reader.readexactly(2)
    head = 2
    if length == 126:
        (length,) = struct.unpack(">H", await reader.readexactly(2))
        head = 4
    elif length == 127:
        (length,) = struct.unpack(">Q", await reader.readexactly(8))
        head = 10
    return first & 15, await reader.readexactly(length), head + length


def _masked(opcode: int, payload: bytes) -> bytes:
    """A short frame of a client's; a mask of zeros changes nothing."""
    return bytes((128 | opcode, 128 | len(payload))) + bytes(4) + payload
