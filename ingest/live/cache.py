"""What a player that joins late is given first: metadata, sequence headers, and the group of pictures so far."""

import struct
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple

from ingest.live.extended import message_of
from ingest.live.shared import Kind, SharedMessage

MAX_HEADERS: Final = 32
"""Kept headers. Metadata, two sequence headers, and a few tracks and colour descriptions are what encoders send."""
MAX_HEADERS_BYTES: Final = 2 * 1024 * 1024
"""Of all kept headers of a stream: most have some hundred bytes, and metadata 1 MiB at most."""

ORDER: Final[dict[Kind, int]] = {"data": 0, "audio": 1, "video": 2}
"""In which order a player gets the headers: metadata, audio, video."""
KINDS: Final[tuple[Kind, ...]] = tuple(ORDER)

_record: Final = struct.Struct("<B??IdI")
"""Before each payload of the picture cache: kind, is_frame, is_keyframe, timestamp, arrived, size."""

SMALLEST_BUFFER: Final = 64 * 1024
"""By which the picture cache's buffer grows at least."""


@dataclass(frozen=True, slots=True)
class CacheLimits:
    frames: int = 2500
    """Messages of a group of pictures, audio between its frames included."""
    size_bytes: int = 16 * 1024 * 1024


SPARE: Final = 8
"""One part in so many of the node's memory is made free at once, so that room is not looked for with each message."""

FORMS: Final = 3
"""In which a message is kept that late players share: its payload, in chunks, and as a tag of FLV."""


