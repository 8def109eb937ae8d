"""Live streams in memory: fan-out, caches, players' queues, meters and health. No I/O and no clock: time is passed in.

Times named `now` are monotonic seconds, those named `wall` seconds since the Unix epoch.
"""

from ingest.live.counters import Publisher, SocketFigures
from ingest.live.health.measures import LimitSettings
from ingest.live.message import OUT_CHUNK_SIZE, SharedMessage
from ingest.live.player_queue import QueueLimits
from ingest.live.publication import LiveSettings
from ingest.live.snapshot import Tick, TickReport
from ingest.live.stream import Busy, LiveStream, NotPublishing, Registry
from ingest.live.subscriber import Subscriber
from ingest.live.timeline_shift import TimelineShift

__all__ = [
    "OUT_CHUNK_SIZE",
    "Busy",
    "LimitSettings",
    "LiveSettings",
    "LiveStream",
    "NotPublishing",
    "Publisher",
    "QueueLimits",
    "Registry",
    "SharedMessage",
    "SocketFigures",
    "Subscriber",
    "Tick",
    "TickReport",
    "TimelineShift",
]
