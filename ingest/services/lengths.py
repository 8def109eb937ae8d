"""How long a stream is that somebody may play: what getStreamLength answers."""

from datetime import datetime

from ingest.models import Lease
from ingest.services import playable


def length_s(*, app: str, name: str, credential: str, now: datetime, shared_now: datetime | None = None) -> float:
    """Seconds of the recording that would be played; 0 for what is live, or was never recorded.

    `shared_now`: by the clock that leases go by (ingest.sharedclock); None: as `now`. Raises Refused as `play` of it
    would be.
    """
    found = playable.check(app=app, name=name, credential=credential, now=now)
    if found.recording is None:
        return 0.0
    live = Lease.objects.filter(stream=found.stream, session__isnull=False, expires_at__gt=shared_now or now)
    if not found.is_recording_alone and live.exists():
        return 0.0
    return found.recording["duration_ms"] / 1000