class CacheMemory:
    """What the picture caches of a node hold together. Over the bound larger ones give way to smaller ones: their late
    players wait for the next keyframe, and many small streams have theirs at once.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self.dropped = 0
        """Groups of pictures that gave way, since the node began."""
        self._held: dict[PictureCache, int] = {}

    def hold(self, cache: "PictureCache", size_bytes: int) -> None:
        """The cache holds so much from now on."""
        self.held_bytes += size_bytes - self._held.pop(cache, 0)
        if size_bytes:
            self._held[cache] = size_bytes

    def fits(self, cache: "PictureCache", size_bytes: int) -> bool:
        """Whether the cache may hold so much as it is."""
        return self._left(cache, size_bytes) >= 0

    def make_room(self, cache: "PictureCache", size_bytes: int) -> bool:
        """Have larger ones give way for the cache to hold so much. False: they are too few, and it gives way itself."""
        left = self._left(cache, size_bytes)
        if left >= 0:
            return True
        larger = [(held, each) for each, held in self._held.items() if held > size_bytes and each is not cache]
        if left + sum(held for held, _ in larger) < 0:
            self.dropped += 1
            return False
        for held, each in sorted(larger, key=itemgetter(0), reverse=True):
            if left >= self.most_bytes // SPARE:
                break
            self.dropped += 1
            left += held
            each.clear()
        return True

    def _left(self, cache: "PictureCache", size_bytes: int) -> int:
        return self.most_bytes - self.held_bytes + self._held.get(cache, 0) - size_bytes


class HeaderCache:
    """The newest header of each kind and slot."""

    def __init__(self) -> None:
        self._headers: dict[tuple[Kind, int], SharedMessage] = {}
        self._bytes = 0
        self._restamped: list[SharedMessage] = []
        self._restamped_at: int | None = None

    def takes(self, kind: Kind, slot: int, size_bytes: int) -> bool:
        """Whether there is room for it. Headers beyond the bounds are relayed as ordinary messages."""
        former = self._headers.get((kind, slot))
        if former is None:
            return len(self._headers) < MAX_HEADERS and self._bytes + size_bytes <= MAX_HEADERS_BYTES
        return self._bytes - former.size + size_bytes <= MAX_HEADERS_BYTES

    def put(self, message: SharedMessage) -> bool:
        """Keep it in place of the former one. True: it differs, so what was decoded by the former one ends here."""
        key = (message.kind, message.slot)
        former = self._headers.get(key)
        self._bytes += message.size - (former.size if former is not None else 0)
        self._headers[key] = message
        self._restamped_at = None
        return former is not None and former.payload != message.payload

    def drop(self, kind: Kind, slot: int) -> None:
        former = self._headers.pop((kind, slot), None)
        if former is not None:
            self._bytes -= former.size
            self._restamped_at = None

    def clear(self) -> None:
        self._headers.clear()
        self._bytes = 0
        self._restamped_at = None

    def of(self, kind: Kind) -> list[bytes]:
        """The payloads of one kind."""
        return [message.payload for message in self._headers.values() if message.kind == kind]

    def at(self, timestamp: int) -> list[SharedMessage]:
        """All of them, with the time of what follows them, but for metadata. Shared among who joins there."""
        if self._restamped_at != timestamp:
            ordered = sorted(self._headers.items(), key=lambda item: (ORDER[item[0][0]], item[0][1]))
            self._restamped = [message.at(timestamp) for _, message in ordered]
            self._restamped_at = timestamp
        return self._restamped


class PictureCache:
    """The messages from the last keyframe on. Over a bound, its own or the node's, all of it goes until the next one.

    They are one run of bytes, each payload after a `_record`, written over by the next group of pictures. As objects
    of their own, in hundreds of streams, they cost more than all else that ingest does: each is allocated and freed
    where no processor cache has it, and walked by the collector meanwhile. They become messages when a player joins.
    """

    def __init__(self, limits: CacheLimits, memory: CacheMemory) -> None:
        self._limits = limits
        self._memory = memory
        self._buffer = bytearray()
        self._end = 0
        """How much of the buffer is filled."""
        self._count = 0
        self.is_extended = False
        """Some of the stream's messages are such as not every player takes."""
        self._made: list[SharedMessage] = []
        """The first ones as messages, and where in the buffer those end."""
        self._made_end = 0
        self._made_bytes = 0
        """What these may come to hold."""

    def __len__(self) -> int:
        return self._count

    @property
    def messages(self) -> list[SharedMessage]:
        """All of them, each made once if there is room for that: the players that join share their bytes."""
        made, at = self._made, self._made_end
        if at == self._end:
            return made
        make = message_of if self.is_extended else SharedMessage
        with memoryview(self._buffer) as view:
            while at < self._end:
                kind, is_frame, is_keyframe, timestamp, arrived, size = _record.unpack_from(view, at)
                at += _record.size
                payload = view[at : at + size].tobytes()
                message = make(KINDS[kind], timestamp, payload, arrived, is_frame, is_keyframe)
                made.append(message)
                self._made_bytes += FORMS * message.variants * size
                at += size
        self._made_end = at
        if self._memory.fits(self, self._size_bytes):
            self._hold()
        else:
            self._forget_made()
        return made

    @property
    def starts_at(self) -> int | None:
        """The keyframe's timestamp."""
        return _record.unpack_from(self._buffer)[3] if self._count else None

    def keyframe(self, after: float, most_bytes: int) -> tuple[float, bytes] | None:
        """When it arrived, and its payload; None unless that was after `after` and it has at most so many bytes."""
        if not self._count:
            return None
        _, _, _, _, arrived, size = _record.unpack_from(self._buffer)
        if arrived <= after or size > most_bytes:
            return None
        return arrived, bytes(self._buffer[_record.size : _record.size + size])

    def add(
        self, kind: Kind, timestamp: int, payload: bytes, arrived: float, is_frame: bool, is_keyframe: bool = False
    ) -> None:
        """As in SharedMessage. Headers have a cache of their own."""
        if is_keyframe:
            self._begin()
        elif not self._count:
            return
        size = len(payload)
        start = self._end + _record.size
        stop = start + size
        self._count += 1
        if self._count > self._limits.frames or stop - self._count * _record.size > self._limits.size_bytes:
            self.clear()
            return
        if stop > len(self._buffer) and not self._grow(stop):
            return
        _record.pack_into(self._buffer, self._end, ORDER[kind], is_frame, is_keyframe, timestamp, arrived, size)
        self._buffer[start:stop] = payload
        self._end = stop

    def _grow(self, least: int) -> bool:
        """False: there is no room in the node, and all of it has gone."""
        former = len(self._buffer)
        size = max(least, former + max(former // 2, SMALLEST_BUFFER))
        if not self._memory.fits(self, size + self._made_bytes):
            self._forget_made()
            if not self._memory.make_room(self, size):
                self.clear()
                return False
        self._buffer += bytes(size - former)
        self._hold()
        return True

    def _begin(self) -> None:
        """Another group of pictures, in the buffer of the last one unless that was far smaller than the buffer."""
        if len(self._buffer) > max(4 * self._end, 2 * SMALLEST_BUFFER):
            self._buffer = bytearray()
            self._hold()
        self._end = self._count = 0
        if self._made:
            self._forget_made()

    def clear(self) -> None:
        self._buffer = bytearray()
        self._end = self._count = 0
        self._forget_made()

    def _forget_made(self) -> None:
        self._made = []
        self._made_end = self._made_bytes = 0
        self._hold()

    @property
    def _size_bytes(self) -> int:
        return len(self._buffer) + self._made_bytes

    def _hold(self) -> None:
        self._memory.hold(self, self._size_bytes)


class Keyframe(NamedTuple):
    """What it takes to decode one picture: payloads of video messages."""

    arrived: float
    headers: list[bytes]
    """Of all tracks, in no order."""
    payload: bytes
