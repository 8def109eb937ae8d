"""What is to be done about a push, or a pull, that fails: by what the other server answered, else by how it failed.
Pages, API, alerts and events say the same."""

from dataclasses import dataclass
from typing import Final

from ingest.contracts.relays import PushFailure, PushState


@dataclass(frozen=True, slots=True)
class Advice:
    words: str
    """What happened, as the end of a sentence: "Not pushed to YouTube: ..."."""
    todo: str
    """What to do about it."""


BY_FAILURE: Final[dict[PushFailure, Advice]] = {
    "address": Advice(
        "its address can't be used",
        "Correct the server. Private networks and this machine need RTMPWEB_RELAY_PRIVATE=1; a server of this "
        "installation can't be a target.",
    ),
    "connect": Advice(
        "nobody answers there",
        "See that the platform is up, the server and port are right, and a firewall lets this machine out to it.",
    ),
    "tls": Advice(
        "its certificate is not valid, or it has none",
        "Enter the host's name as the platform gives it, not its address; use rtmp:// only if the platform has no rtmps://.",
    ),
    "protocol": Advice(
        "what answers there is no RTMP server",
        "Correct the server and port: a web page's address, or SRT's, takes no RTMP.",
    ),
    "refused": Advice(
        "the server refused it",
        "Get the key from the platform anew, enter it here, then start the push.",
    ),
    "lost": Advice(
        "the connection broke",
        "It is tried again by itself. If it goes on, look whether the platform ended the broadcast, and at this "
        "machine's uplink.",
    ),
    "slow": Advice(
        "it takes less than the stream has",
        "See whether this machine's uplink carries the stream once more, or send a lower bitrate.",
    ),
    "limit": Advice(
        "this node pushes as much as it may",
        "Stop another push, or raise RTMPWEB_MAX_PUSHES.",
    ),
}

UNREADABLE_CODE: Final = "key.unreadable"
"""Ours: the key was sealed under another pepper."""

BY_CODE: Final[dict[str, Advice]] = {
    "NetStream.Publish.BadName": Advice(
        "the key is in use already, or wrong",
        "Stop the other encoder that uses this key, or enter a new one; then start the push.",
    ),
    "NetStream.Publish.Denied": Advice(
        "the server does not take the key",
        "Get the key from the platform anew, and see that its broadcast is still planned; then start the push.",
    ),
    "NetStream.Publish.Rejected": Advice(
        "the server does not take the key",
        "Get the key from the platform anew, and see that its broadcast is still planned; then start the push.",
    ),
    "NetConnection.Connect.InvalidApp": Advice(
        "the server has no such application",
        "Correct what stands behind the host in the server, as the platform gives it.",
    ),
    "NetConnection.Connect.Rejected": Advice(
        "the server refused the connection",
        "Correct the server as the platform gives it. Servers that ask for a user and password can't be pushed to.",
    ),
    UNREADABLE_CODE: Advice(
        "its key can't be read, as the installation's pepper is another now",
        "Enter the key again.",
    ),
}

LOGIN: Final = Advice(
    "the server asks for a user and password",
    "Enter a key or server that needs none: log-ins of encoders (authmod) are not known here.",
)
LOGIN_MARK: Final = "authmod"

UNKNOWN: Final = Advice("it is not live", "Stop the push and start it again; if that does not help, get a new key.")


def advice(failure: str, code: str = "", description: str = "") -> Advice:
    """`code` and `description`: the other server's answer."""
    if code == "NetConnection.Connect.Rejected" and LOGIN_MARK in description:
        return LOGIN
    found = BY_CODE.get(code)
    if found is not None and failure in ("refused", ""):
        return found
    return BY_FAILURE.get(failure, UNKNOWN)  # type: ignore[call-overload,no-any-return]


STATES: Final[dict[PushState, str]] = {
    "connecting": "Connecting",
    "live": "Live",
    "retrying": "Tries again",
    "stopped": "Stopped",
}


def state_words(state: str, failure: str = "") -> str:
    """Of a push, in a word or two; "": nobody has told of it."""
    if state == "stopped" and failure:
        return "Failed"
    return STATES.get(state, "Not pushing")  # type: ignore[call-overload,no-any-return]
