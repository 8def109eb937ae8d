"""What a player that joins a live stream is given first, and what it needs again for what it was not sent."""

from ingest.live.extended import EVERYTHING, fitting
from ingest.live.header_cache import HeaderCache, Keyframe
from ingest.live.metadata import DataFrames
from ingest.live.shared import Kind, SharedMessage
from ingest.live.stream_log import StreamLog
from ingest.live.subscriber import Subscriber
from ingest.rtmp.media.kinds import NO_TRACK


class Beginning:
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
        """The main tracks."""
        return {"video": self.video_track, "audio": self.audio_track}

    # --- What is kept ---

    def takes(self, kind: Kind, slot: int, size_bytes: int) -> bool:
        """Whether there is room for such a header."""
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
        """What was kept under this name is cleared."""
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
        if self._log.is_extended and EVERYTHING & ~subscriber.takes:
            return fitting(messages, subscriber.takes, self.main)
        return messages
