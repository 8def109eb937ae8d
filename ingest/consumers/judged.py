"""What a tick says of its sessions, compared with the tick before, as their events: issues, and what is sent."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ingest.consumers import recorder
from ingest.consumers.active import ActiveSession, of_snapshot
from ingest.contracts import Issue, MediaInfo, StreamSnapshot
from ingest.live.health import CHECK_NAMES

logger = logging.getLogger(__name__)

MAX_CHANGES: Final = 50
"""Of what a session sends that are told: a peer may cause one each second."""


def tell(streams: Iterable[StreamSnapshot]) -> None:
    """Once a second. What was told last is kept with the session; when it ends, so do its issues (`recorder.end`)."""
    for snapshot in streams:
        session = of_snapshot(snapshot)
        if session is not None:
            issues, media = snapshot["issues"], snapshot["media"]
            if issues or session.issues:
                _tell_issues(session, issues)
            if media is not session.media:
                _tell_config(session, media)


def _tell_issues(session: ActiveSession, issues: Iterable[Issue]) -> None:
    """Issues that opened, changed their level or cleared."""
    before, session.issues = session.issues, {issue["check"]: issue for issue in issues}
    for check, issue in session.issues.items():
        if check not in before or before[check]["level"] != issue["level"]:
            recorder.opened(session, issue)
    for check, issue in before.items():
        if check not in session.issues:
            recorder.cleared(session, issue)


def log_node(node: str, before: Iterable[Issue], now: Iterable[Issue]) -> None:
    """A node's own issues go into the log when they open, change their level or clear; pages show its figures."""
    former = {issue["check"]: issue for issue in before}
    found = {issue["check"]: issue for issue in now}
    for check, issue in found.items():
        if check not in former or former[check]["level"] != issue["level"]:
            level = logging.ERROR if issue["level"] == "bad" else logging.WARNING
            logger.log(level, "Node %s: %s %s", node, issue["title"], issue["advice"], extra={"check": check})
    for check in former.keys() - found.keys():
        logger.info("Node %s: cleared: %s.", node, CHECK_NAMES.get(check, check), extra={"check": check})


# --- What is sent ---


def _size(media: MediaInfo) -> str | None:
    return f"{media['width']}×{media['height']}" if "width" in media and "height" in media else None


def _named(field: str, unit: str = "") -> Callable[[MediaInfo], str | None]:
    def value(media: Mapping[str, Any]) -> str | None:
        found = media.get(field)
        return None if found is None else f"{found:g}{unit}" if isinstance(found, float) else f"{found}{unit}"

    return value


CONFIG: Final[tuple[tuple[str, Callable[[MediaInfo], str | None]], ...]] = (
    ("Video codec", _named("video_codec")),
    ("Resolution", _size),
    ("Frame rate", _named("frame_rate")),
    ("Bit depth", _named("bit_depth")),
    ("Audio codec", _named("audio_codec")),
    ("Sample rate", _named("sample_rate", " Hz")),
    ("Channels", _named("channels")),
)


def _tell_config(session: ActiveSession, media: MediaInfo) -> None:
    """What is known of the media and was another before. What becomes known changes nothing."""
    found = {name: value for name, read in CONFIG if (value := read(media)) is not None}
    changed = [
        {"what": name, "before": session.config[name], "after": value}
        for name, value in found.items()
        if session.config.get(name, value) != value
    ]
    session.media, session.config = media, session.config | found
    if changed and session.config_changes < MAX_CHANGES:
        session.config_changes += 1
        words = [f"{each['what']} {each['after']}, before {each['before']}" for each in changed]
        recorder.record(
            session,
            recorder.happening(
                "config.changed",
                level="status",
                code="codec_change",
                description=f"The encoder sends something else: {'; '.join(words)}.",
                detail={"changed": changed},
            ),
        )
