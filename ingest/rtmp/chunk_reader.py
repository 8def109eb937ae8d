"""Chunks to messages (RTMP 1.0, section 5.3.1). This is the media path: what a message costs here, every frame costs.

A chunk is consumed only when all of it is there, so nothing has to be undone. Set Chunk Size and Abort (sections 5.4.1
and 5.4.2) concern this layer alone and take effect here, before the next chunk is looked at.
"""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ingest.rtmp.chunk_writer import DEFAULT_CHUNK_SIZE, EXTENDED, STREAM_ID, WORD, basic_header
from ingest.rtmp.errors import LimitExceeded, RemoteProtocolError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType, RawMessage
from ingest.rtmp.messages.control import read_number

DELTA_LENGTH_TYPE: Final = struct.Struct(">IHB")
"""Timestamp (24 bits) and message length (24), read as 32 + 16, and the message type."""

HEADER_SIZES: Final = (11, 7, 3, 0)
"""Bytes of the message header by chunk type, without an extended timestamp."""

RUN: Final = 512
"""Chunks taken at once by `_take_run`: bounds what is looked at in vain when chunk streams are interleaved."""

SHORTEST_RUN: Final = 3
"""Below it, chunk by chunk is as fast."""

BYTES_PER_CHUNK: Final = DEFAULT_CHUNK_SIZE
"""A read with more chunks than one for so many bytes has small ones: see `Limits.small_chunks_per_s`."""

NOTHING: Final = memoryview(b"")

_CHUNK_CONTROL: Final = frozenset({MessageType.SET_CHUNK_SIZE, MessageType.ABORT})
COMMANDS: Final = frozenset({MessageType.COMMAND_AMF0, MessageType.COMMAND_AMF3})
ALL_TYPES: Final = frozenset(range(256))


@lru_cache(maxsize=16)
def _longest_messages(limits: Limits) -> tuple[int, ...]:
    """The limit of a message's length by its type; one table for all connections of the same limits."""
    longest = [limits.other_message_bytes] * 256
    for limit, types in (
        (limits.control_message_bytes, range(MessageType.SET_CHUNK_SIZE, MessageType.SET_PEER_BANDWIDTH + 1)),
        (limits.media_message_bytes, (MessageType.AUDIO, MessageType.VIDEO, MessageType.AGGREGATE)),
        (limits.data_message_bytes, (MessageType.DATA_AMF0, MessageType.DATA_AMF3)),
        (limits.command_message_bytes, (*COMMANDS, MessageType.SHARED_OBJECT_AMF0, MessageType.SHARED_OBJECT_AMF3)),
    ):
        for type_id in types:
            longest[type_id] = limit
    return tuple(longest)


@dataclass(slots=True, eq=False)
class _ChunkStream:
    """What one chunk stream id remembers from header to header, and its message under way."""

    continuation: bytes
    """How a type 3 chunk of this stream begins: its basic header and the extended timestamp."""
    timestamp: int = 0
    delta: int = 0
    length: int = 0
    type_id: int = 0
    stream_id: int = 0
    extended: bytes = b""
    """The extended timestamp of the last type 0, 1 or 2 header as sent (4 bytes), or nothing."""
    partial: bytearray | None = None
    """What has come of the message under way; None between messages."""

    def repeats(self, chunk_type: int, time: int, length: int, type_id: int, stream_id: int) -> bool:
        """Whether a header of type 0, 1 or 2 goes on with the message under way: it says the same, or that no time has
        passed since. Further chunks only *should* be of type 3 (section 5.3.1.2.4)."""
        times = (self.timestamp,) if chunk_type == 0 else (0, self.delta)
        return time in times and (length, type_id, stream_id) == (self.length, self.type_id, self.stream_id)


