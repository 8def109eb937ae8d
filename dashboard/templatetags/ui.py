"""Template tags of the dashboard's look: icons, status chips, figures (thousands by comma, a dash where there is none),
and what stands in the database, the audit log among it, in words."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ingest.models import Session

register = template.Library()

NO_FIGURE = "–"


@register.filter
def figure(value: float | Literal[""] | None, decimals: int = 0) -> str:
    """A number with thousands separated. "" is what a template makes of what is not there."""
    return NO_FIGURE if value is None or value == "" else f"{value:,.{decimals}f}"


@register.filter
def compact(value: float) -> str:
    """A number of three digits or so: 0.012, 2.50, 37.1, 14,000."""
    return figure(value, 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3)


@register.filter
def clock(milliseconds: int) -> str:
    """A duration as h:mm:ss."""
    seconds = round(milliseconds / 1000)
    return f"{seconds // 3600:,}:{seconds // 60 % 60:02}:{seconds % 60:02}"


MOST_DETAIL_LINES = 12
"""Lines of one entry's detail."""

VERBS_PAST = {
    "create": "made",
    "change": "changed",
    "delete": "deleted",
    "revoke": "revoked",
    "rotate": "rotated",
    "enable": "enabled",
    "disable": "disabled",
    "kick": "kicked",
    "drain": "drained",
    "resume": "resumed",
    "forget": "forgotten",
    "lift": "lifted",
    "keep": "kept",
    "unkeep": "kept no more",
    "download": "downloaded",
    "import": "brought in",
    "run": "asked for",
    "retry": "asked for again",
    "recompute": "computed anew",
    "make": "made",
    "send": "sent",
    "password": "given another password",
    "acknowledge": "acknowledged",
    "mute": "muted",
    "unmute": "heard again",
    "note": "noted",
}

WHOLE_ACTIONS = {
    "login": "Logged in",
    "logout": "Logged out",
    "login.fail": "Log-in failed",
    "login.limit": "Log-ins limited",
    "analytics.run": "Analytics run",
}


@register.filter
def act_words(action: str) -> str:
    """key.rotate becomes "Key rotated"."""
    if action in WHOLE_ACTIONS:
        return WHOLE_ACTIONS[action]
    subject, _, verb = action.partition(".")
    return f"{subject.replace('_', ' ')} {VERBS_PAST.get(verb, verb.replace('_', ' '))}".strip().capitalize()


@register.filter
def detail_lines(detail: dict[str, Any]) -> list[str]:
    """An entry's detail as lines, such as "enabled: no, was yes"."""
    lines: list[str] = []
    for name, value in detail.items():
        if name == "changed" and isinstance(value, dict):
            lines += [f"{field.replace('_', ' ')}: {_change(each)}" for field, each in value.items()]
        elif value not in ("", None, [], {}):
            lines.append(f"{name.replace('_', ' ')}: {_said(value)}")
    return lines[:MOST_DETAIL_LINES]


def _change(pair: Any) -> str:
    if isinstance(pair, list) and len(pair) == 2:
        return f"{_said(pair[1])}, was {_said(pair[0])}"
    return _said(pair[0]) if isinstance(pair, list) and len(pair) == 1 else _said(pair)


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in (None, "", [], {}):
        return "none"
    return ", ".join(_said(each) for each in value) if isinstance(value, list) else str(value)


