"""What comes of an encoder that is being tried out with a key: a checklist that fills by itself.

A wrong key belongs to no stream, and an encoder seldom has the operator's address. So refusals are looked for in three
circles: those that name this key or its stream; those from the operator's own address; and those that a mistake in
the encoder's two fields would cause, from whatever address. The last two are called what they are: perhaps this one.

A streamer with a test link sees what its key and the own address were refused for, and nothing of others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from django.db.models import Q
from django.utils import timezone

from dashboard import zones
from dashboard.attempts.queries import refused_publishers
from dashboard.templatetags.ui import attempt_advice, end_advice, end_words, reason_words
from ingest.contracts import StreamSnapshot
from ingest.contracts.end_reasons import end_of
from ingest.contracts.figures import CHECK_NAMES
from ingest.live_store import get_livestore
from ingest.models import Attempt, Session, StatusEvent, StreamKey

BEFORE = timedelta(minutes=2)
"""Refusals so long before the checklist was opened are shown as well: the operator opened it because of them."""

STREAMERS_BEFORE = timedelta(minutes=15)
"""A streamer's page may have been opened at any time."""

MAX_ATTEMPTS = 6
MAX_ISSUES = 20
"""Of an ended test, that were opened."""

MEASURED_S = 10
"""So long after the first media, bitrates are means worth to be compared,"""
VERDICT_S = 20
"""and checks that need ten seconds and their warm-up have spoken."""

MISTAKES = (
    *("key_missing", "key_unknown", "key_other_app", "key_other_stream", "unknown_app", "app_disabled", "banned"),
    *("network_not_allowed", "tcp_reset", "protocol_error", "idle_timeout", "too_many_connections", "draining"),
)
"""Reasons that an encoder of whoever fills in its fields just now may be refused for."""

State = Literal["wait", "good", "warn", "bad"]
Whose = Literal["key", "address", "perhaps"]

KEYFRAMES_S = 4.0
"""Above it the interval between keyframes is too long (check gop_long)."""

STREAMERS_ADVICE = {
    "unknown_app": "Correct the server in the encoder: copy it from this page.",
    "instance_unknown": "Correct the server in the encoder: copy it from this page.",
    "key_missing": "Paste the key of this page into the encoder.",
    "key_unknown": "Copy the key of this page again, without blanks around it.",
    "key_other_app": "Correct the server in the encoder: copy it from this page.",
    "test_over": "Wait for a minute, then start again.",
    "over_limit": "Lower the encoder’s bitrate, wait, then start again.",
    "tcp_reset": "Check that the encoder is running, then its network.",
    "idle_timeout": "Check that the encoder is running, then its network.",
}
"""What the streamer can do; with other reasons only who runs the server can do something."""
ASK = "Send who gave you this link the time and the code below."

TITLES = {
    "connect": "Connected",
    "key": "Key recognised",
    "publish": "Publishing accepted",
    "video": "First video frame",
    "audio": "First audio",
    "keyframes": "Keyframe interval",
    "bitrate": "Bitrate",
    "verdict": "Verdict",
}
"""Of the checklist's lines, in their order."""


@dataclass(frozen=True, slots=True)
class Step:
    id: str
    state: State
    title: str
    words: str = ""


def step(name: str, state: State, words: str = "", title: str = "") -> Step:
    return Step(name, state, title or TITLES[name], words)


@dataclass(frozen=True, slots=True)
class Refusal:
    at: float
    """The latest, seconds since the epoch."""
    count: int
    whose: Whose
    address: str
    encoder: str
    words: str
    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class Progress:
    steps: list[Step]
    refusals: list[Refusal]
    session_id: str
    is_over: bool
    """The encoder's session has ended."""


def progress(key: StreamKey, *, since: datetime, operator: str) -> Progress:
    """What has come since then. `operator`: the address of who asks."""
    now = timezone.now()
    mine = Session.objects.filter(key=key, kind=Session.Kind.PUBLISH)
    session = mine.filter(Q(ended_at__isnull=True) | Q(started_at__gte=since)).order_by("-started_at").first()
    stream = key.stream
    named = Q(key=key) | Q(stream=stream) | Q(app=stream.application.name, name=stream.name)
    hit = named | Q(address=operator) | Q(reason__in=MISTAKES)
    refusals = _refusals(key, hit, since - BEFORE if session is None else session.started_at, operator)
    return _progress(key, session, refusals, now)


