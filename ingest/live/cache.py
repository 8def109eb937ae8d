"""What a player that joins late is given first: metadata, sequence headers, and the group of pictures so far."""

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from ingest.live.shared import Kind, SharedMessage

MAX_HEADERS: Final = 32
"""Kept headers. Metadata, two sequence headers, and a few tracks and colour descriptions are what encoders send."""

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


class HeaderCache:
    """The newest header of each kind and slot."""

    def __init__(self) -> None:
        self._headers: dict[tuple[Kind, int], SharedMessage] = {}
        self._restamped: list[SharedMessage] = []
        self._restamped_at: int | None = None

    def takes(self, kind: Kind, slot: int) -> bool:
        """Whether there is room for it. Headers beyond the bound are relayed as ordinary messages."""
        return (kind, slot) in self._headers or len(self._headers) < MAX_HEADERS

    def put(self, message: SharedMessage) -> bool:
        """Keep it in place of the former one. True: it differs, so what was decoded by the former one ends here."""
        key = (message.kind, message.slot)
        former = self._headers.get(key)
        self._headers[key] = message
        self._restamped_at = None
        return former is not None and former.payload != message.payload

    def drop(self, kind: Kind, slot: int) -> None:
        self._headers.pop((kind, slot), None)
        self._restamped_at = None

    def clear(self) -> None:
        self._headers.clear()
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
    """The messages from the last keyframe on. Over a bound all of it goes, until the next keyframe: it never grows.

    They are one run of bytes, each payload after a `_record`, written over by the next group of pictures. As objects
    of their own, in hundreds of streams, they cost more than all else that ingest does: each is allocated and freed
    where no processor cache has it, and walked by the collector meanwhile. They become messages when a player joins.
    """

    def __init__(self, limits: CacheLimits) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._end = 0
        """How much of the buffer is filled."""
        self._count = 0
        self._made: list[SharedMessage] = []
        """The first ones as messages, and where in the buffer those end."""
        self._made_end = 0

    def __len__(self) -> int:
        return self._count

    @property
    def messages(self) -> list[SharedMessage]:
        """All of them, each made once: the players that join share their bytes."""
        made, at = self._made, self._made_end
        with memoryview(self._buffer) as view:
            while at < self._end:
                kind, is_frame, is_keyframe, timestamp, arrived, size = _record.unpack_from(view, at)
                at += _record.size
                payload = view[at : at + size].tobytes()
                made.append(SharedMessage(KINDS[kind], timestamp, payload, arrived, is_frame, is_keyframe))
                at += size
        self._made_end = at
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
        if stop > len(self._buffer):
            self._buffer += bytes(max(stop - len(self._buffer), len(self._buffer) // 2, SMALLEST_BUFFER))
        _record.pack_into(self._buffer, self._end, ORDER[kind], is_frame, is_keyframe, timestamp, arrived, size)
        self._buffer[start:stop] = payload
        self._end = stop

    def _begin(self) -> None:
        """Another group of pictures, in the buffer of the last one unless that was far smaller than the buffer."""
        if len(self._buffer) > max(4 * self._end, 2 * SMALLEST_BUFFER):
            self._buffer = bytearray()
        self._end = self._count = self._made_end = 0
        if self._made:
            self._made = []

    def clear(self) -> None:
        self._begin()
        self._buffer = bytearray()


class Keyframe(NamedTuple):
    """What it takes to decode one picture: payloads of video messages."""

    arrived: float
    headers: list[bytes]
    """Of all tracks, in no order."""
    payload: bytes


def last_keyframe(headers: HeaderCache, pictures: PictureCache, after: float, most_bytes: int) -> Keyframe | None:
    """As `PictureCache.keyframe`."""
    found = pictures.keyframe(after, most_bytes)
    return Keyframe(found[0], headers.of("video"), found[1]) if found else None
