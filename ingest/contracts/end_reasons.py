"""Why sessions end: one table of reasons, each with what an operator is told of it."""

from dataclasses import dataclass
from typing import Literal

EndReason = Literal[
    "client_unpublish",  # The client said so: FCUnpublish, deleteStream, closeStream.
    "completed",  # All that was to be played has been sent.
    "tcp_reset",  # The peer closed or lost the connection without saying so.
    "idle_timeout",  # A deadline passed: no media, no bytes, or a write that did not progress.
    "kicked",  # By an operator.
    "key_revoked",  # The key was revoked, disabled or expired, or its stream or application disabled.
    "replaced",  # Another publisher took the stream over.
    "elsewhere",  # The stream that was played is published on another node.
    "protocol_error",  # The peer broke the protocol or went over a limit of it.
    "too_slow",  # The player stayed over the bounds of what may wait for it, or took nothing.
    "test_over",  # What a test-only key publishes has gone on for as long as it may.
    "over_limit",  # The publisher stayed over its key's bitrate limit.
    "unsupported_codec",  # The player doesn't take the codec of the stream.
    "unreadable",  # The recording that was played is missing or broken, or can't be read.
    "node_shutdown",  # The node stopped in order.
    "node_lost",  # The node died; found by its successor or by the sweep of expired leases.
    "lease_lost",  # The node could not keep the publisher's lease.
]
END_REASONS: tuple[EndReason, ...] = EndReason.__args__  # type: ignore[attr-defined]

SERVER_ENDS: tuple[EndReason, ...] = ("node_shutdown", "node_lost", "lease_lost")
"""Ends that are the server's doing: neither the client nor its network has any part in them."""


@dataclass(frozen=True, slots=True)
class End:
    """What happened, in few words, and the action; and where a player's is something else than a publisher's, that."""

    words: str
    advice: str = ""
    player_words: str = ""
    player_advice: str = ""
    is_expected: bool = False
    """Somebody meant it: it is no loss. By this pages and alerts go, and what history counts as planned."""

    def words_of(self, *, plays: bool) -> str:
        return (plays and self.player_words) or self.words

    def advice_of(self, *, plays: bool) -> str:
        return (plays and self.player_advice) or self.advice


ENDS: dict[EndReason, End] = {
    "client_unpublish": End(
        "Encoder stopped", "Nothing to do, if this was meant.", "Player left", "Nothing to do.", is_expected=True
    ),
    "completed": End("Finished", "Nothing to do.", is_expected=True),
    "unreadable": End(
        "Recording unreadable",
        "Check the folder of recordings and its disk; the session says what was wrong.",
    ),
    "unsupported_codec": End(
        "Codec not supported",
        "The player can't decode this codec: use another player, or another codec in the encoder.",
    ),
    "tcp_reset": End(
        "Connection reset",
        "Check that the encoder is running, then its uplink.",
        player_advice="Nothing, if the player was closed; else check its network.",
    ),
    "idle_timeout": End(
        "Timed out",
        "Check that the encoder is running, then its uplink.",
        player_advice="Nothing, if the player was closed; else check its network.",
    ),
    "kicked": End(
        "Kicked by an operator",
        "The encoder may reconnect by itself; revoke its key to keep it out.",
        player_advice="The player may reconnect by itself.",
        is_expected=True,
    ),
    "key_revoked": End(
        "Key revoked or disabled",
        "Give the encoder another key, if it may come back.",
        "Not allowed to play any more",
        player_advice="Nothing, if this was meant.",
        is_expected=True,
    ),
    "replaced": End("Replaced by another encoder", is_expected=True),
    "elsewhere": End(
        "Live on another node",
        "Connect the player to the node that is named, or the encoder to the players' node.",
    ),
    "protocol_error": End("Protocol error", "Check the encoder's version and settings."),
    "too_slow": End(
        "Too slow",
        "Its network or machine can't keep up with the bitrate: offer a lower bitrate as well.",
    ),
    "over_limit": End("Over the key's bitrate limit", "Lower the encoder's bitrate, or raise the limit of its key."),
    "test_over": End(
        "Test finished",
        "Nothing to do: tests end by themselves. To go on air, use a key that is not for tests.",
        is_expected=True,
    ),
    "node_shutdown": End(
        "Server stopped",
        "Encoders reconnect by themselves once the server runs again.",
        player_advice="Players that retry are back once the server runs again.",
        is_expected=True,
    ),
    "node_lost": End(
        "Server went down",
        "Check the server's log; encoders reconnect by themselves.",
        player_advice="Check the server's log; players that retry are back.",
    ),
    "lease_lost": End("Ownership lost (other node)", "Check the database and the server's log."),
}
"""The words stand in static/dashboard/js/events.js as well, for what arrives live."""


def end_of(reason: str) -> End:
    """Of a reason, which may be one of a former version."""
    return ENDS.get(reason, End("Ended"))  # type: ignore[call-overload,no-any-return]
