"""How live streams are kept and judged."""

from dataclasses import dataclass, field

from ingest.live.dropping import QueueLimits
from ingest.live.health import CHECKS, WARM_UP_S, Check, Figures
from ingest.live.limit import LimitSettings
from ingest.live.stream_log import LogLimits


@dataclass(frozen=True, slots=True)
class LiveSettings:
    log: LogLimits = field(default_factory=LogLimits)
    """What is kept of each stream for its late players,"""
    caches_bytes: int = 512 * 1024 * 1024
    """and of all streams of a node together."""
    queue: QueueLimits = field(default_factory=QueueLimits)
    absence_s: float = 60.0
    """How long a stream without publisher and players is kept, and the longest gap put into the players' timeline."""
    checks: tuple[Check[Figures], ...] = CHECKS
    warm_up_s: float = WARM_UP_S
    """For so long a new session's health is not judged."""
    limit: LimitSettings = field(default_factory=LimitSettings)
    """How a key's bitrate limit is measured and held."""