HEALTH_ICONS = {"good": "good", "warning": "warn", "bad": "bad", "none": "none"}
END_WORDS = {
    "client_unpublish": "Encoder stopped",
    "completed": "Played to its end",
    "unreadable": "Recording unreadable",
    "unsupported_codec": "Codec not supported",
    "tcp_reset": "Connection reset",
    "idle_timeout": "No media arrived",
    "kicked": "Kicked by an operator",
    "key_revoked": "Key revoked or disabled",
    "replaced": "Replaced by another encoder",
    "elsewhere": "Published on another node",
    "protocol_error": "Protocol error",
    "too_slow": "Player too slow",
    "over_limit": "Over the key's bitrate limit",
    "test_over": "Test at its end",
    "node_shutdown": "Server stopped",
    "node_lost": "Server lost",
    "lease_lost": "Lease lost",
}
"""By end reason; static/dashboard/js/events.js says the same for what arrives live."""
PLAYER_END_WORDS = {"client_unpublish": "Player left", "idle_timeout": "Nothing heard from it"}
"""Those that say something else of a player; as in events.js."""
END_ADVICE = {
    "client_unpublish": "Nothing to do, if this was meant.",
    "completed": "Nothing to do.",
    "unreadable": "Look at the folder of recordings and its disk: the session's description says what was wrong.",
    "unsupported_codec": "The player can't decode what is published: use another player, or another codec.",
    "tcp_reset": "Check that the encoder is running, then its uplink.",
    "idle_timeout": "Check that the encoder is running, then its uplink.",
    "kicked": "The encoder may come back by itself; revoke its key to keep it out.",
    "key_revoked": "Give the encoder another key, if it may come back.",
    "elsewhere": "Have the player connect to the node that is named, or the encoder to the players' node.",
    "protocol_error": "Look at the encoder's version and settings.",
    "too_slow": "The player's network or machine takes less than the stream has: offer a lower bitrate, too.",
    "over_limit": "Lower the encoder's bitrate, or raise the limit of its key.",
    "test_over": "Nothing: a test ends by itself. To go on air, use a key that is not for tests.",
    "node_shutdown": "Encoders come back by themselves once the server runs again.",
    "node_lost": "Look at the server's log; encoders come back by themselves.",
    "lease_lost": "Look at the database and at the server's log.",
}
"""By end reason: the one act."""
PLAYER_END_ADVICE = {
    "client_unpublish": "Nothing to do.",
    "tcp_reset": "Nothing, if the player was closed; else look at its network.",
    "idle_timeout": "Nothing, if the player was closed; else look at its network.",
    "kicked": "The player may come back by itself.",
    "key_revoked": "Nothing, if this was meant.",
    "node_shutdown": "Players that try again come back once the server runs.",
    "node_lost": "Look at the server's log; players that try again come back.",
}
"""Those that are another act for a player."""
ATTEMPT_ADVICE = {
    "unknown_app": "Correct the application in the encoder's server address, or make it.",
    "instance_unknown": "Correct what stands behind the application in the server address, or make a stream of it.",
    "too_many_instances": "Let the application have more instances, or look at who asks for so many.",
    "app_disabled": "Enable the application, if it is to be used again.",
    "key_missing": "Put the stream key into the encoder.",
    "key_unknown": "Paste the key again; rotate it if it is lost.",
    "key_disabled": "Enable the key, or give out another.",
    "key_revoked": "Give out another key.",
    "key_expired": "Make a new key, or move its expiry.",
    "key_other_app": "Correct the application in the encoder's server address.",
    "key_other_stream": "Correct the stream's name, or use its own key.",
    "login_wrong": "Correct the user and the password in the encoder; they are set in the admin, Encoder log-ins.",
    "login_challenge": "Nothing, unless it goes on: then the encoder's address changes with each connection.",
    "login_method": "Use an encoder that logs in by authmod=adobe or llnw, or a stream key.",
    "login_disabled": "Enable the log-in, or give out another.",
    "login_revoked": "Give out another log-in.",
    "login_expired": "Make a new log-in, or move its expiry.",
    "login_other_stream": "Correct the stream's name in the encoder, or leave it empty.",
    "network_not_allowed": "Add the address to the key's networks, if it is the right one.",
    "stream_disabled": "Enable the stream, if it is to be used again.",
    "stream_unknown": "Correct the stream's name in the player.",
    "too_many_awaited": "Look at who asks for so many names; let the application be published to with keys only.",
    "elsewhere": "Have the player connect to the node that is named, or the encoder to the players' node.",
    "busy": "Stop the other encoder, or let newer publishers take the stream over.",
    "play_not_allowed": "Change the application's play policy, if its streams are to be played.",
    "token_missing": "Give the player a play token.",
    "token_invalid": "Give the player a new play token.",
    "token_expired": "Give the player a new play token.",
    "banned": "Correct the keys in use there, then lift the ban (admin, Bans) or let it pass.",
    "over_limit": "Lower the encoder's bitrate, or raise the limit of its key.",
    "test_over": "Wait for a minute, then test again; or use a key that is not for tests.",
    "database_slow": "Look at the database's load.",
    "database_error": "Look at the database and at the server's log.",
    "callback_refused": "Ask whoever runs the authorisation service, if this one should get in.",
    "callback_failed": "Look at the authorisation service (RTMPWEB_AUTH_URL): it gave no usable answer within 2 s.",
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


NODE_STATES = {
    "up": ("good", "Up"),
    "draining": ("warn", "Draining"),
    "missing": ("bad", "Missing"),
    "down": ("bad", "Down"),
    "stopped": ("none", "Stopped"),
}
"""By a media node's state: icon, word."""


@register.simple_tag
def node_chip(state: str) -> SafeString:
    """The state of a media node as icon and word."""
    name, word = NODE_STATES[state]
    return format_html('<span class="chip {}">{}{}</span>', name, icon(name), word)


@register.filter
def node_words(state: str) -> str:
    """A media node's state as a word in a sentence."""
    return NODE_STATES[state][1].lower()


@register.simple_tag
def session_link(session: UUID, words: str) -> SafeString:
    """Leads to the session's page."""
    return format_html('<a href="{}">{}</a>', reverse("dashboard:session", args=[session]), words)


DELIVERIES = {
    "waiting": ("clock", "plain", "Waiting"),
    "done": ("good", "good", "Delivered"),
    "sending": ("clock", "plain", "Being sent"),
    "sent": ("good", "good", "Sent"),
}
"""By a delivery's state, or a report's progress: icon, class, word. All others are given up."""


@register.simple_tag
def delivery_chip(state: str, error: str) -> SafeString:
    """What became of a message as icon and word. One that failed and is to be tried again is said to be."""
    name, classes, word = DELIVERIES.get(state, ("bad", "bad", "Given up"))
    if state == "waiting" and error:
        name, classes, word = "warn", "warn", "Failed, tried again"
    return format_html('<span class="chip {}">{}{}</span>', classes, icon(name), word)


@register.simple_tag
def lasted(start: datetime, end: datetime) -> str:
    """How long something lasted: 42 s, 3 min 05 s, 1 h 38 min, 6 d 4 h."""
    seconds = max(0, round((end - start).total_seconds()))
    for large, large_name, small, small_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= large:
            return f"{seconds // large}\u00a0{large_name} {seconds % large // small}\u00a0{small_name}"
    return f"{seconds}\u00a0s"


@register.filter
def coded(text: str) -> SafeString:
    """What stands between backticks as code."""
    parts = text.split("`")
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", part) if i % 2 else part,) for i, part in enumerate(parts))
    )


@register.filter
def ago(when: datetime) -> str:
    """How long since: 42 s ago."""
    return f"{lasted(when, timezone.now())} ago"


@register.filter
def end_words(reason: str) -> str:
    """A session's end reason in words."""
    return END_WORDS.get(reason, "Ended")


@register.filter
def ended_words(session: Session) -> str:
    """The same of a session, which may be a player's."""
    of_player = PLAYER_END_WORDS.get(session.end_reason) if session.kind == Session.Kind.PLAY else None
    return of_player or end_words(session.end_reason)


@register.filter
def ended_advice(session: Session) -> str:
    """What to do about its end."""
    of_player = PLAYER_END_ADVICE.get(session.end_reason) if session.kind == Session.Kind.PLAY else None
    return of_player or end_advice(session.end_reason)


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