def streamer_progress(link: StreamKey, *, address: str) -> Progress:
    """What came of a link's latest test, and what who asks is refused for since. `address`: of who asks."""
    now = timezone.now()
    tests = Session.objects.filter(key=link, kind=Session.Kind.PUBLISH)
    session = tests.select_related("stream").order_by("-started_at").first()
    since = now - STREAMERS_BEFORE
    if session is not None:
        since = max(since, session.ended_at or session.started_at)
    refusals = [
        replace(each, advice=STREAMERS_ADVICE.get(each.reason, ASK))
        for each in _refusals(link, Q(key=link) | Q(address=address), since, address)
    ]
    return _progress(link, session, refusals, now)


def _progress(key: StreamKey, session: Session | None, refusals: list[Refusal], now: datetime) -> Progress:
    return Progress(
        steps=_steps(key, session, _snapshot(session), refusals, now),
        refusals=refusals,
        session_id=str(session.pk) if session else "",
        is_over=session is not None and session.ended_at is not None,
    )


def _snapshot(session: Session | None) -> StreamSnapshot | None:
    if session is None or session.ended_at is not None:
        return None
    view = get_livestore().read()
    wanted = str(session.pk)
    return next((each for each in (*view.key_tests, *view.streams) if each["session_id"] == wanted), None)


# --- Refusals ---


def _refusals(key: StreamKey, hit: Q, since: datetime, operator: str) -> list[Refusal]:
    found = refused_publishers(since).filter(hit)[: MAX_ATTEMPTS * 5]
    refusals = [_refusal(row, key, operator) for row in found]
    nearest: dict[Whose, int] = {"key": 0, "address": 1, "perhaps": 2}
    refusals.sort(key=lambda refusal: (nearest[refusal.whose], -refusal.at))
    return refusals[:MAX_ATTEMPTS]


def _refusal(row: Attempt, key: StreamKey, operator: str) -> Refusal:
    stream = key.stream
    names_it = row.key_id == key.pk or row.stream_id == stream.pk
    names_it = names_it or (row.app, row.name) == (stream.application.name, stream.name)
    return Refusal(
        at=(row.last_at or row.at).timestamp(),
        count=row.count,
        whose="key" if names_it else "address" if row.address == operator else "perhaps",
        address=row.address,
        encoder=row.encoder,
        words=row.description or reason_words(row.reason),
        reason=row.reason,
        advice=attempt_advice(row.reason) or end_advice(row.reason),
    )


# --- The checklist ---


def _steps(
    key: StreamKey,
    session: Session | None,
    snapshot: StreamSnapshot | None,
    refusals: Sequence[Refusal],
    now: datetime,
) -> list[Step]:
    if session is None:
        return _before(refusals)
    as_test = ", as a test" if session.is_test else ""
    return [
        step("connect", "good", f"From {session.address}, by {session.encoder or 'an unnamed encoder'}."),
        step("key", "good", f"It publishes {key.stream.path}{as_test}."),
        step("publish", "good", f"At {zones.clock(session.started_at)}."),
        *_media(key, session, snapshot, now),
    ]


def _before(refusals: Sequence[Refusal]) -> list[Step]:
    """Nobody publishes with the key: what is known is what was refused."""
    latest = next(iter(refusals), None)
    if latest is None or latest.whose == "perhaps":
        words = "No encoder has connected with this key yet."
        if latest is not None:
            words = f"A connection from {latest.address or 'an unknown address'} was refused: perhaps this encoder."
        head = [step("connect", "wait", words, "Connection"), step("key", "wait")]
    else:
        came = f"From {latest.address}, by {latest.encoder or 'an unnamed encoder'}."
        head = [step("connect", "good", came), step("key", "bad", f"{latest.words} {latest.advice}".strip(), "Refused")]
    return head + [step(name, "wait") for name in list(TITLES)[len(head) :]]


def _media(key: StreamKey, session: Session, snapshot: StreamSnapshot | None, now: datetime) -> list[Step]:
    media = dict(snapshot["media"]) if snapshot else {}
    video = media.get("video_codec") or session.video_codec
    audio = media.get("audio_codec") or session.audio_codec
    width, height = media.get("width") or session.width, media.get("height") or session.height
    lived_s = ((session.ended_at or now) - session.started_at).total_seconds()
    size = f"{video}, {width} × {height}." if width else f"{video}."
    late: State = "warn" if lived_s > MEASURED_S else "wait"
    return [
        _arrival("video", size if video else "", late if key.stream.expect_video else "wait"),
        _arrival("audio", f"{audio}." if audio else "", late if key.stream.expect_audio else "wait"),
        _keyframes(session, snapshot, lived_s),
        _bitrate(key, session, snapshot, lived_s),
        _verdict(session, snapshot, lived_s),
    ]


