"""What a connection's application is asked: publish and play as messages, with the secrets set apart from the names."""

from dataclasses import dataclass, field
from typing import Literal

from ingest.contracts import PlayEvent, PublishEvent
from ingest.rtmp import events
from ingest.server import credentials
from ingest.server.scope import Caller

Kind = Literal["connect", "publish", "play"]


@dataclass(frozen=True, slots=True)
class Request:
    """What the application was asked and has not answered yet."""

    kind: Kind
    request_id: int
    stream_id: int
    credential: str = field(repr=False)
    deadline: float
    play: events.PlayRequested | None = None
    """What exactly is to be played."""
    forbidden: bool = False
    """What it was to take the place of (play2) was kicked meanwhile."""


PUBLISH_TYPES: dict[str, Literal["live", "record", "append"]] = {"live": "live", "record": "record", "append": "append"}
"""Anything else is taken as live."""


def publish_event(event: events.PublishRequested, caller: Caller) -> PublishEvent:
    found = credentials.split_publish(event.name, caller.credential)
    return {
        "type": "rtmp.publish",
        "request_id": event.request_id,
        "stream_id": event.stream_id,
        "name": found.name,
        "credential": found.credential,
        "credential_is_name": found.credential_is_name,
        "query": found.query,
        "publish_type": PUBLISH_TYPES.get(event.publish_type, "live"),
    }


def play_event(event: events.PlayRequested, caller: Caller) -> PlayEvent:
    found = credentials.split_play(event.name, caller.credential)
    return {
        "type": "rtmp.play",
        "request_id": event.request_id,
        "stream_id": event.stream_id,
        "name": found.name,
        "credential": found.credential,
        "query": found.query,
        "start": event.start,
        "duration": event.duration,
        "reset": event.reset,
        "transition": event.transition,
    }
