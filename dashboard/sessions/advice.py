"""What to do about a publisher's session: one table of what is known of it, one action.

Known are why it ended, what its last minute looked like, and the state of its key, its node and its stream now. The
first row that fits says what to do.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from dashboard.streams.measurements import LastMinuteKind
from dashboard.templatetags.ui import attempt_advice, reason_words
from ingest.contracts import SERVER_ENDS, Issue

KeyState = Literal["fine", "none", "gone", "revoked", "disabled", "expired", "over_limit"]
"""`none`: none was needed, or a log-in was used. `gone`: deleted since."""
NodeState = Literal["up", "draining", "down", "unknown"]
Return = Literal["on", "good", "warning", "bad", "again_off", "off"]
"""`on`: the session itself is on air. Else what became of its stream: on air again and how, or not."""


@dataclass(frozen=True, slots=True)
class Situation:
    reason: str
    """Why it ended; "": it has not."""
    seen: LastMinuteKind = "steady"
    key: KeyState = "fine"
    node: NodeState = "up"
    back: Return = "off"
    refused: str = ""
    """Why the last attempt since its end was refused; "": none was."""
    issue: Issue | None = None
    """The stream's worst that is open."""


@dataclass(frozen=True, slots=True)
class Advice:
    action: str
    """In a few words."""
    why: str


CONDITIONS = ("reason", "seen", "key", "node", "back")


@dataclass(frozen=True, slots=True)
class Rule(Advice):
    """Fits where each named set has the situation's value; None: whatever it is."""

    reason: Collection[str] | None = None
    seen: Collection[str] | None = None
    key: Collection[str] | None = None
    node: Collection[str] | None = None
    back: Collection[str] | None = None

    def matches(self, situation: Situation) -> bool:
        return all((wanted := getattr(self, name)) is None or getattr(situation, name) in wanted for name in CONDITIONS)


LOST = ("tcp_reset", "idle_timeout")
AWAY: tuple[Return, ...] = ("off", "again_off")

