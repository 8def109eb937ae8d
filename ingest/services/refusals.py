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
    """`description` may have fields, which `refuse` fills in. `advice`: the operator's action; "": none is needed.
    `words`: what operators call it, where its code doesn't say that.
    """

    description: str
    codes: dict[Action, str] = field(default_factory=dict)
    advice: str = ""
    words: str = ""


REASONS: dict[str, Reason] = {
    "unknown_app": Reason(
        "There is no such application.",
        {"connect": "NetConnection.Connect.InvalidApp"},
        advice="Correct the application in the encoder's server address, or create it.",
        words="Unknown application",
    ),
    "instance_unknown": Reason(
        "There is no such instance of the application.",
        {"connect": "NetConnection.Connect.InvalidApp"},
        advice="Correct the part after the application in the server address, or create a stream of that name.",
        words="Unknown instance",
    ),
    "too_many_instances": Reason(
        "The application has reached its limit of instances.",
        advice="Allow the application more instances, or find out who asks for so many.",
    ),
    "app_disabled": Reason(
        "The application is disabled.",
        advice="Enable the application, if it is to be used again.",
        words="Application disabled",
    ),
    "key_missing": Reason(
        "A stream key is needed: put it where the stream's name goes, or add ?key=... to the name.",
        advice="Put the stream key into the encoder.",
        words="No stream key",
    ),
    "key_unknown": Reason(
        "The stream key is not known.", advice="Paste the key again; rotate it if it is lost.", words="Wrong key"
    ),
    "key_disabled": Reason("The stream key is disabled.", advice="Enable the key, or give out another."),
    "key_revoked": Reason("The stream key was revoked.", advice="Give out another key."),
    "key_expired": Reason(
        "The stream key expired on {when:%d %b %Y, %H:%M} UTC.", advice="Make a new key, or move its expiry."
    ),
    "key_other_app": Reason(
        "The stream key belongs to another application.",
        advice="Correct the application in the encoder's server address.",
        words="Key of another application",
    ),
    "key_other_stream": Reason(
        "The stream key belongs to another stream.",
        advice="Correct the stream's name, or use its own key.",
        words="Key of another stream",
    ),
    "login_wrong": Reason(
        "The encoder's user or password is wrong.",
        advice="Correct the user and the password in the encoder; they are set under Settings, Encoder log-ins.",
        words="Wrong user or password",
    ),
    "login_challenge": Reason(
        "The encoder answered a challenge that was not given to it: it comes from another address, or makes one up.",
        advice="Nothing, unless it goes on: then the encoder's address changes with each connection.",
        words="Log-in from another address",
    ),
    "login_method": Reason(
        "The encoder logs in by a method that is not known here: adobe and llnw are.",
        advice="Use an encoder that logs in by authmod=adobe or llnw, or a stream key.",
        words="Unknown log-in method",
    ),
    "login_disabled": Reason(
        "The encoder's log-in is disabled.", advice="Enable the log-in, or give out another.", words="Log-in disabled"
    ),
    "login_revoked": Reason(
        "The encoder's log-in was revoked.", advice="Give out another log-in.", words="Log-in revoked"
    ),
    "login_expired": Reason(
        "The encoder's log-in expired on {when:%d %b %Y, %H:%M} UTC.",
        advice="Make a new log-in, or move its expiry.",
        words="Log-in expired",
    ),
    "login_other_stream": Reason(
        "The encoder's log-in belongs to another stream. Its own one may have an empty name.",
        advice="Correct the stream's name in the encoder, or leave it empty.",
        words="Log-in of another stream",
    ),
    "pull_refused": Reason(
        "What permits to publish as a pull has expired, or is of another stream.",
        advice="Nothing, unless it goes on: then the clocks of the nodes differ.",
        words="Pull not permitted",
    ),
    "network_not_allowed": Reason(
        "The stream key may not be used from the address {address}.",
        advice="Add the address to the key's networks, if it is the right one.",
        words="Address not allowed",
    ),
    "name_invalid": Reason("This can't be the name of a stream.", words="Invalid name"),
    "stream_disabled": Reason(
        "The stream is disabled.", NOT_FOUND, advice="Enable the stream, if it is to be used again."
    ),
    "stream_unknown": Reason(
        "There is no such stream.", NOT_FOUND, advice="Correct the stream's name in the player.", words="Unknown stream"
    ),
    "too_many_awaited": Reason(
        "Players of this node already wait for as many streams as it allows. Try again when the stream is live.",
        TRANSIENT,
        advice="Find out who asks for so many names; let the application be published to with keys only.",
        words="Too many streams awaited",
    ),
    "elsewhere": Reason(
        "The stream is published on another node of this server. Play it from {where}.",
        NOT_FOUND,
        advice="Connect the player to the node that is named, or the encoder to the players' node.",
        words="Live on another node",
    ),
    "edge_only": Reason(
        "This server takes players only. Publish to one that takes encoders.",
        advice="Put the address of an origin node into the encoder, or take RTMPWEB_ROLE=edge from this one.",
        words="Publishing to an edge",
    ),
    "relay_unknown": Reason(
        "This node does not know the token: its RTMPWEB_SECRET_KEY is another one, or the address leads to another "
        "node than was meant.",
        advice="Give all nodes the same RTMPWEB_SECRET_KEY, and each a RTMPWEB_NODE_URL that leads to itself alone.",
        words="Relay with a token of another node",
    ),
    "relay_loop": Reason(
        "The stream would come back to the node {node}, which asked for it.",
        advice="Nothing: the node is asked that has the stream. RTMPWEB_RELAY_VIA of the nodes makes a circle.",
        words="Relay in a circle",
    ),
    "relay_too_deep": Reason(
        "The stream would pass more than {most} nodes.",
        advice="Nothing: the node is asked that has the stream. Shorten the chain that RTMPWEB_RELAY_VIA makes.",
        words="Relay chain too long",
    ),
    "recording_unknown": Reason("There is no recording of this stream.", NOT_FOUND, words="No such recording"),
    "busy": Reason(
        "Busy: another encoder is live on this stream.",
        {"publish": "NetStream.Publish.BadName"},
        advice="Stop the other encoder, or let a newer encoder replace it.",
    ),
    "play_not_allowed": Reason(
        "Nobody may play this: its play policy says so.",
        advice="Change who may watch on the stream's page, or the application's play policy.",
    ),
    "token_missing": Reason(
        "A play token is needed: add ?token=... to the name.",
        advice="Give the player a play token.",
        words="No play token",
    ),
    "token_invalid": Reason(
        "The play token is not valid for this stream.",
        advice="Give the player a new play token.",
        words="Wrong play token",
    ),
    "token_expired": Reason(
        "The play token has expired.", advice="Give the player a new play token.", words="Play token expired"
    ),
    "download_expired": Reason("The download link has expired. Get a new one where this one came from."),
    "download_unknown": Reason(
        "The recording is gone, or the token is for another one.", NOT_FOUND, words="No such download"
    ),
    "over_limit": Reason(
        "The stream was ended, since its bitrate stayed over the key's limit of {kbps} kbit/s. With less, it can be "
        "published again from {when:%H:%M:%S} UTC on.",
        advice="Lower the encoder's bitrate, or raise the limit of its key.",
        words="Over the bitrate limit",
    ),
    "test_over": Reason(
        "The test has ended: one with a test-only key lasts {minutes} minutes at most. Another can begin in a minute.",
        advice="Wait for a minute, then test again; or use a key that is not for tests.",
        words="Test finished",
    ),
    "banned": Reason(
        "Too many wrong keys, tokens or passwords came from this address. It is let in again from "
        "{when:%d %b %Y, %H:%M:%S} UTC on, or once an operator lifts the ban.",
        advice="Correct the keys in use there, then lift the ban here, or wait until it ends.",
        words="Address banned",
    ),
    "database_slow": Reason(
        "The server could not check this in time. Try again in a few seconds.",
        TRANSIENT,
        advice="Check the database's load.",
    ),
    "database_error": Reason(
        "The server can't check this now. Try again in a few seconds.",
        TRANSIENT,
        advice="Check the database and the server's log.",
    ),
    "callback_refused": Reason(
        "Your authorisation service refused this: {why}.",
        advice="Ask whoever runs the authorisation service, if this one should get in.",
        words="Refused by your service",
    ),
    "callback_failed": Reason(
        "Your authorisation service gave no usable answer. Try again in a few seconds.",
        TRANSIENT,
        advice="Check the authorisation service (RTMPWEB_AUTH_URL): it gave no usable answer within 2 s.",
        words="Your service gave no answer",
    ),
    "draining": Reason(
        "The server is being drained: connect again in a moment, or to another server.",
        TRANSIENT,
        advice="Nothing, if the drain is meant: it comes back elsewhere. Else press Resume on the node’s page.",
        words="Server draining",
    ),
    "too_many_connections": Reason(
        "Too many connections, in total or from this address.",
        advice="Raise RTMPWEB_MAX_CONNECTIONS (or ..._PER_ADDRESS), or block the address.",
    ),
    "internal_error": Reason(
        "The server failed to answer this. Its log says why.",
        TRANSIENT,
        advice="Check the server's log.",
        words="Server error",
    ),
}


UNCHECKED = {"unknown_app", "banned", "database_slow", "database_error", "internal_error"}
"""Reasons that leave open whether there is such an application: its name may be anything."""


def reason_words(reason: str) -> str:
    """A refusal's code in few words: "key_unknown" is "Wrong key", one without its own "Key expired"."""
    entry = REASONS.get(reason)
    return (entry and entry.words) or reason.replace("_", " ").capitalize()


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
