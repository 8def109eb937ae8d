"""How often something new may come of one address: a viewer, or a name or token that nobody has asked for of late."""

from ingest.addresses import unit_or_itself
from ingest.packager.settings import PackagerSettings
from ingest.rate_limit import TokenBucket


class Arrivals:
    def __init__(self, settings: PackagerSettings) -> None:
        self._settings = settings
        self._buckets: dict[str, TokenBucket] = {}
        """By what counts as one address."""

    def take(self, address: str, now: float) -> bool:
        """False: one too many. `now`: the loop's time."""
        settings, unit = self._settings, unit_or_itself(address)
        bucket = self._buckets.get(unit)
        if bucket is None:
            if len(self._buckets) >= settings.viewers:
                self._buckets.clear()
            bucket = self._buckets[unit] = TokenBucket(settings.new_viewers_per_s, settings.new_viewers, now)
        return bucket.take(now)
