"""What a player that joins late is given first: metadata, sequence headers, and the group of pictures so far."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ingest.live.shared import Kind, SharedMessage

MAX_HEADERS: Final = 32
"""Kept headers. Metadata, two sequence headers, and a few tracks and colour descriptions are what encoders send."""

ORDER: Final[dict[Kind, int]] = {"data": 0, "audio": 1, "video": 2}
"""In which order a player gets the headers: metadata, audio, video."""


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

    def at(self, timestamp: int) -> list[SharedMessage]:
        """All of them, stamped with the time of what follows them. Shared among the players that join there."""
        if self._restamped_at != timestamp:
            ordered = sorted(self._headers.items(), key=lambda item: (ORDER[item[0][0]], item[0][1]))
            self._restamped = [message.at(timestamp) for _, message in ordered]
            self._restamped_at = timestamp
        return self._restamped


class PictureCache:
    """The messages from the last keyframe on. Over a bound all of it goes, until the next keyframe: it never grows."""

    def __init__(self, limits: CacheLimits) -> None:
        self._limits = limits
        self._messages: list[SharedMessage] = []
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def messages(self) -> Iterable[SharedMessage]:
        return self._messages

    @property
    def starts_at(self) -> int | None:
        """The keyframe's timestamp."""
        return self._messages[0].timestamp if self._messages else None

    def add(self, message: SharedMessage) -> None:
        if message.is_keyframe:
            self.clear()
        elif not self._messages:
            return
        self._messages.append(message)
        self.size_bytes += message.size
        if self.size_bytes > self._limits.size_bytes or len(self._messages) > self._limits.frames:
            self.clear()

    def clear(self) -> None:
        self._messages = []
        self.size_bytes = 0
