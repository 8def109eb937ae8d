"""A live stream's messages from its last keyframe on, each serialised once: what a late player is given first, and what
the stream's readers have not been given yet.

They stand in one run of bytes, as they go out: in chunks under a type 0 header (RTMP 1.0, section 5.3.1.2.1), on
message stream 1, which nearly every player uses. So what came since the last flush is one slice, whoever it goes to. As
objects of their own, in hundreds of streams, messages cost more than all else that ingest does: each is allocated and
freed where no processor cache has it. They become objects for those alone who can't take the slice: players that join,
lag, or are sent less than all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from ingest.live.message import (
    FRAME,
    HEADER,
    HEADER_BYTES,
    KEYFRAME,
    KIND,
    KINDS,
    MESSAGE,
    NUMBERS,
    OUT_CHUNK_SIZE,
    RECORD,
    RECORD_BYTES,
    STREAM_FIELD,
    STREAM_ID,
    STREAM_ID_AT,
    TIMESTAMP,
    TYPES,
    Kind,
    Place,
    SharedMessage,
    Span,
    message_of,
)
from ingest.rtmp.chunk_writer import EXTENDED

LARGE_CHUNK: Final = 1024
"""Bytes. Smaller ones are copied with the headers between them, and those removed."""

SMALLEST_BUFFER: Final = 64 * 1024
"""By which the buffer grows at least."""
SMALLEST_INDEX: Final = 64
"""Records by which the index grows at least."""

FORMS: Final = 3
"""In which a message is kept that late players share: its payload, in chunks, and as a tag of FLV."""


@dataclass(frozen=True, slots=True)
class LogLimits:
    frames: int = 2500
    """Messages of a group of pictures, audio between its frames included."""
    size_bytes: int = 16 * 1024 * 1024


SPARE: Final = 8
"""One part in so many of the node's memory is made free at once, so that room is not looked for with each message."""


