"""Why things end, and what the client is told when the server is the one to end them."""

from typing import Final, Literal, NamedTuple

from ingest.contracts import EndReason

DisconnectReason = EndReason | Literal["rejected"]


class Ending(NamedTuple):
    reason: DisconnectReason
    description: str


class Status(NamedTuple):
    level: str
    code: str
    description: str
    """Empty: what is said of the session's end."""


# FFmpeg stops at level 'error', librtmp at some codes. OBS reads nothing after Publish.Start: for it the close counts.
PUBLISHER_STATUS: dict[EndReason, Status] = {
    "idle_timeout": Status("error", "NetConnection.Connect.IdleTimeOut", "No media arrived in time."),
    "kicked": Status("error", "NetStream.Publish.Rejected", "Stopped by an operator."),
    "key_revoked": Status("error", "NetStream.Publish.Denied", "The stream key is no longer valid."),
    "replaced": Status("error", "NetStream.Publish.BadName", "Another publisher took the stream over."),
    "over_limit": Status("error", "NetStream.Publish.Rejected", "The bitrate is over the stream key's limit."),
    "test_over": Status("error", "NetStream.Publish.Rejected", "The test has ended."),
    "protocol_error": Status("error", "NetStream.Failed", "The client went over a limit of the server."),
    "node_shutdown": Status("error", "NetConnection.Connect.AppShutdown", "The server is stopping."),
    "lease_lost": Status("error", "NetStream.Publish.Failed", "The server lost its claim to the stream."),
}

# UnpublishNotify lets FFmpeg and librtmp end as at the end of a stream.
PLAYER_STATUS: dict[EndReason, Status] = {
    "idle_timeout": Status("error", "NetConnection.Connect.IdleTimeOut", "Nothing was heard from the player."),
    "kicked": Status("error", "NetStream.Play.Failed", "Stopped by an operator."),
    "key_revoked": Status("error", "NetStream.Play.Failed", "Playing is no longer allowed."),
    "replaced": Status("status", "NetStream.Play.UnpublishNotify", "Playing was stopped."),
    "elsewhere": Status("error", "NetStream.Play.StreamNotFound", ""),
    "too_slow": Status("error", "NetStream.Play.Failed", "The player took less than it was sent, for too long."),
    "protocol_error": Status("error", "NetStream.Failed", "The client went over a limit of the server."),
    "node_shutdown": Status("status", "NetStream.Play.UnpublishNotify", "The server is stopping."),
    "lease_lost": Status("status", "NetStream.Play.UnpublishNotify", "Playing was stopped."),
}

DESCRIPTIONS: dict[EndReason, str] = {
    "client_unpublish": "The client ended it.",
    "completed": "All that was to be played has been sent.",
    "tcp_reset": "The client closed or lost the connection.",
    "idle_timeout": "Nothing arrived in time.",
    "kicked": "Stopped by an operator.",
    "key_revoked": "The key is no longer valid.",
    "replaced": "Another publisher took the stream over.",
    "elsewhere": "The stream is published on another node.",
    "protocol_error": "The client broke the protocol.",
    "too_slow": "The player took less than it was sent, for too long.",
    "test_over": "The test has gone on for as long as one may.",
    "over_limit": "The bitrate stayed over the stream key's limit.",
    "unreadable": "The recording can't be played.",
    "unsupported_codec": "The player does not take the stream's codec.",
    "node_shutdown": "The server stopped.",
    "node_lost": "The server was lost.",
    "lease_lost": "The server lost its claim to the stream.",
}

STREAM_ENDED: Final = "The stream has ended: its publisher left, and none has come back."

LEFT: Final[tuple[EndReason, ...]] = ("client_unpublish", "tcp_reset")
"""Of what a client does."""


def session_reason(reason: DisconnectReason) -> EndReason:
    """A session that ends because another request on its connection was refused was ended by the server's rule."""
    return "kicked" if reason == "rejected" else reason
