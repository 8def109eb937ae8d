"""Live streams in memory: fan-out, caches, players' queues, meters and health. No I/O and no clock: time is passed in.

Times named `now` are monotonic seconds, those named `wall` seconds since the Unix epoch.
"""

from ingest.live.dropping import QueueLimits
from ingest.live.limit import LimitSettings
from ingest.live.passage import Passage
from ingest.live.publisher import Publisher, SocketFigures
from ingest.live.registry import Registry
from ingest.live.settings import LiveSettings
from ingest.live.shared import OUT_CHUNK_SIZE, SharedMessage
from ingest.live.stream import Busy, LiveStream, NotPublishing
from ingest.live.subscriber import Subscriber
from ingest.live.tick import Tick, Told

__all__ = [
    "OUT_CHUNK_SIZE",
    "Busy",
    "LimitSettings",
    "LiveSettings",
    "LiveStream",
    "NotPublishing",
    "Passage",
    "Publisher",
    "QueueLimits",
    "Registry",
    "SharedMessage",
    "SocketFigures",
    "Subscriber",
    "Tick",
    "Told",
]
