"""Template tags of the dashboard's look: icons, status chips, and what stands in the database in words."""

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

HEALTH_ICONS = {"good": "good", "warning": "warn", "bad": "bad", "none": "none"}
END_WORDS = {
    "client_unpublish": "Encoder stopped",
    "tcp_reset": "Connection reset",
    "idle_timeout": "No media arrived",
    "kicked": "Kicked by an operator",
    "key_revoked": "Key revoked or disabled",
    "replaced": "Replaced by another encoder",
    "protocol_error": "Protocol error",
    "over_limit": "Over the key's bitrate limit",
    "node_shutdown": "Server stopped",
    "node_lost": "Server lost",
    "lease_lost": "Lease lost",
}
"""By end reason; static/dashboard/js/words.js says the same for what arrives live."""
END_ADVICE = {
    "client_unpublish": "Nothing to do, if this was meant.",
    "tcp_reset": "Check that the encoder is running, then its uplink.",
    "idle_timeout": "Check that the encoder is running, then its uplink.",
    "kicked": "The encoder may come back by itself; revoke its key to keep it out.",
    "key_revoked": "Give the encoder another key, if it may come back.",
    "protocol_error": "Look at the encoder's version and settings.",
    "over_limit": "Lower the encoder's bitrate, or raise the limit of its key.",
    "node_shutdown": "Encoders come back by themselves once the server runs again.",
    "node_lost": "Look at the server's log; encoders come back by themselves.",
    "lease_lost": "Look at the database and at the server's log.",
}
"""By end reason: the one act."""
ATTEMPT_ADVICE = {
    "unknown_app": "Correct the application in the encoder's server address, or make it.",
    "app_disabled": "Enable the application, if it is to be used again.",
    "key_missing": "Put the stream key into the encoder.",
    "key_unknown": "Paste the key again; rotate it if it is lost.",
    "key_disabled": "Enable the key, or give out another.",
    "key_revoked": "Give out another key.",
    "key_expired": "Make a new key, or move its expiry.",
    "key_other_app": "Correct the application in the encoder's server address.",
    "key_other_stream": "Correct the stream's name, or use its own key.",
    "network_not_allowed": "Add the address to the key's networks, if it is the right one.",
    "stream_disabled": "Enable the stream, if it is to be used again.",
    "stream_unknown": "Correct the stream's name in the player.",
    "busy": "Stop the other encoder, or let newer publishers take the stream over.",
    "play_not_allowed": "Change the application's play policy, if its streams are to be played.",
    "token_missing": "Give the player a play token.",
    "token_invalid": "Give the player a new play token.",
    "token_expired": "Give the player a new play token.",
    "banned": "Correct the keys in use there, then lift the ban (admin, Bans) or let it pass.",
    "over_limit": "Lower the encoder's bitrate, or raise the limit of its key.",
    "database_slow": "Look at the database's load.",
    "database_error": "Look at the database and at the server's log.",
    "draining": "Nothing, if the drain is meant: it comes back elsewhere. Else: manage.py node resume.",
    "too_many_connections": "Raise RTMPWEB_MAX_CONNECTIONS (or ..._PER_ADDRESS), or block the address.",
    "internal_error": "Look at the server's log.",
}
"""By an attempt's reason: the one act."""
HEALTH_WORDS = {"good": "Good", "warning": "Warning", "bad": "Bad", "none": "No data"}


@register.simple_tag
def icon(name: str, classes: str = "") -> SafeString:
    """An icon of `_icons.html`. It is decoration: the word beside it carries the meaning."""
    return format_html(
        '<svg class="i{}" aria-hidden="true"><use href="#i-{}"/></svg>', f" {classes}" if classes else "", name
    )


@register.simple_tag
def health_chip(health: str) -> SafeString:
    """A health as icon and word."""
    name, word = HEALTH_ICONS.get(health, "none"), HEALTH_WORDS.get(health, "No data")
    return format_html('<span class="chip {}" data-health="{}">{}{}</span>', name, health, icon(name), word)


STATES = {
    "ok": ("good", "In order"),
    "degraded": ("warn", "Degraded"),
    "down": ("bad", "Down"),
    "unknown": ("none", "Not known"),
}
"""By a part's state: icon, word."""


@register.simple_tag
def state_chip(state: str) -> SafeString:
    """The state of a part of the installation as icon and word."""
    name, word = STATES[state]
    return format_html('<span class="chip {}">{}{}</span>', name, icon(name), word)


@register.simple_tag
def lasted(start: datetime, end: datetime) -> str:
    """How long something lasted: 42 s, 3 min 05 s, 1 h 38 min, 6 d 4 h."""
    seconds = max(0, round((end - start).total_seconds()))
    for large, large_name, small, small_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= large:
            return f"{seconds // large}\u00a0{large_name} {seconds % large // small}\u00a0{small_name}"
    return f"{seconds}\u00a0s"


@register.filter
def ago(when: datetime) -> str:
    """How long since: 42 s ago."""
    return f"{lasted(when, timezone.now())} ago"


@register.filter
def end_words(reason: str) -> str:
    """A session's end reason in words."""
    return END_WORDS.get(reason, "Ended")


@register.filter
def end_advice(reason: str) -> str:
    """What to do about a session that ended so."""
    return END_ADVICE.get(reason, "")


@register.filter
def reason_words(reason: str) -> str:
    """A refusal's code as words: "key_unknown" becomes "Key unknown". A sentence stays as it is."""
    return reason if " " in reason else reason.replace("_", " ").capitalize()


@register.filter
def attempt_advice(reason: str) -> str:
    """What to do about a refused attempt; nothing where nothing needs to be done."""
    return ATTEMPT_ADVICE.get(reason, "")