RULES = (
    # The server's own side comes first: no encoder can repair it.
    Rule(
        "Bring the node back",
        "Its node is down: encoders and players of it are off air until it runs again. Look at the server's log.",
        node=("down",),
        back=AWAY,
    ),
    Rule(
        "Point the encoder at another node",
        "Its node is draining and takes nothing new: the encoder comes back elsewhere, or after the drain ends.",
        node=("draining",),
        back=AWAY,
    ),
    # On air again.
    Rule("Nothing", "It is on air again, and good.", back=("good",)),
    # Still on air, without an issue (those with one are answered by the issue's own advice).
    Rule("Nothing", "It is on air, and no check has anything against it.", back=("on",)),
    # A key that can't be used keeps the encoder out, whatever ended the session.
    Rule(
        "Give out another key",
        "The key is revoked: an encoder that comes back with it is refused.",
        key=("revoked", "gone"),
        back=AWAY,
    ),
    Rule(
        "Enable the key",
        "The key is disabled: an encoder that comes back with it is refused. Enable it, or give out another.",
        key=("disabled",),
        back=AWAY,
    ),
    Rule(
        "Move the key's expiry",
        "The key has expired: an encoder that comes back with it is refused. Move its expiry, or make a new one.",
        key=("expired",),
        back=AWAY,
    ),
    Rule(
        "Lower the bitrate, or raise the limit",
        "The encoder sent more than its key allows. Set its bitrate below the limit, with CBR.",
        reason=("over_limit",),
    ),
    Rule(
        "Set the bitrate below the key's limit",
        "In its last minute the encoder sent more than its key allows. Lower it, or raise the limit.",
        key=("over_limit",),
    ),
    # On air again, but not well.
    Rule(
        "Look at the stream",
        "It is on air again, but not good: its page says which check, and what to do.",
        back=("warning", "bad"),
    ),
    # What an operator or another encoder did.
    Rule(
        "Decide whether it may come back",
        "An operator ended it. The encoder may come back by itself; revoke its key to keep it out.",
        reason=("kicked",),
    ),
    Rule(
        "Stop one of the two encoders",
        "Another encoder took the stream over. If that was not meant, two are set to this stream.",
        reason=("replaced",),
    ),
    Rule("Nothing, if this was meant", "The encoder said that it stops.", reason=("client_unpublish",)),
    Rule(
        "Nothing",
        "What a test-only key publishes ends by itself. To go on air, use a key that is not for tests.",
        reason=("test_over",),
    ),
    # Why the connection was lost, by what the last minute showed.
    Rule(
        "Check the encoder, then its uplink",
        "Nothing arrived any more at the end: is the encoder running, is its machine on the network?",
        reason=LOST,
        seen=("silent",),
    ),
    Rule(
        "Lower the bitrate, or use wired Ethernet",
        "The uplink did not carry the rate any more before the connection was lost.",
        reason=LOST,
        seen=("falling",),
    ),
    Rule(
        "Look at the network on the way",
        "The round trip was long before the connection was lost: Wi-Fi, a mobile network or a full line.",
        reason=LOST,
        seen=("far",),
    ),
    Rule(
        "Relieve the encoder",
        "It made too few frames before the connection was lost: use a faster preset or a smaller picture.",
        reason=LOST,
        seen=("slow",),
    ),
    Rule(
        "Call the place and start the encoder again",
        "All was well until the connection ended: the encoder was stopped, crashed, or lost its network at once.",
        reason=LOST,
        seen=("steady",),
    ),
    Rule(
        "Check that the encoder is running",
        "The connection ended; nothing was measured of its last minute. Then look at its uplink.",
        reason=LOST,
    ),
    Rule(
        "Look at the encoder's version and settings",
        "It sent what the protocol does not allow; the description says what.",
        reason=("protocol_error",),
    ),
    Rule(
        "Wait a minute",
        "The server ended it; encoders come back by themselves. If this one does not, start it again.",
        reason=SERVER_ENDS,
    ),
    Rule(
        "Give the encoder another key",
        "Its key, stream or application was revoked, disabled or expired while it was live.",
        reason=("key_revoked",),
    ),
)
CHECK_ACTIONS = {
    "starving": "Check the encoder, then its uplink",
    "no_video": "Check the encoder's video source",
    "no_audio": "Check the encoder's audio source",
    "frozen_picture": "Check the camera and the encoder's scene",
    "silent_audio": "Check the microphone and the mixer",
    "fps_low": "Relieve the encoder",
    "bitrate_low": "Lower the bitrate, or use wired Ethernet",
    "bitrate_high": "Lower the bitrate",
    "bitrate_unstable": "Lower the bitrate, or use wired Ethernet",
    "rtt_high": "Use a nearer server, or wired Ethernet",
    "flapping": "See how its sessions ended",
    "drift": "Lower the bitrate",
    "no_keyframes": "Turn the encoder's intra refresh off",
    "gop_long": "Set the keyframe interval to 2\u00a0s",
    "gop_short": "Set the keyframe interval to 2\u00a0s",
    "faster_than_realtime": "Send the file in real time",
    "av_skew": "Check the encoder's audio delay",
    "ts_discontinuity": "Check the encoder's load and sources",
    "slow_players": "Offer a lower bitrate, too",
    "recording_failed": "Check the disk of the recordings",
}
"""By check: the one action, in a few words. What others follow from comes first."""
OTHERWISE = Advice("Look at its events", "Nothing that is known says what to do.")


def cause_rank(check: str) -> int:
    """The place of an open issue's check among causes: what follows from others has a later one."""
    return list(CHECK_ACTIONS).index(check) if check in CHECK_ACTIONS else len(CHECK_ACTIONS)


def advise(situation: Situation) -> Advice:
    if (issue := situation.issue) is not None and situation.back == "on":
        why = f"{issue['title'].rstrip('.')}. {issue['advice']}".strip()
        return Advice(CHECK_ACTIONS.get(issue["check"], "Look at the stream"), why)
    if situation.refused and situation.back in AWAY and situation.node == "up":
        hint = attempt_advice(situation.refused) or "Look at the refused attempts."
        return Advice("Let it in again", f"It tries, and is refused: {reason_words(situation.refused).lower()}. {hint}")
    return next((rule for rule in RULES if rule.matches(situation)), OTHERWISE)
