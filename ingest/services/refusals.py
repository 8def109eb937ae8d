"""Why a connect, publish or play is refused: one table of reasons, each with what the client and the operator are told.

OBS gives up on NetConnection.Connect.InvalidApp and NetStream.Publish.Denied, Rejected and BadName; a refusal that may
pass (the database) has a code that it doesn't know as final. No description names a stream, a key or a file.
"""

from dataclasses import dataclass, field
from typing import Literal

Action = Literal["connect", "publish", "play"]

CODES: dict[Action, str] = {
    "connect": "NetConnection.Connect.Rejected",
    "publish": "NetStream.Publish.Denied",
    "play": "NetStream.Play.Failed",
}
"""The code of a refusal whose reason has none of its own for the action."""

TRANSIENT: dict[Action, str] = {
    "connect": "NetConnection.Connect.Failed",
    "publish": "NetStream.Publish.Failed",
    "play": "NetStream.Play.Failed",
}

NOT_FOUND: dict[Action, str] = {"play": "NetStream.Play.StreamNotFound"}


@dataclass(frozen=True, slots=True)
class Reason:
    """`description` may have fields, which `refuse` fills in."""

    description: str
    codes: dict[Action, str] = field(default_factory=dict)


REASONS: dict[str, Reason] = {
    "unknown_app": Reason("There is no such application.", {"connect": "NetConnection.Connect.InvalidApp"}),
    "instance_unknown": Reason(
        "There is no such instance of the application.", {"connect": "NetConnection.Connect.InvalidApp"}
    ),
    "too_many_instances": Reason("The application has as many instances as it may."),
    "app_disabled": Reason("The application is disabled."),
    "key_missing": Reason("A stream key is needed: put it where the stream's name goes, or add ?key=... to the name."),
    "key_unknown": Reason("The stream key is not known."),
    "key_disabled": Reason("The stream key is disabled."),
    "key_revoked": Reason("The stream key was revoked."),
    "key_expired": Reason("The stream key expired on {when:%d %b %Y, %H:%M} UTC."),
    "key_other_app": Reason("The stream key belongs to another application."),
    "key_other_stream": Reason("The stream key belongs to another stream."),
    "login_wrong": Reason("The encoder's user or password is wrong."),
    "login_challenge": Reason(
        "The encoder answered a challenge that was not given to it: it comes from another address, or makes one up."
    ),
    "login_method": Reason("The encoder logs in by a method that is not known here: adobe and llnw are."),
    "login_disabled": Reason("The encoder's log-in is disabled."),
    "login_revoked": Reason("The encoder's log-in was revoked."),
    "login_expired": Reason("The encoder's log-in expired on {when:%d %b %Y, %H:%M} UTC."),
    "login_other_stream": Reason("The encoder's log-in belongs to another stream. Its own one may have an empty name."),
    "network_not_allowed": Reason("The stream key may not be used from the address {address}."),
    "name_invalid": Reason("The name can't be a stream's name."),
    "stream_disabled": Reason("The stream is disabled.", NOT_FOUND),
    "stream_unknown": Reason("There is no such stream.", NOT_FOUND),
    "too_many_awaited": Reason(
        "Players wait for as many streams on this node as may be waited for. Try again when the stream is live.",
        TRANSIENT,
    ),
    "elsewhere": Reason("The stream is published on another node of this server. Play it from {where}.", NOT_FOUND),
    "recording_unknown": Reason("There is no recording of this stream.", NOT_FOUND),
    "busy": Reason("Busy: another encoder is live on this stream.", {"publish": "NetStream.Publish.BadName"}),
    "play_not_allowed": Reason("The application's streams can't be played."),
    "token_missing": Reason("A play token is needed: add ?token=... to the name."),
    "token_invalid": Reason("The play token is not valid for this stream."),
    "token_expired": Reason("The play token has expired."),
    "download_expired": Reason("The download was not begun in time. Ask for it again where its address came from."),
    "download_unknown": Reason("The recording is gone, or the token is for another one.", NOT_FOUND),
    "over_limit": Reason(
        "The stream was ended, since its bitrate stayed over the key's limit of {kbps} kbit/s. With less, it can be "
        "published again from {when:%H:%M:%S} UTC on."
    ),
    "test_over": Reason(
        "The test has ended: one with a test-only key lasts {minutes} minutes at most. Another can begin in a minute."
    ),
    "banned": Reason(
        "Too many wrong keys, tokens or passwords came from this address. It is heard again from "
        "{when:%d %b %Y, %H:%M:%S} UTC on, or once an operator lifts the ban."
    ),
    "database_slow": Reason("The server could not check this in time. Try again in a few seconds.", TRANSIENT),
    "database_error": Reason("The server can't check this now. Try again in a few seconds.", TRANSIENT),
    "callback_refused": Reason("The service that decides who may do this refused it: {why}."),
    "callback_failed": Reason(
        "The service that decides who may do this gave no usable answer. Try again in a few seconds.", TRANSIENT
    ),
    "draining": Reason("The server is being drained: connect again in a moment, or to another server.", TRANSIENT),
    "too_many_connections": Reason("There were as many connections as there may be, in all or from this address."),
    "internal_error": Reason("The server failed to answer this. Its log says why.", TRANSIENT),
}


UNCHECKED = {"unknown_app", "banned", "database_slow", "database_error", "internal_error"}
"""Reasons that leave open whether there is such an application: its name may be anything."""


def describe(reason: str, **values: object) -> str:
    return REASONS[reason].description.format(**values)


class Refused(Exception):  # noqa: N818 - an answer, not an error.
    """The answer is no. `reason` is a key of REASONS; `stream` and `key` are row ids where they are known."""

    def __init__(self, action: Action, reason: str, *, stream: int | None, key: int | None, **values: object) -> None:
        entry = REASONS[reason]
        super().__init__(reason)
        self.action = action
        self.reason = reason
        self.code = entry.codes.get(action) or CODES[action]
        self.description = describe(reason, **values)
        self.stream = stream
        self.key = key

    @property
    def passes(self) -> bool:
        """Whether the same may be accepted in a moment."""
        return REASONS[self.reason].codes is TRANSIENT

    @property
    def app_is_known(self) -> bool:
        return self.reason not in UNCHECKED