class LogMemory:
    """Over the bound larger logs give way to smaller ones: their late players wait for the next keyframe, and many
    small streams have theirs at once.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self.dropped = 0
        """Groups of pictures that gave way, since the node began."""
        self._held: dict[StreamLog, int] = {}

    def hold(self, log: "StreamLog", size_bytes: int) -> None:
        self.held_bytes += size_bytes - self._held.pop(log, 0)
        if size_bytes:
            self._held[log] = size_bytes

    def fits(self, log: "StreamLog", size_bytes: int) -> bool:
        return self._left(log, size_bytes) >= 0

    def make_room(self, log: "StreamLog", size_bytes: int) -> bool:
        """Have larger ones give way for the log to hold so much. False: they are too few, and it gives way itself."""
        left = self._left(log, size_bytes)
        if left >= 0:
            return True
        larger = [(held, each) for each, held in self._held.items() if held > size_bytes and each is not log]
        if left + sum(held for held, _ in larger) < 0:
            self.dropped += 1
            return False
        for held, each in sorted(larger, key=itemgetter(0), reverse=True):
            if left >= self.most_bytes // SPARE:
                break
            self.dropped += 1
            each.forget()
            left += held - self._held.get(each, 0)
        return True

    def _left(self, log: "StreamLog", size_bytes: int) -> int:
        return self.most_bytes - self.held_bytes + self._held.get(log, 0) - size_bytes


@dataclass(eq=False, repr=False)
class StreamLog:
    """Over a bound, its own or the node's, the group of pictures goes, and none is kept until the next keyframe. What
    the readers have not been given yet stays.
    """

    _limits: LogLimits
    _memory: LogMemory
    is_extended: bool = False
    """Some of the stream's messages are such as not every player takes."""
    is_read: bool = False
    """There are readers, who are given what has no place in a group of pictures, too."""
    _buffer: bytearray = field(default_factory=bytearray)
    _view: memoryview = field(init=False)
    _end: int = 0
    """How much of the buffer is filled,"""
    _bound: int = 0
    """and to where it may be without a further look."""
    _index: bytearray = field(default_factory=bytearray)
    _count: int = 0
    """Records that there are,"""
    _index_bound: int = 0
    """and may be."""
    _first: int | None = None
    """The keyframe's record; None: there is no group of pictures."""
    _first_at: int = 0
    _places: list[Place] = field(default_factory=list)
    _slots: dict[int, int] = field(default_factory=dict)
    """Of headers, by their records."""
    _made: list[SharedMessage] = field(default_factory=list)
    """The group of pictures' first messages, for late players; and the record behind them."""
    _made_stop: int = 0
    _made_bytes: int = 0
    """What these may come to hold."""

    def __post_init__(self) -> None:
        self._view = memoryview(self._buffer)

    # --- What comes ---

    def add(
        self,
        kind: Kind,
        timestamp: int,
        payload: bytes,
        arrived: float,
        is_frame: bool,
        is_keyframe: bool = False,
        slot: int | None = None,
    ) -> None:
        """As in SharedMessage. `slot`: of a header, of which late players get the newest beside this."""
        if is_keyframe:
            self._begin()
        elif self._first is None and not self.is_read:
            return
        size, number = len(payload), NUMBERS[kind]
        if size > OUT_CHUNK_SIZE:
            wire = SharedMessage(kind, timestamp, payload, arrived).encoded(STREAM_ID)
            if not self._make_room(len(wire)):
                return
            start = self._end
            stop = start + len(wire)
            self._view[start:stop] = wire
        else:
            extended = timestamp >= EXTENDED
            header, short = (HEADER_BYTES + TIMESTAMP.size, EXTENDED) if extended else (HEADER_BYTES, timestamp)
            stop = self._end + header + size
            if stop > self._bound or self._count >= self._index_bound:
                if not self._make_room(header + size):
                    return
                stop = self._end + header + size
            start, view = self._end, self._view
            chunk_stream, type_id = TYPES[number]
            MESSAGE.pack_into(view, start, chunk_stream, short << 8 | size >> 16, size & 0xFFFF, type_id, STREAM_FIELD)
            if extended:
                TIMESTAMP.pack_into(view, start + HEADER_BYTES, timestamp)
            view[start + header : stop] = payload
        flags = number | FRAME * is_frame | KEYFRAME * is_keyframe
        if slot is not None:
            flags |= HEADER
            self._slots[self._count] = slot
        RECORD.pack_into(self._index, self._count * RECORD_BYTES, flags, timestamp, arrived, start, size)
        self._end = stop
        self._count += 1

    @property
    def takes(self) -> bool:
        """Whether anything that comes has a place: in a group of pictures, or for readers."""
        return self._first is not None or self.is_read

    def append(
        self, number: int, timestamp: int, data: memoryview, at: int, size: int, chunk_size: int, arrived: float
    ) -> bool:
        """A frame that is no keyframe, from the chunks in which it came: `size` bytes from `at` on, without their
        headers of one byte after each `chunk_size`. `number`: its kind's. False: not before room is made by `add`."""
        start = self._end
        header, short = (HEADER_BYTES, timestamp) if timestamp < EXTENDED else (HEADER_BYTES + TIMESTAMP.size, EXTENDED)
        stop = start + header + size
        if stop > self._bound or self._count >= self._index_bound or size > OUT_CHUNK_SIZE:
            return False
        view = self._view
        chunk_stream, type_id = TYPES[number]
        MESSAGE.pack_into(view, start, chunk_stream, short << 8 | size >> 16, size & 0xFFFF, type_id, STREAM_FIELD)
        if short == EXTENDED:
            TIMESTAMP.pack_into(view, start + HEADER_BYTES, timestamp)
        if size <= chunk_size:
            view[start + header : stop] = data[at : at + size]
        elif chunk_size >= LARGE_CHUNK:
            to = start + header
            while to < stop:
                piece = min(chunk_size, stop - to)
                view[to : to + piece] = data[at : at + piece]
                to += piece
                at += piece + 1
        else:
            chunks = bytearray(data[at : at + size + (size - 1) // chunk_size])
            del chunks[chunk_size :: chunk_size + 1]
            view[start + header : stop] = chunks
        RECORD.pack_into(self._index, self._count * RECORD_BYTES, number | FRAME, timestamp, arrived, start, size)
        self._end = stop
        self._count += 1
        return True

    def _begin(self) -> None:
        used = self._end - self._first_at if self._first is not None else self._end
        self._move_to_front(fresh=len(self._buffer) > max(4 * used, 2 * SMALLEST_BUFFER))
        self._first, self._first_at = self._count, self._end
        self._forget_made()
        self._set_bounds()

    def _move_to_front(self, *, fresh: bool) -> None:
        """All that the readers have goes. `fresh`: what they have not, into a buffer of its own."""
        places = [place for place in self._places if place.is_read]
        given = min((place.record for place in places), default=self._count)
        shift = min((place.at for place in places), default=self._end)
        left = self._end - shift
        if fresh:
            buffer = bytearray(left)
            buffer[:] = self._view[shift : self._end]
            self._buffer, self._view = buffer, memoryview(buffer)
        elif left:
            self._view[:left] = self._view[shift : self._end]
        records = [RECORD.unpack_from(self._index, each * RECORD_BYTES) for each in range(given, self._count)]
        for number, (flags, timestamp, arrived, start, size) in enumerate(records):
            RECORD.pack_into(self._index, number * RECORD_BYTES, flags, timestamp, arrived, start - shift, size)
        if self._slots:
            self._slots = {each - given: slot for each, slot in self._slots.items() if each >= given}
        self._count, self._end = len(records), left
        for place in places:
            place.record -= given
            place.at -= shift

    def _make_room(self, size: int) -> bool:
        """For a message of so many bytes. False: it is nobody's any more."""
        if self._first is not None:
            count = self._count - self._first + 1
            payloads = self._end + size - self._first_at - count * HEADER_BYTES
            if count > self._limits.frames or payloads > self._limits.size_bytes:
                self.forget()
                if not self.is_read:
                    return False
        if (self._count + 1) * RECORD_BYTES > len(self._index):
            self._index += bytes(max(len(self._index) // 2, SMALLEST_INDEX * RECORD_BYTES))
        if self._end + size > len(self._buffer) and not self._grow(size):
            return False
        self._set_bounds()
        return True

    def _grow(self, size: int) -> bool:
        former = len(self._buffer)
        length = max(self._end + size, former + max(former // 2, SMALLEST_BUFFER))
        if not self._memory.fits(self, length + self._made_bytes):
            self._forget_made()
            if not self._memory.make_room(self, length):
                self.forget()
                if not self.is_read:
                    return False
                length = self._end + size + SMALLEST_BUFFER  # What is to be given has to be somewhere, for a moment.
        buffer = bytearray(length)
        view = memoryview(buffer)
        view[: self._end] = self._view[: self._end]
        self._buffer, self._view = buffer, view
        self._hold()
        return True

    def _set_bounds(self) -> None:
        self._bound, self._index_bound = len(self._buffer), len(self._index) // RECORD_BYTES
        if self._first is not None:
            self._bound = min(self._bound, self._first_at + self._limits.size_bytes)
            self._index_bound = min(self._index_bound, self._first + self._limits.frames)

    def forget(self) -> None:
        """The group of pictures is of no use any more, or has to give way."""
        self._first = None
        self._move_to_front(fresh=True)
        self._forget_made()
        self._set_bounds()

    def clear(self) -> None:
        """The publisher is gone. Its readers have been given all."""
        for place in self._places:
            place.record, place.at = self._count, self._end
        self.is_extended = False
        self.forget()

    # --- Late players ---

    @property
    def starts_at(self) -> int | None:
        return None if self._first is None else self._record(self._first)[1]

    @property
    def messages(self) -> list[SharedMessage]:
        """The group of pictures without headers, each made once if there is room for that: the players that join share
        their bytes."""
        if self._first is None:
            return []
        made, start = self._made, max(self._made_stop, self._first)
        if start == self._count:
            return made
        for message in self.made(start, self._count):
            if not message.is_header:
                made.append(message)
                self._made_bytes += FORMS * message.variants * message.size
        self._made_stop = self._count
        if self._memory.fits(self, len(self._buffer) + self._made_bytes):
            self._hold()
        else:
            self._forget_made()
        return made

    def keyframe(self, after: float, most_bytes: int) -> tuple[float, bytes] | None:
        """When it arrived, and its payload; None unless that was after `after` and it has at most so many bytes."""
        if self._first is None:
            return None
        _, timestamp, arrived, start, size = self._record(self._first)
        if arrived <= after or size > most_bytes:
            return None
        return arrived, self._payload(timestamp, start, size)

    def _forget_made(self) -> None:
        self._made = []
        self._made_stop = self._made_bytes = 0
        self._hold()

    def _hold(self) -> None:
        self._memory.hold(self, len(self._buffer) + self._made_bytes)

    # --- Readers ---

    def place(self) -> Place:
        place = Place()
        self._places.append(place)
        return place

    def be_read(self, place: Place, is_read: bool) -> None:
        """From what comes next on."""
        if is_read and not place.is_read:
            place.record, place.at = self._count, self._end
        place.is_read = is_read
        self.is_read = any(each.is_read for each in self._places)

    def pending_bytes(self, place: Place) -> int:
        return self._end - place.at if place.is_read else 0

    def take(self, place: Place) -> Span | None:
        """What its readers are to be given now; it is there until `given`. None: nothing has come."""
        if not place.is_read or place.record == self._count:
            return None
        span = Span(place.record, self._count, place.at, self._end)
        place.record, place.at = self._count, self._end
        return span

    def given(self) -> None:
        if self._first is None and all(place.record == self._count for place in self._places if place.is_read):
            self._count = self._end = 0
            for place in self._places:
                place.record = place.at = 0
            self._slots.clear()

    def records(self, first: int, stop: int) -> Iterator[tuple[int, int, float, int, int]]:
        """Flags, timestamp, arrived, where it begins, payload size."""
        return RECORD.iter_unpack(memoryview(self._index)[first * RECORD_BYTES : stop * RECORD_BYTES])

    def made(self, first: int, stop: int) -> Iterator[SharedMessage]:
        make = message_of if self.is_extended else SharedMessage
        for number, (flags, timestamp, arrived, start, size) in enumerate(self.records(first, stop), first):
            yield make(
                KINDS[flags & KIND],
                timestamp,
                self._payload(timestamp, start, size),
                arrived,
                bool(flags & FRAME),
                bool(flags & KEYFRAME),
                bool(flags & HEADER),
                self._slots[number] if flags & HEADER else 0,
            )

    def wire(self, span: Span, stream_id: int) -> bytes:
        if stream_id == STREAM_ID:
            return self._view[span.start : span.end].tobytes()
        data = bytearray(self._view[span.start : span.end])
        named = stream_id.to_bytes(4, "little")
        for _, _, _, at, _ in self.records(span.first, span.stop):
            at -= span.start
            data[at + STREAM_ID_AT : at + HEADER_BYTES] = named
        return bytes(data)

    def _record(self, number: int) -> tuple[int, int, float, int, int]:
        found: tuple[int, int, float, int, int] = RECORD.unpack_from(self._index, number * RECORD_BYTES)
        return found

    def _payload(self, timestamp: int, start: int, size: int) -> bytes:
        extended = TIMESTAMP.size if timestamp >= EXTENDED else 0
        start += HEADER_BYTES + extended
        if size <= OUT_CHUNK_SIZE:
            return self._view[start : start + size].tobytes()
        step = OUT_CHUNK_SIZE + 1 + extended
        chunks = -(-size // OUT_CHUNK_SIZE)
        end = start + size + (chunks - 1) * (1 + extended)
        return b"".join(self._view[at : min(at + OUT_CHUNK_SIZE, end)] for at in range(start, end, step))
