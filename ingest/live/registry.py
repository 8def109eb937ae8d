"""All live streams of a node."""

from ingest.contracts import Labels
from ingest.live.counted import NOTHING_COUNTED, added
from ingest.live.log_memory import LogMemory
from ingest.live.settings import LiveSettings
from ingest.live.stream import LiveStream, Wake


class Registry:
    def __init__(self, node: str, settings: LiveSettings | None = None, wake: Wake | None = None) -> None:
        """`wake`: see `LiveStream`."""
        self.node = node
        self.settings = settings or LiveSettings()
        self.caches = LogMemory(self.settings.caches_bytes)
        self._wake = wake
        self.streams: dict[str, LiveStream] = {}
        """By path: app/name."""
        self.forgotten = NOTHING_COUNTED
        """What was counted of the streams that are no longer here."""

    def get(self, path: str) -> LiveStream | None:
        return self.streams.get(path)

    def get_or_create(self, path: str, labels: Labels) -> LiveStream:
        """A player may be the first to ask for a stream; it waits in it for the publisher."""
        stream = self.streams.get(path)
        if stream is None:
            stream = LiveStream(
                path, labels, node=self.node, settings=self.settings, memory=self.caches, wake=self._wake
            )
            self.streams[path] = stream
        return stream

    def discard_idle(self, now: float) -> list[LiveStream]:
        """Forget, and return, the streams that nobody has published or played for longer than the absence allowed."""
        gone: list[LiveStream] = []
        for stream in self.streams.values():
            if not stream.is_idle:
                stream.idle_since = None
            elif stream.idle_since is None:
                stream.idle_since = now
            elif now - stream.idle_since > self.settings.absence_s:
                gone.append(stream)
        for stream in gone:
            del self.streams[stream.path]
        if gone:
            self.forgotten = added((self.forgotten, *(stream.counters for stream in gone)))
        return gone
