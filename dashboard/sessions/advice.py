"""What to do about a publisher's session: one table of what is known of it, one action.

Known are why it ended, what its last minute looked like, and the state of its key, its node and its stream now. The
first row that fits says what to do.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from django.urls import reverse

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
        "Its node is down: its encoders and players are off air until it runs again. Check the server's log.",
        node=("down",),
        back=AWAY,
    ),
    Rule(
        "Point the encoder at another node",
        "Its node is draining and takes no new streams: the encoder reconnects elsewhere, or once the drain ends.",
        node=("draining",),
        back=AWAY,
    ),
    # On air again.
    Rule("Nothing", "It is on air again, and good.", back=("good",)),
    # Still on air, without an issue (those with one are answered by the issue's own advice).
    Rule("Nothing", "It is on air, and all checks are good.", back=("on",)),
    # A key that can't be used keeps the encoder out, whatever ended the session.
    Rule(
        "Give out another key",
        "The key is revoked: an encoder that reconnects with it is refused.",
        key=("revoked", "gone"),
        back=AWAY,
    ),
    Rule(
        "Enable the key",
        "The key is disabled: an encoder that reconnects with it is refused. Enable it, or give out another.",
        key=("disabled",),
        back=AWAY,
    ),
    Rule(
        "Extend the key",
        "The key has expired: an encoder that reconnects with it is refused. Extend it, or make a new one.",
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
        "Open the stream",
        "It is on air again, but with an issue: its page says which, and what to do.",
        back=("warning", "bad"),
    ),
    # What an operator or another encoder did.
    Rule(
        "Decide whether it may come back",
        "An operator kicked it. The encoder may reconnect by itself; revoke its key to keep it out.",
        reason=("kicked",),
    ),
    Rule(
        "Stop one of the two encoders",
        "Another encoder took the stream over. If that was not meant, two encoders are set to this stream.",
        reason=("replaced",),
    ),
    Rule("Nothing, if this was meant", "The encoder was stopped by its operator.", reason=("client_unpublish",)),
    Rule(
        "Nothing",
        "Tests end by themselves. To go on air, use a key that is not for tests.",
        reason=("test_over",),
    ),
    # Why the connection was lost, by what the last minute showed.
    Rule(
        "Check the encoder, then its uplink",
        "Nothing was received at the end: is the encoder running, is its machine on the network?",
        reason=LOST,
        seen=("silent",),
    ),
    Rule(
        "Lower the bitrate, or use wired Ethernet",
        "The uplink no longer carried the bitrate before the connection was lost.",
        reason=LOST,
        seen=("falling",),
    ),
    Rule(
        "Check the network on the way",
        "The RTT was high before the connection was lost: Wi-Fi, a mobile network or a full line.",
        reason=LOST,
        seen=("far",),
    ),
    Rule(
        "Reduce the encoder's load",
        "The frame rate was low before the connection was lost: use a faster preset or a lower resolution.",
        reason=LOST,
        seen=("slow",),
    ),
    Rule(
        "Call the venue and restart the encoder",
        "All was good until the connection was lost: the encoder crashed, or its power or network failed.",
        reason=LOST,
        seen=("steady",),
    ),
    Rule(
        "Check that the encoder is running",
        "The connection was lost; nothing was measured of its last minute. Then check its uplink.",
        reason=LOST,
    ),
    Rule(
        "Check the encoder's version and settings",
        "It sent what RTMP does not allow; the description says what.",
        reason=("protocol_error",),
    ),
    Rule(
        "Wait a minute",
        "The server ended it; encoders reconnect by themselves. If this one does not, restart it.",
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
    "fps_low": "Reduce the encoder's load",
    "bitrate_low": "Lower the bitrate, or use wired Ethernet",
    "bitrate_high": "Lower the bitrate",
    "bitrate_unstable": "Lower the bitrate, or use wired Ethernet",
    "rtt_high": "Use a nearer server, or wired Ethernet",
    "flapping": "Check how its sessions ended",
    "drift": "Lower the bitrate",
    "no_keyframes": "Turn the encoder's intra refresh off",
    "gop_long": "Set the keyframe interval to 2\u00a0s",
    "gop_short": "Set the keyframe interval to 2\u00a0s",
    "faster_than_realtime": "Send the file in real time",
    "av_skew": "Check the encoder's audio delay",
    "ts_discontinuity": "Check the encoder's load and sources",
    "slow_players": "Offer a lower bitrate as well",
    "recording_failed": "Check the disk of the recordings",
}
"""By check: the one action, in a few words. What others follow from comes first."""
CHECK_SETTINGS = {
    "no_video": ("video", "Say that it has no video"),
    "no_audio": ("audio", "Say that it has no audio"),
    "bitrate_low": ("target", "Change its target bitrate"),
    "bitrate_high": ("key", "Change its key’s limit"),
}
"""By check: the part of the stream's settings (`dashboard.settings.PARTS`) that its advice speaks of, and the link's
words. Of all others it is OWN_LIMITS."""
OWN_LIMITS = ("checks", "Change this check’s limits")


def setting_of(check: str, path: str) -> tuple[str, str]:
    """The link to what is set of a check for the stream application/name, and its words."""
    part, words = CHECK_SETTINGS.get(check, OWN_LIMITS)
    app, _, name = path.partition("/")
    return f"{reverse('dashboard:stream-settings', args=[app, name])}?of={part}", words


OTHERWISE = Advice("Check its events", "The cause is not known.")


def cause_rank(check: str) -> int:
    """The place of an open issue's check among causes: what follows from others has a later one."""
    return list(CHECK_ACTIONS).index(check) if check in CHECK_ACTIONS else len(CHECK_ACTIONS)


def advise(situation: Situation) -> Advice:
    if (issue := situation.issue) is not None and situation.back == "on":
        why = f"{issue['title'].rstrip('.')}. {issue['advice']}".strip()
        return Advice(CHECK_ACTIONS.get(issue["check"], "Open the stream"), why)
    if situation.refused and situation.back in AWAY and situation.node == "up":
        hint = attempt_advice(situation.refused) or "See the refused connections."
        return Advice(
            "Let it in again",
            f"It tries to reconnect and is refused: {reason_words(situation.refused).lower()}. {hint}",
        )
    return next((rule for rule in RULES if rule.matches(situation)), OTHERWISE)
