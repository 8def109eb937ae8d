"""A session as a list shows it."""

from dataclasses import dataclass

from django.utils import timezone

from dashboard.streams import Now
from dashboard.templatetags.ui import HEALTH_WORDS, ended_words
from ingest.models import Session

LOOKS = {"good": "good", "warning": "warn", "bad": "bad", "none": "none"}
WANTED = ("client_unpublish", "completed", "kicked", "replaced", "node_shutdown", "test_over")
"""Ends that somebody meant: the others stand up."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """With its state in words, and its figures: `size_bytes` of media, `kbps` on the mean (of a live one: now)."""

    session: Session
    look: str
    words: str
    size_bytes: int | None
    kbps: float | None

    @classmethod
    def of(cls, session: Session, now: Now) -> "SessionRow":
        is_publish = session.kind == Session.Kind.PUBLISH
        if session.ended_at is None:
            snapshot = now.by_id.get(session.stream_id or 0)
            own = snapshot if snapshot and is_publish and snapshot["session_id"] == str(session.pk) else None
            health = own["health"] if own else "none"
            words = (f"Live, {HEALTH_WORDS[health].lower()}" if own else "Live") if is_publish else "Playing"
            kbps = (own["video_kbps"] or 0) + (own["audio_kbps"] or 0) if own else None
            return cls(session, LOOKS[health] if is_publish else "good", words, None, kbps)
        size = session.total("bytes_in" if is_publish else "bytes_out")
        seconds = ((session.ended_at or timezone.now()) - session.started_at).total_seconds()
        look = "plain" if session.end_reason in WANTED else "bad"
        kbps = size * 8 / 1000 / seconds if size and seconds >= 1 else None
        return cls(session, look, ended_words(session), size, kbps)
