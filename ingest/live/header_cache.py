"""The headers that a player needs before anything else: metadata, sequence headers; and a keyframe with its own."""

from typing import Final, NamedTuple

from ingest.live.shared import Kind, SharedMessage

MAX_HEADERS: Final = 32
"""Kept headers. Metadata, two sequence headers, and a few tracks and colour descriptions are what encoders send."""
MAX_HEADERS_BYTES: Final = 2 * 1024 * 1024
"""Of all kept headers of a stream: most have some hundred bytes, and metadata 1 MiB at most."""

ORDER: Final[dict[Kind, int]] = {"data": 0, "audio": 1, "video": 2}
"""In which order a player gets the headers: metadata, audio, video."""


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


class Keyframe(NamedTuple):
    """What it takes to decode one picture: payloads of video messages."""

    arrived: float
    headers: list[bytes]
    """Of all tracks, in no order."""
    payload: bytes
