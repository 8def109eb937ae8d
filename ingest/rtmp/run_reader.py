"""Runs of audio and video messages, read at once. What ingest costs is how much code each read of the socket runs.

One loop takes messages as nearly all of them come: whole within what was read, in chunks as they should be, of the
message stream that publishes. It decides nothing: what is out of the ordinary in any way, it leaves where it stands for
`ChunkReader.read`, which alone knows limits and errors. So both read the same, whatever comes.
"""

from typing import Final, NamedTuple, Protocol

from ingest.rtmp.chunk_reader import BYTES_PER_CHUNK, DELTA_LENGTH_TYPE, NOTHING, ChunkReader
from ingest.rtmp.chunk_writer import EXTENDED, STREAM_ID
from ingest.rtmp.messages import AUDIO, VIDEO

SHORTEST: Final = 8
"""Bytes of a message's payload. Shorter ones are no coded media, and each may be looked at by its first bytes."""


class Run(NamedTuple):
    """Messages in the order in which they came. The bytes may be looked at only until the run is handed back."""

    data: memoryview
    chunk_size: int
    """After each so many bytes of a payload stands one byte, the header of its next chunk."""
    messages: list[tuple[bool, int, int, int]]
    """Whether it is video; timestamp, 32 bits, ms; where its payload begins, and its size without chunk headers."""
    end: int
    """Where what follows begins."""

    def payload(self, start: int, size: int) -> bytes:
        step = self.chunk_size + 1
        chunks = bytearray(self.data[start : start + size + (size - 1) // self.chunk_size])
        del chunks[self.chunk_size :: step]
        return bytes(chunks)


class MediaSink(Protocol):
    """Takes a message stream's audio and video as they are read, without an event for each.

    It is called within `receive_data` and `events`, and must not call the connection. Timestamps: 32 bits, ms.
    """

    def audio(self, timestamp: int, payload: bytes) -> None: ...

    def video(self, timestamp: int, payload: bytes) -> None: ...

    def run(self, run: Run) -> None:
        """Several messages of both kinds, whose bytes are gone afterwards."""


class MediaStream(Protocol):
    """A message stream whose audio and video go to a sink."""

    stream_id: int
    sink: MediaSink | None


class RunReader(ChunkReader):
    """A ChunkReader that can be asked for a run before each `read`."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to be read of what it was fed."""
        return self._position == len(self._data)

    def take_run(self, stream_id: int) -> Run | None:
        """The audio and video messages of this message stream that come next; None: the next one is another."""
        data, position, chunk_size = self._data, self._position, self.chunk_size
        end = len(data)
        if self.error is not None or self._awaited is not None or chunk_size < BYTES_PER_CHUNK:
            return None
        if end - position < self._wanted:
            return None
        streams, longest = self._streams, self._longest
        chunks, most_chunks = 0, self._chunks_left
        messages: list[tuple[bool, int, int, int]] = []
        while position < end:
            # As ChunkReader.read, where each field is explained.
            first = data[position]
            stream = streams.get(first & 0x3F)
            if stream is None or stream.partial is not None or stream.extended:
                break
            if 0x40 <= first < 0x80:
                start = position + 8
                if start > end:
                    break
                word, low, type_id = DELTA_LENGTH_TYPE.unpack_from(data, position + 1)
                time, length = word >> 8, (word & 0xFF) << 16 | low
                timestamp = (stream.timestamp + time) & 0xFFFFFFFF
                names = stream.stream_id
            elif first >= 0xC0:
                start = position + 1
                time, length, type_id = stream.delta, stream.length, stream.type_id
                timestamp = (stream.timestamp + time) & 0xFFFFFFFF
                names = stream.stream_id
            elif first >= 0x80:
                start = position + 4
                if start > end:
                    break
                time = data[position + 1] << 16 | data[position + 2] << 8 | data[position + 3]
                length, type_id = stream.length, stream.type_id
                timestamp = (stream.timestamp + time) & 0xFFFFFFFF
                names = stream.stream_id
            else:
                start = position + 12
                if start > end:
                    break
                word, low, type_id = DELTA_LENGTH_TYPE.unpack_from(data, position + 1)
                timestamp = time = word >> 8
                length = (word & 0xFF) << 16 | low
                names = STREAM_ID.unpack_from(data, position + 8)[0]
            if time == EXTENDED or names != stream_id or length < SHORTEST or length > longest[type_id]:
                break
            if type_id != VIDEO and type_id != AUDIO:
                break
            stop = start + length
            count = 1
            if length > chunk_size:
                count += (length - 1) // chunk_size
                stop += count - 1
            if stop > end or chunks + count > most_chunks:
                break
            if count > 1:
                headers = data[start + chunk_size : stop : chunk_size + 1].tobytes()
                if headers.count(0xC0 | first & 0x3F) != count - 1:
                    break
            chunks += count
            stream.timestamp, stream.delta = timestamp, time
            stream.length, stream.type_id, stream.stream_id = length, type_id, names
            messages.append((type_id == VIDEO, timestamp, start, length))
            position = stop
        if not messages:
            return None
        self._position, self._wanted = position, 0
        self._chunks_left -= chunks
        return Run(data, chunk_size, messages, position)

    def take_run_of(self, data: memoryview, stream_id: int) -> Run | None:
        """As `take_run`, of bytes that are not fed before. None too where something came before that is not read."""
        if self._rest:
            return None
        self._data, self._position, self._chunks_left = data, 0, self._limits.chunks_per_read
        run = self.take_run(stream_id)
        self._data, self._position = NOTHING, 0
        return run
