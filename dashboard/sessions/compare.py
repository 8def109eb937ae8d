"""Two sessions side by side: their facts, and where they differ."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.urls import reverse

from dashboard.sessions import measured
from dashboard.sessions.search import sessions
from dashboard.templatetags.figures import figure
from dashboard.templatetags.ui import ended_words, lasted
from ingest.models import Session

DASH = "–"
AT_ITS_END = "known at its end"
"""What a session that is on air does not tell yet."""
APART = 0.1
"""Figures that are further apart than this share of the larger differ."""


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    a: str
    b: str
    differs: bool


@dataclass(frozen=True, slots=True)
class Pair:
    a: Session | None
    b: Session | None

    @classmethod
    def of(cls, a: str, b: str) -> "Pair":
        return cls(_session(a), _session(b))

    @property
    def span_s(self) -> int:
        """How long the longer lasted."""
        return max((int(_seconds(one)) + 1 for one in (self.a, self.b) if one), default=0)

    @property
    def boot(self) -> dict[str, Any]:
        """What the page's script begins with. Times in seconds, those of `begins` since the epoch."""
        both = [session for session in (self.a, self.b) if session is not None]
        return {
            "span": self.span_s,
            "data": [reverse("dashboard:session-data", args=[session.pk]) for session in both],
            "open": [session.ended_at is None for session in both],
            "begins": [int(session.started_at.timestamp()) for session in both],
        }

    @property
    def facts(self) -> list[Fact]:
        if self.a is None or self.b is None:
            return []
        texts = [Fact(name, a := words(self.a), b := words(self.b), a != b) for name, words in TEXTS]
        return texts + [_figures(name, value, self.a, self.b) for name, value in FIGURES]


def _session(text: str) -> Session | None:
    try:
        return sessions().filter(pk=uuid.UUID(text)).first()
    except ValueError:
        return None


def _seconds(session: Session) -> float:
    return max(0.0, (measured.ended(session) - session.started_at).total_seconds())


def _summary(session: Session, part: str, name: str) -> Any:
    found = session.summary.get(part)
    return found.get(name) if isinstance(found, dict) else None


def _media(session: Session) -> str:
    picture = f"{session.width} × {session.height}" if session.width else ""
    words = [session.video_codec, _summary(session, "media", "profile"), picture]
    return " ".join(str(word) for word in words if word) or DASH


def _claimed_kbps(value: Any) -> str:
    return f"{figure(value)}\u00a0kbit/s" if isinstance(value, int | float) and value > 0 else DASH


TEXTS: tuple[tuple[str, Callable[[Session], str]], ...] = (
    ("Stream", lambda row: f"{row.app}/{row.name}"),
    ("Kind", lambda row: "Published" if row.kind == Session.Kind.PUBLISH else "Played"),
    ("End", lambda row: ended_words(row) if row.ended_at else "On air"),
    ("Encoder", lambda row: row.encoder or DASH),
    ("Address", lambda row: row.address),
    ("Node", lambda row: row.node.name if row.node else DASH),
    ("Key", lambda row: str(row.key or row.login or DASH)),
    ("Video", _media),
    ("Audio", lambda row: row.audio_codec or DASH),
    ("Claimed frame rate", lambda row: str(_summary(row, "metadata", "framerate") or DASH)),
    ("Claimed video bitrate", lambda row: _claimed_kbps(_summary(row, "metadata", "videodatarate"))),
)
FIGURES: tuple[tuple[str, Callable[[Session], tuple[float | None, str]]], ...] = (
    ("Lasted", lambda row: (_seconds(row), lasted(row.started_at, measured.ended(row)))),
    (
        "Data",
        lambda row: (
            (None, AT_ITS_END)
            if row.ended_at is None
            else (None, DASH)
            if row.is_uncounted
            else ((size := row.bytes_in or row.bytes_out), filesizeformat(size))
        ),
    ),
    (
        "Mean bitrate, all that was sent",
        lambda row: _rate(_bytes(row) * 8 / 1000, row, "kbit/s", 0),
    ),
    ("Frames a second", lambda row: _rate(row.video_frames, row, "", 1)),
    ("Keyframe every", lambda row: _every(row)),
)


def _bytes(session: Session) -> int:
    return session.bytes_in or session.bytes_out


def _rate(amount: float, session: Session, unit: str, decimals: int) -> tuple[float | None, str]:
    seconds = _seconds(session)
    if session.ended_at is None:
        return None, AT_ITS_END
    if not amount or seconds < 1:
        return None, DASH
    return amount / seconds, f"{figure(amount / seconds, decimals)}\u00a0{unit}".strip()


def _every(session: Session) -> tuple[float | None, str]:
    if session.ended_at is None:
        return None, AT_ITS_END
    if not session.keyframes:
        return None, DASH
    return _seconds(session) / session.keyframes, f"{_seconds(session) / session.keyframes:.1f}\u00a0s"


def _figures(name: str, value: Callable[[Session], tuple[float | None, str]], a: Session, b: Session) -> Fact:
    (one, one_text), (other, other_text) = value(a), value(b)
    if AT_ITS_END in (one_text, other_text):
        return Fact(name, one_text, other_text, False)
    if one is None or other is None:
        return Fact(name, one_text, other_text, (one is None) != (other is None))
    return Fact(name, one_text, other_text, abs(one - other) > APART * max(abs(one), abs(other)))