class ChunkReader:
    """`feed` bytes, `read` until nothing comes, `keep` what is left."""

    def __init__(self, limits: Limits) -> None:
        self.chunk_size = DEFAULT_CHUNK_SIZE
        self._limits = limits
        self._streams: dict[int, _ChunkStream] = {}
        self._partial_bytes = 0
        self._rest = bytearray()
        self._data = NOTHING
        self._position = 0
        self._chunks_left = 0
        self._wanted = 0
        """Bytes from `_position` on without which the next chunk is not whole."""
        self._longest = _longest_messages(limits)
        self.stops: frozenset[int] = COMMANDS
        """Message types behind which `read` stops: such a message may change what is to be done with the next one."""
        self._awaited: tuple[int, ...] | None = None
        """As `_longest`, by the limits that may come to hold."""
        self.is_held_up = False
        """By a message that is too long, unless they do."""
        self.error: RemoteProtocolError | None = None
        """Found behind messages that were complete: the next `read` raises it."""
        self.control_messages = 0
        """Set Chunk Size and Abort so far, which are not handed on."""
        self.small_chunks = 0
        """Chunks so far that ended no message, beyond one for each `BYTES_PER_CHUNK`; runs counted as one."""

    def set_limits(self, limits: Limits) -> None:
        """From the next message on."""
        self._limits = limits
        self._longest = _longest_messages(limits)
        self.is_held_up = False

    def await_limits(self, limits: Limits | None) -> None:
        """A decision is to come, after which these may hold. Until then, when this is called with None, messages are
        read one by one, and none that is too long without them."""
        self.stops = COMMANDS if limits is None else ALL_TYPES
        self._awaited = None if limits is None else _longest_messages(limits)
        self.is_held_up = False

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Gives bytes to read. They may be a view on a buffer that is used again after `keep`."""
        if self._rest:
            self._rest += data
            data = self._rest
        self._data = data if type(data) is memoryview else memoryview(data)
        self._position = 0
        self._chunks_left = self._limits.chunks_per_read

    def keep(self) -> None:
        """Copies what was not read, and lets go of the buffer that was given."""
        position, data = self._position, self._data
        self._data, self._position = NOTHING, 0
        if self._rest:
            data.release()
            del self._rest[:position]
        elif position < len(data):
            self._rest += data[position:]

    def hold(self, data: bytes | bytearray | memoryview) -> None:
        """Adds bytes without reading."""
        self._rest += data

    def read(self, *, single: bool = False) -> list[RawMessage]:
        """The messages that are complete, in order, up to the first of `stops`; or the `single` next one.

        Empty when more bytes are needed. Raises RemoteProtocolError, by the call after what came before the fault.
        """
        data = self._data
        begin = position = self._position
        end = len(data)
        if end - position < self._wanted:
            return []  # As with each packet of a large chunk.
        if self.error is not None:
            raise self.error
        self._wanted = 0
        streams = self._streams
        chunk_size = self.chunk_size
        messages: list[RawMessage] = []
        chunks_left = self._chunks_left
        stops = ALL_TYPES if single else self.stops
        try:
            while position < end:
                chunks_left -= 1
                # Basic header (5.3.1.1): type in 2 bits, chunk stream id in 6 bits or 1 or 2 little-endian bytes more.
                start = position
                first = data[position]
                position += 1
                chunk_stream_id = first & 0x3F
                if chunks_left < 0:
                    raise LimitExceeded(f"more than {self._limits.chunks_per_read} chunks at once")
                if chunk_stream_id < 2:
                    position += 1 + chunk_stream_id
                    if position > end:
                        position = start
                        break
                    high = data[start + 2] << 8 if chunk_stream_id else 0
                    chunk_stream_id = data[start + 1] + high + 64
                stream = streams.get(chunk_stream_id)

                if first >= 0xC0:
                    # Type 3: goes on with the message under way, or begins one with all the fields of the last.
                    if stream is None:
                        raise RemoteProtocolError("a chunk stream begins with a type 3 chunk")
                    if stream.extended:
                        # Most senders repeat the extended timestamp here, some don't: only looking tells. An empty
                        # message that one of the latter ends its connection with thus never comes.
                        peek = data[position : position + 4].tobytes()
                        if peek == stream.extended:
                            position += 4
                        elif stream.extended.startswith(peek):
                            position = start
                            break
                    length = stream.length
                    partial = stream.partial
                    remaining = length if partial is None else length - len(partial)
                    size = remaining if remaining < chunk_size else chunk_size
                    stop = position + size
                    if stop > end:
                        self._wanted = stop - start
                        position = start
                        break
                    if partial is None:
                        stream.timestamp = (stream.timestamp + stream.delta) & 0xFFFFFFFF
                else:
                    # Types 0, 1 and 2 begin a message, or repeat its header (5.3.1.2).
                    if stream is None:
                        stream = self._add_stream(chunk_stream_id, first >> 6)
                    fields = position
                    position += HEADER_SIZES[first >> 6]
                    if position > end:
                        position = start
                        break
                    if first < 0x80:
                        word, low, type_id = DELTA_LENGTH_TYPE.unpack_from(data, fields)
                        time = word >> 8
                        length = (word & 0xFF) << 16 | low
                        if length > self._longest[type_id]:
                            if self._awaited is not None and length <= self._awaited[type_id]:
                                self.is_held_up = True
                                position = start
                                break
                            raise LimitExceeded(
                                f"a message of type {type_id} has {length} bytes, more than {self._longest[type_id]}"
                            )
                    else:
                        time = data[fields] << 16 | data[fields + 1] << 8 | data[fields + 2]
                        length = stream.length
                        type_id = stream.type_id
                    extended = b""
                    if time == EXTENDED:
                        position += 4
                        if position > end:
                            position = start
                            break
                        extended = data[position - 4 : position].tobytes()
                        time = WORD.unpack(extended)[0]
                    partial = stream.partial
                    remaining = length if partial is None else length - len(partial)
                    size = remaining if remaining < chunk_size else chunk_size
                    stop = position + size
                    if stop > end:
                        self._wanted = stop - start
                        position = start
                        break
                    stream_id = STREAM_ID.unpack_from(data, fields + 7)[0] if first < 0x40 else stream.stream_id
                    if partial is None:
                        stream.timestamp = time if first < 0x40 else (stream.timestamp + time) & 0xFFFFFFFF
                    elif not stream.repeats(first >> 6, time, length, type_id, stream_id):
                        raise RemoteProtocolError("a message begins within another one of its chunk stream")
                    stream.delta = time  # Of a type 0 too: a type 3 that follows takes its timestamp (5.3.1.2.4).
                    stream.length = length
                    stream.type_id = type_id
                    stream.stream_id = stream_id
                    if extended or stream.extended:
                        basic = len(stream.continuation) - len(stream.extended)
                        stream.continuation = stream.continuation[:basic] + extended
                        stream.extended = extended

                if size == length:
                    payload = data[position:stop].tobytes()
                    position = stop
                else:
                    partial = stream.partial
                    if partial is None:
                        partial = stream.partial = bytearray()
                    partial += data[position:stop]
                    position = stop
                    self._partial_bytes += size
                    remaining = length - len(partial)
                    if remaining >= SHORTEST_RUN * chunk_size and end - position >= SHORTEST_RUN * chunk_size:
                        position = self._take_run(partial, stream.continuation, remaining, position)
                        remaining = length - len(partial)
                    if self._partial_bytes > self._limits.partial_bytes:
                        raise LimitExceeded(f"more than {self._limits.partial_bytes} bytes in unfinished messages")
                    if remaining:
                        continue
                    payload = bytes(partial)
                    self._partial_bytes -= length
                    stream.partial = None

                type_id = stream.type_id
                if type_id in _CHUNK_CONTROL:
                    self._control(type_id, payload)
                    chunk_size = self.chunk_size
                    continue
                messages.append((type_id, stream.timestamp, stream.stream_id, payload))
                if type_id in stops:
                    break
        except RemoteProtocolError as error:
            if not messages:
                raise
            self.error = error
            return messages
        # One may not be whole, and is looked at once more.
        unfinished = self._chunks_left - chunks_left - len(messages) - 1
        if unfinished > 0:
            self.small_chunks += max(0, unfinished - (position - begin) // BYTES_PER_CHUNK)
        self._chunks_left = chunks_left
        self._position = position
        return messages

    def _take_run(self, partial: bytearray, header: bytes, remaining: int, position: int) -> int:
        """Takes whole type 3 chunks that follow one another in one chunk stream; gives the position after them.

        Small chunks would cost more in headers than in payload. All headers of the run lie at one distance: one strided
        slice compares them and another removes them. `header` is how each of them begins.
        """
        data = self._data
        chunk_size = self.chunk_size
        size = len(header)
        stride = chunk_size + size
        while data[position] == header[0]:
            count = min((len(data) - position) // stride, remaining // chunk_size, RUN)
            for offset in range(size):
                column = data[position + offset : position + count * stride : stride].tobytes()
                byte = header[offset : offset + 1]
                if column != byte * count:
                    count -= len(column.lstrip(byte))
            if count < SHORTEST_RUN:
                break
            start = len(partial)
            stop = position + count * stride
            partial += data[position:stop]
            for removed in range(size):
                del partial[start :: stride - removed]
            position = stop
            remaining -= count * chunk_size
            self._partial_bytes += count * chunk_size
            if position == len(data):
                break
        return position

    def _add_stream(self, chunk_stream_id: int, chunk_type: int) -> _ChunkStream:
        """A chunk stream's first header. Type 1 is accepted: librtmp begins with it; message stream and time are 0."""
        if chunk_type >= 2:
            raise RemoteProtocolError("a chunk stream begins with a type 2 chunk")
        if len(self._streams) >= self._limits.chunk_streams:
            raise LimitExceeded(f"more than {self._limits.chunk_streams} chunk streams")
        stream = self._streams[chunk_stream_id] = _ChunkStream(basic_header(3, chunk_stream_id))
        return stream

    def _control(self, type_id: int, payload: bytes) -> None:
        value = read_number(payload)
        self.control_messages += 1
        if type_id == MessageType.SET_CHUNK_SIZE:
            # The top bit must be 0 and is not checked. What is more than 0xFFFFFF means that, as no message is longer.
            value &= 0x7FFFFFFF
            if value == 0:
                raise RemoteProtocolError("a chunk size of 0")
            self.chunk_size = value
        else:
            stream = self._streams.get(value)
            if stream is not None and stream.partial is not None:
                self._partial_bytes -= len(stream.partial)
                stream.partial = None
