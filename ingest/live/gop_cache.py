"""What a player that joins a live stream is given first: metadata, sequence headers, and the group of pictures so far.

And what it needs again for what it was not sent; and the last keyframe with its header, for thumbnails."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ingest.live.description import METADATA
from ingest.live.message import ALL_EXTENSIONS, METADATA_SLOT, Kind, SharedMessage, without_unsupported
from ingest.live.stream_log import StreamLog
from ingest.live.subscriber import Subscriber
from ingest.rtmp.media_tags import NO_TRACK

MAX_HEADERS: Final = 32
"""Kept headers. Metadata, two sequence headers, and a few tracks and colour descriptions are what encoders send."""
MAX_HEADERS_BYTES: Final = 2 * 1024 * 1024
"""Of all kept headers of a stream: most have some hundred bytes, and metadata 1 MiB at most."""

MAX_NAMES: Final = 8
"""Under which a publisher has data of its own kept."""
MAX_NAMED_BYTES: Final = 64 * 1024

ORDER: Final[dict[Kind, int]] = {"data": 0, "audio": 1, "video": 2}
"""In which order a player gets the headers: metadata, audio, video."""


class Keyframe(NamedTuple):
    """What it takes to decode one picture: payloads of video messages."""

    arrived: float
    headers: list[bytes]
    """Of all tracks, in no order."""
    payload: bytes


@dataclass(eq=False, repr=False, slots=True)
class GopCache:
    """Of a stream that has a publisher: the newest header of each kind and slot, and the log's group of pictures."""

    _log: StreamLog
    video_track: int = NO_TRACK
    audio_track: int = NO_TRACK
    """The main tracks: the lowest so far, each of which stands for the stream."""
    _headers: dict[tuple[Kind, int], SharedMessage] = field(default_factory=dict)
    _bytes: int = 0
    _names: dict[str, int] = field(default_factory=dict)
    """The slots of data that later players are to have (@setDataFrame) until the publisher clears them."""
    _restamped: list[SharedMessage] = field(default_factory=list)
    _restamped_at: int | None = None

    def clear(self) -> None:
        for key in list(self._headers):
            self._drop(*key)
        self._names.clear()
        self._log.clear()
        self.video_track = self.audio_track = NO_TRACK

    @property
    def main(self) -> dict[Kind, int]:
        return {"video": self.video_track, "audio": self.audio_track}

    # --- What is kept ---

    def takes(self, kind: Kind, slot: int, size_bytes: int) -> bool:
        """Whether there is room for a header. Those beyond the bounds are relayed as ordinary messages."""
        former = self._headers.get((kind, slot))
        if former is None:
            return len(self._headers) < MAX_HEADERS and self._bytes + size_bytes <= MAX_HEADERS_BYTES
        return self._bytes - former.size + size_bytes <= MAX_HEADERS_BYTES

    def slot(self, name: str, size_bytes: int) -> int | None:
        """Where data of this name are kept; None: it is too much, and relayed like other data."""
        if name == METADATA:
            return METADATA_SLOT
        if name not in self._names and (len(self._names) >= MAX_NAMES or size_bytes > MAX_NAMED_BYTES):
            return None
        return self._names.setdefault(name, len(self._names) + 1)

    def put(self, message: SharedMessage) -> None:
        """A header, or what would be one if there were room for it: the former one is true no more."""
        if not message.is_header:
            self._drop(message.kind, message.slot)
            return
        former = self._headers.get((message.kind, message.slot))
        self._headers[message.kind, message.slot] = message  # In the former one's place, also in their order.
        self._bytes += message.size - (former.size if former is not None else 0)
        self._restamped_at = None
        if former is not None and former.payload != message.payload and message.kind != "data":
            self._log.forget()  # The group of pictures was coded under the former header.

    def drop_data(self, name: object) -> None:
        slot = METADATA_SLOT if name == METADATA else self._names.get(name) if isinstance(name, str) else None
        if slot is not None:
            self._drop("data", slot)

    def _drop(self, kind: Kind, slot: int) -> None:
        former = self._headers.pop((kind, slot), None)
        if former is not None:
            self._bytes -= former.size
            self._restamped_at = None

    # --- What is given ---

    def begin(self, subscriber: Subscriber, now: float, latest: int, *, anywhere: bool) -> None:
        """A player joins. `latest`: the players' time; `anywhere`: no keyframe is to be waited for."""
        starts_at = self._log.starts_at
        headers = self._at(latest if starts_at is None else starts_at)
        messages = self._fitting([*headers, *self._log.messages], subscriber)
        subscriber.begin(messages, now, at_keyframe=starts_at is not None or anywhere)

    def headers_for(self, subscriber: Subscriber, timestamp: int) -> list[SharedMessage]:
        """The newest header of each kind and slot, stamped so, as the player takes them."""
        return self._fitting(self._at(timestamp), subscriber)

    def keyframe(self, after: float, most_bytes: int) -> Keyframe | None:
        """The last one of the main track, if it arrived after `after` and has at most so many bytes."""
        found = self._log.keyframe(after, most_bytes)
        headers = [message.payload for message in self._headers.values() if message.kind == "video"]
        return Keyframe(found[0], headers, found[1]) if found else None

    def _at(self, timestamp: int) -> list[SharedMessage]:
        """All headers, with the time of what follows them, but for metadata. Shared among who joins there."""
        if self._restamped_at != timestamp:
            ordered = sorted(self._headers.items(), key=lambda item: (ORDER[item[0][0]], item[0][1]))
            self._restamped = [message.at(timestamp) for _, message in ordered]
            self._restamped_at = timestamp
        return self._restamped

    def _fitting(self, messages: list[SharedMessage], subscriber: Subscriber) -> list[SharedMessage]:
        if self._log.is_extended and ALL_EXTENSIONS & ~subscriber.takes:
            return without_unsupported(messages, subscriber.takes, self.main)
        return messages
