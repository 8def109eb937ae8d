"""What a player that joins a live stream is given first: metadata, sequence headers, and the group of pictures so far.

And what it needs again for what it was not sent; and the last keyframe with its header, for thumbnails."""

from typing import Final, NamedTuple

from ingest.live.description import DataFrames
from ingest.live.message import ALL_EXTENSIONS, Kind, SharedMessage, without_unsupported
from ingest.live.stream_log import StreamLog
from ingest.live.subscriber import Subscriber
from ingest.rtmp.media_tags import NO_TRACK

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


class GopCache:
    """Of one stream, while it has a publisher: the headers, and the log's group of pictures."""

    __slots__ = ("_frames", "_headers", "_log", "audio_track", "video_track")

    def __init__(self, log: StreamLog) -> None:
        self._log = log
        self.video_track = self.audio_track = NO_TRACK
        """The main tracks: the lowest so far, each of which stands for the stream."""
        self._headers = HeaderCache()
        self._frames = DataFrames()

    def clear(self) -> None:
        """It is of no use any more once the publisher is gone."""
        self._headers.clear()
        self._frames.clear()
        self._log.clear()
        self.video_track = self.audio_track = NO_TRACK

    @property
    def main(self) -> dict[Kind, int]:
        return {"video": self.video_track, "audio": self.audio_track}

    # --- What is kept ---

    def takes(self, kind: Kind, slot: int, size_bytes: int) -> bool:
        return self._headers.takes(kind, slot, size_bytes)

    def slot(self, name: str, size_bytes: int) -> int | None:
        """Where data of this name are kept; None: there is no room."""
        return self._frames.slot(name, size_bytes)

    def put(self, message: SharedMessage) -> None:
        """A header, or what would be one if there were room for it: the former one is true no more then."""
        if not message.is_header:
            self._headers.drop(message.kind, message.slot)
        elif self._headers.put(message) and message.kind != "data":
            self._log.forget()  # The group of pictures was coded under the former header.

    def drop_data(self, name: object) -> None:
        slot = self._frames.find(name)
        if slot is not None:
            self._headers.drop("data", slot)

    # --- What is given ---

    def begin(self, subscriber: Subscriber, now: float, latest: int, *, anywhere: bool) -> None:
        """A player joins. `latest`: the players' time; `anywhere`: no keyframe is to be waited for."""
        starts_at = self._log.starts_at
        headers = self._headers.at(latest if starts_at is None else starts_at)
        messages = self._fitting([*headers, *self._log.messages], subscriber)
        subscriber.begin(messages, now, at_keyframe=starts_at is not None or anywhere)

    def headers_for(self, subscriber: Subscriber, timestamp: int) -> list[SharedMessage]:
        """The newest header of each kind and slot, stamped so, as the player takes them."""
        return self._fitting(self._headers.at(timestamp), subscriber)

    def keyframe(self, after: float, most_bytes: int) -> Keyframe | None:
        """The last one of the main track, if it arrived after `after` and has at most so many bytes."""
        found = self._log.keyframe(after, most_bytes)
        return Keyframe(found[0], self._headers.of("video"), found[1]) if found else None

    def _fitting(self, messages: list[SharedMessage], subscriber: Subscriber) -> list[SharedMessage]:
        if self._log.is_extended and ALL_EXTENSIONS & ~subscriber.takes:
            return without_unsupported(messages, subscriber.takes, self.main)
        return messages
