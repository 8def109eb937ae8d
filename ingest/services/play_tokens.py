"""Signed tokens that let their bearer play one stream or recording, look at one, or download a recording, for a while.
Nothing of them is stored: those of a stream are made invalid all at once, by a new generation of its links.

None has characters that a URL's query would need to escape.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from django.core import signing
from django.utils import timezone

Verdict = Literal["valid", "invalid", "expired"]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a token is for: one row, whose id is in it under `field`."""

    salt: str
    field: str
    lifetime: timedelta

    def issue(
        self, pk: int, *, generation: int = 1, lifetime: timedelta | None = None, now: datetime | None = None
    ) -> str:
        expires = (now or timezone.now()) + (self.lifetime if lifetime is None else lifetime)
        payload = {self.field: pk, "x": int(expires.timestamp())} | ({"g": generation} if generation > 1 else {})
        return signing.dumps(payload, salt=self.salt)

    def read(self, token: str, *, now: datetime | None = None) -> tuple[int, Verdict]:
        """The id of the row that it is for; 0 for what is no token of this kind."""
        payload = self._payload(token)
        return (payload[self.field], _age(payload, now)) if payload else (0, "invalid")

    def verify(self, token: str, pk: int, *, generation: int = 1, now: datetime | None = None) -> Verdict:
        """`generation`: of the row's links now. A token that says none is of the first."""
        payload = self._payload(token)
        is_of_it = payload.get(self.field) == pk and payload.get("g", 1) == generation
        return _age(payload, now) if is_of_it else "invalid"

    def _payload(self, token: str) -> dict[str, Any]:
        """Empty for what is no token of this kind."""
        try:
            payload: dict[str, Any] = signing.loads(token, salt=self.salt)
        except signing.BadSignature:
            return {}
        return payload


def _age(payload: dict[str, Any], now: datetime | None) -> Verdict:
    return "valid" if payload["x"] > (now or timezone.now()).timestamp() else "expired"


PLAY: Final = Kind("ingest.play", "s", timedelta(hours=12))
"""Plays a stream, and its recordings."""

RECORDING: Final = Kind("ingest.recording", "r", timedelta(hours=12))
"""Plays that recording and nothing else."""

DOWNLOAD: Final = Kind("ingest.download", "r", timedelta(seconds=60))
"""Of a recording; it plays nothing. Its time is for the request to come: what has begun goes on."""

LOOK: Final = Kind("ingest.recording_look", "r", timedelta(hours=1))
"""An operator's look at a recording, whoever else may play it: for as many requests as a browser makes in it. One that
goes on for longer asks for another."""

PREVIEW: Final = Kind("ingest.preview", "p", timedelta(seconds=60))
"""An operator's look at a live stream, whoever else may play it. One that breaks asks for another."""
