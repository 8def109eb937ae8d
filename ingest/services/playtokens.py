"""Signed tokens that let their bearer play one stream for a while. Nothing of them is stored."""

from datetime import datetime, timedelta
from typing import Literal

from django.core import signing
from django.utils import timezone

SALT = "ingest.play"
LIFETIME = timedelta(hours=12)


def issue(*, stream: int, lifetime: timedelta = LIFETIME, now: datetime | None = None) -> str:
    """A token for the stream's row id. It has no characters that a URL's query would need to escape."""
    expires = (now or timezone.now()) + lifetime
    return signing.dumps({"s": stream, "x": int(expires.timestamp())}, salt=SALT)


def verify(*, token: str, stream: int, now: datetime | None = None) -> Literal["valid", "invalid", "expired"]:
    try:
        payload = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        return "invalid"
    if payload["s"] != stream:
        return "invalid"
    return "valid" if payload["x"] > (now or timezone.now()).timestamp() else "expired"