def _arrival(name: str, words: str, missing: State) -> Step:
    return step(name, "good", words) if words else step(name, missing, "Nothing received yet.")


def _keyframes(session: Session, snapshot: StreamSnapshot | None, lived_s: float) -> Step:
    """While it is on, the last interval; afterwards, the mean."""
    interval = snapshot["keyframe_interval"] if snapshot else None
    if session.ended_at is not None and session.keyframes > 1:
        interval = lived_s / session.keyframes
    if interval is None:
        return step("keyframes", "wait", "Known after the second keyframe.")
    if interval > KEYFRAMES_S:
        words = f"{interval:.1f} s (limit {KEYFRAMES_S:.0f} s). Set it to 2 s in the encoder."
        return step("keyframes", "warn", words)
    return step("keyframes", "good", f"{interval:.1f} s (limit {KEYFRAMES_S:.0f} s).")


def _bitrate(key: StreamKey, session: Session, snapshot: StreamSnapshot | None, lived_s: float) -> Step:
    if session.ended_at is not None and lived_s >= MEASURED_S:
        return step("bitrate", "good", f"{session.bytes_in * 8 / lived_s / 1000:,.0f} kbit/s on average.")
    if snapshot is None or snapshot["video_kbps"] is None or lived_s < MEASURED_S:
        return step("bitrate", "wait", f"Known after {MEASURED_S} s.")
    video, audio, target = snapshot["video_kbps"], snapshot["audio_kbps"] or 0.0, snapshot["target_kbps"]
    words = f"{video:,.0f} kbit/s video, {audio:,.0f} kbit/s audio."
    if key.max_kbps is not None and video + audio > key.max_kbps:
        return step("bitrate", "bad", f"{words} The key's limit is {key.max_kbps:,} kbit/s: lower the bitrate.")
    if target and video < 0.7 * target:
        return step("bitrate", "warn", f"{words} The target is {target:,} kbit/s: is the uplink fast enough?")
    return step("bitrate", "good", words + (f" The target is {target:,} kbit/s." if target else ""))


def _verdict(session: Session, snapshot: StreamSnapshot | None, lived_s: float) -> Step:
    if session.ended_at is not None:
        return _verdict_after(session, lived_s)
    if snapshot is None or lived_s < VERDICT_S:
        return step("verdict", "wait", f"Known {VERDICT_S} s after the start.")
    issues = snapshot["issues"]
    if not issues:
        return step("verdict", "good", "No check has found anything wrong.", "All is well")
    words = " ".join(_sentences(issue["title"], issue["advice"]) for issue in issues)
    bad = any(issue["level"] == "bad" for issue in issues)
    return step("verdict", "bad" if bad else "warn", words, f"{len(issues)} open issue{'s' if len(issues) > 1 else ''}")


def _sentences(title: str, advice: str) -> str:
    return f"{title.rstrip('.')}. {advice}"


def _verdict_after(session: Session, lived_s: float) -> Step:
    """It stays: whoever starts an encoder looks at the page later."""
    why = session.end_description or f"{end_words(session.end_reason)}."
    if lived_s < VERDICT_S:
        return step("verdict", "warn", f"{why} Too short for a verdict: stream for {VERDICT_S} s.", "Ended")
    opened = StatusEvent.objects.filter(session=session, kind="health.opened").order_by("sequence")[:MAX_ISSUES]
    found = {event.code: str(event.detail.get("advice", "")) for event in opened}
    if found:
        words = " ".join(_sentences(CHECK_NAMES.get(code, code), advice) for code, advice in found.items())
        return step("verdict", "warn", words, f"Ended, with {len(found)} issue{'s' if len(found) > 1 else ''} found")
    if session.end_reason == "tcp_reset":  # So ends, too, who stops OBS.
        why = f"{why} If nobody stopped the encoder, check its network."
    elif not end_of(session.end_reason).is_expected:
        return step("verdict", "warn", f"{why} {end_advice(session.end_reason)}", "Ended")
    return step("verdict", "good", f"No check found anything wrong. {why}", "It worked")
