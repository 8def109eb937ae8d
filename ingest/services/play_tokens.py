"""Signed tokens that let their bearer play one stream or recording, look at a stream, or download a recording, for a
while. Nothing of them is stored.

None has characters that a URL's query would need to escape.
"""

from datetime import datetime, timedelta
from typing import Any, Final, Literal

from django.core import signing
from django.utils import timezone

Verdict = Literal["valid", "invalid", "expired"]

SALT: Final = "ingest.play"
LIFETIME: Final = timedelta(hours=12)

RECORDING_SALT: Final = "ingest.recording"

DOWNLOAD_SALT: Final = "ingest.download"
DOWNLOAD_LIFETIME: Final = timedelta(seconds=60)
"""For the request to come: what has begun goes on."""

PREVIEW_SALT: Final = "ingest.preview"
PREVIEW_LIFETIME: Final = timedelta(seconds=60)
"""The same: a preview that breaks asks for another."""


STREAMS: Final = {SALT: "s", PREVIEW_SALT: "p"}
"""Of the tokens for what is live: where each has its stream's row id."""


def issue(*, stream: int, lifetime: timedelta = LIFETIME, now: datetime | None = None) -> str:
    """A token for the stream's row id."""
    return _sign({"s": stream}, SALT, lifetime, now)


def verify(*, token: str, stream: int, now: datetime | None = None) -> Verdict:
    payload = _payload(token, SALT)
    return _verdict(payload, payload is not None and payload["s"] == stream, now)


def issue_recording(*, recording: int, lifetime: timedelta = LIFETIME, now: datetime | None = None) -> str:
    """A token for the recording's row id: it plays that one and nothing else."""
    return _sign({"r": recording}, RECORDING_SALT, lifetime, now)


def recording_of(*, token: str, now: datetime | None = None) -> tuple[int, Verdict]:
    """The row id of the recording that the token plays; 0 for what is no such token."""
    payload = _payload(token, RECORDING_SALT)
    return (payload["r"] if payload is not None else 0), _verdict(payload, True, now)


def stream_of(*, token: str, now: datetime | None = None) -> tuple[int, Verdict]:
    """The row id of the stream that the token plays, or lets look at; 0 for what is no such token."""
    for salt, name in STREAMS.items():
        payload = _payload(token, salt)
        if payload is not None:
            return payload[name], _verdict(payload, True, now)
    return 0, "invalid"


def issue_download(*, recording: int, lifetime: timedelta = DOWNLOAD_LIFETIME, now: datetime | None = None) -> str:
    """A token for the recording's row id. It plays nothing."""
    return _sign({"r": recording}, DOWNLOAD_SALT, lifetime, now)


def download(*, token: str, now: datetime | None = None) -> tuple[int, Verdict]:
    """The row id of the recording that the token is for; 0 for what is no such token."""
    payload = _payload(token, DOWNLOAD_SALT)
    return (payload["r"] if payload is not None else 0), _verdict(payload, True, now)


def issue_preview(*, stream: int, lifetime: timedelta = PREVIEW_LIFETIME, now: datetime | None = None) -> str:
    """A token for an operator's look at the live stream (its row id), whoever else may play it."""
    return _sign({"p": stream}, PREVIEW_SALT, lifetime, now)


def preview(*, token: str, now: datetime | None = None) -> tuple[int, Verdict]:
    """The row id of the stream that the token is for; 0 for what is no such token."""
    payload = _payload(token, PREVIEW_SALT)
    return (payload["p"] if payload is not None else 0), _verdict(payload, True, now)


def _sign(payload: dict[str, int], salt: str, lifetime: timedelta, now: datetime | None) -> str:
    expires = (now or timezone.now()) + lifetime
    return signing.dumps({**payload, "x": int(expires.timestamp())}, salt=salt)


def _payload(token: str, salt: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = signing.loads(token, salt=salt)
    except signing.BadSignature:
        return None
    return found


def _verdict(payload: dict[str, Any] | None, is_meant: bool, now: datetime | None) -> Verdict:
    if payload is None or not is_meant:
        return "invalid"
    return "valid" if payload["x"] > (now or timezone.now()).timestamp() else "expired"
