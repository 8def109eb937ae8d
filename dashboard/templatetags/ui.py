"""Template tags of the dashboard's look: icons, status chips, figures (thousands by comma, a dash where there is none),
and what stands in the database, the audit log among it, in words."""

import shlex
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from dashboard.models import Alert
from ingest import command_line
from ingest.contracts import StreamSnapshot, end_of
from ingest.live.health.engine import span
from ingest.models import Delivery, Session
from ingest.services import refusals
from ingest.services.refusals import REASONS

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


MAX_DETAIL_LINES = 12
"""Lines of one entry's detail."""

VERBS_PAST = {
    "create": "created",
    "change": "changed",
    "delete": "deleted",
    "revoke": "revoked",
    "rotate": "rotated",
    "enable": "enabled",
    "disable": "disabled",
    "kick": "kicked",
    "drain": "drained",
    "resume": "resumed",
    "forget": "removed",
    "lift": "lifted",
    "keep": "kept",
    "unkeep": "no longer kept",
    "download": "downloaded",
    "watch": "watched",
    "import": "imported",
    "run": "started",
    "retry": "retried",
    "recompute": "recomputed",
    "make": "made",
    "send": "sent",
    "password": "password changed",
    "acknowledge": "acknowledged",
    "mute": "silenced",
    "unmute": "no longer silenced",
    "note": "note changed",
    "start": "started",
    "stop": "stopped",
}

WHOLE_ACTIONS = {
    "login": "Logged in",
    "logout": "Logged out",
    "login.fail": "Log-in failed",
    "login.limit": "Log-ins rate-limited",
    "api_token.create": "API token created",
    "api_token.revoke": "API token revoked",
    "stream.play_policy": "Who may watch changed",
    "play_token.replace": "Links to a stream replaced",
    "analytics.run": "Analytics updated",
    "analytics.generate": "Test data generated",
}


@register.filter
def action_words(action: str) -> str:
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
            lines.append(f"{name.replace('_', ' ')}: {_in_words(value)}")
    return lines[:MAX_DETAIL_LINES]


def _change(pair: Any) -> str:
    if isinstance(pair, list) and len(pair) == 2:
        return f"{_in_words(pair[1])}, was {_in_words(pair[0])}"
    return _in_words(pair[0]) if isinstance(pair, list) and len(pair) == 1 else _in_words(pair)


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in (None, "", [], {}):
        return "none"
    return ", ".join(_in_words(each) for each in value) if isinstance(value, list) else str(value)


@register.simple_tag
def icon(name: str, classes: str = "") -> SafeString:
    """An icon of `_icons.html`. It is decoration: the word beside it carries the meaning."""
    return format_html(
        '<svg class="i{}" aria-hidden="true"><use href="#i-{}"/></svg>', f" {classes}" if classes else "", name
    )


class Chip(NamedTuple):
    """A state as icon and word, and the class of its colours."""

    icon: str
    classes: str
    word: str


HEALTH_CHIPS = {
    "good": Chip("good", "good", "Good"),
    "warning": Chip("warn", "warn", "Warning"),
    "bad": Chip("bad", "bad", "Bad"),
    "none": Chip("none", "none", "No data"),
    "checking": Chip("none", "none", "Checking"),
}
"""`checking`: of a stream on air whose health is not judged yet."""
PART_CHIPS = {
    "ok": Chip("good", "good", "OK"),
    "degraded": Chip("warn", "warn", "Degraded"),
    "down": Chip("bad", "bad", "Down"),
    "unknown": Chip("none", "none", "Unknown"),
}
NODE_CHIPS = {
    "up": Chip("good", "good", "Up"),
    "draining": Chip("warn", "warn", "Draining"),
    "missing": Chip("bad", "bad", "Missing"),
    "down": Chip("bad", "bad", "Down"),
    "stopped": Chip("none", "none", "Stopped"),
}
RELAY_CHIPS = {
    "connecting": Chip("clock", "plain", "Connecting"),
    "live": Chip("good", "good", "Live"),
    "failing": Chip("bad", "bad", "Out of reach"),
}
DELIVERY_CHIPS = {
    "waiting": Chip("clock", "plain", "Queued"),
    "sending": Chip("clock", "plain", "Being sent"),
    "done": Chip("good", "good", "Delivered"),
    "sent": Chip("good", "good", "Sent"),
    "dropped": Chip("none", "plain", "Not sent"),
}
"""Of webhooks' messages and of e-mails."""
GIVEN_UP = Chip("bad", "bad", "Given up")
TRIED_AGAIN = Chip("warn", "warn", "Failed, tried again")


OUTCOME_CHIPS = {
    Alert.Outcome.FIXED: Chip("good", "good", "Resolved"),
    Alert.Outcome.EASED: Chip("warn", "warn", "Eased"),
    Alert.Outcome.DROPPED: Chip("bad", "bad", "Dropped, not fixed"),
    Alert.Outcome.ENDED: Chip("out", "plain", "Ended, not fixed"),
    Alert.Outcome.WITHDRAWN: Chip("mute", "plain", "No longer watched"),
    "": Chip("check", "plain", "Cleared"),  # By a former version, which did not say more.
}
"""What became of an alert."""


def chip_for(health: str) -> Chip:
    return HEALTH_CHIPS.get(health, HEALTH_CHIPS["none"])


def health_of(stream: StreamSnapshot) -> str:
    """What its chip says."""
    return "checking" if stream["health"] == "none" and stream.get("checking_s") else stream["health"]


def show_chip(chip: Chip, attributes: str = "") -> SafeString:
    return format_html('<span class="chip {}"{}>{}{}</span>', chip.classes, attributes, icon(chip.icon), chip.word)


@register.simple_tag
def stream_chip(stream: StreamSnapshot) -> SafeString:
    return health_chip(health_of(stream))


@register.simple_tag
def health_chip(health: str) -> SafeString:
    return show_chip(chip_for(health), format_html(' data-health="{}"', health))


@register.simple_tag
def chip(of: Literal["part", "node", "relay"], state: str) -> SafeString:
    return show_chip({"part": PART_CHIPS, "node": NODE_CHIPS, "relay": RELAY_CHIPS}[of][state])


@register.simple_tag
def outcome_chip(outcome: str) -> SafeString:
    return show_chip(OUTCOME_CHIPS[outcome])


@register.simple_tag
def delivery_chip(state: str, error: str) -> SafeString:
    """What became of a message. One that failed and is to be tried again is said to be."""
    return show_chip(TRIED_AGAIN if state == "waiting" and error else DELIVERY_CHIPS.get(state, GIVEN_UP))


@register.simple_tag
def manage(command: str, *arguments: str) -> str:
    """How a command is run here, from a shell in any folder."""
    return command_line.manage(command, *map(shlex.quote, arguments))


@register.simple_tag
def celery(command: str) -> str:
    """The same of Celery's command."""
    return command_line.celery(command)


@register.simple_tag
def manage_short(command: str) -> str:
    """The same for pages that anybody sees: it names no folder."""
    return command_line.short(command)


@register.filter
def table_name(opts: Any) -> str:
    """Of a model in the admin, by its options."""
    from ingest.admin_site import label_of  # Mails are drawn by workers, which have no admin.

    return capfirst(label_of(opts.model))


@register.filter
def delivery_words(row: Delivery) -> str:
    """What became of a message, in a sentence: Delivered in 0.4 s."""
    if row.state == Delivery.State.DONE:
        return f"Delivered in {row.duration_ms / 1000:.1f} s." if row.duration_ms is not None else "Delivered."
    return row.error or "On its way."


@register.filter
def node_words(state: str) -> str:
    return NODE_CHIPS[state].word.lower()


@register.simple_tag
def session_link(session: UUID, words: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', reverse("dashboard:session", args=[session]), words)


@register.simple_tag
def lasted(start: datetime, end: datetime) -> str:
    """How long something lasted: 42 s, 3 min 5 s, 1 h 38 min, 6 d 4 h."""
    return span(round((end - start).total_seconds()))


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
    return end_of(reason).words


@register.filter
def ended_words(session: Session) -> str:
    """The same of a session, which may be a player's."""
    return end_of(session.end_reason).words_of(plays=session.kind == Session.Kind.PLAY)


@register.filter
def ended_advice(session: Session) -> str:
    return end_of(session.end_reason).advice_of(plays=session.kind == Session.Kind.PLAY)


@register.filter
def end_advice(reason: str) -> str:
    return end_of(reason).advice


@register.filter
def reason_words(reason: str) -> str:
    """A refusal's code as words: "key_unknown" becomes "Wrong key". A sentence stays as it is."""
    return reason if " " in reason else refusals.reason_words(reason)


@register.filter
def attempt_advice(reason: str) -> str:
    """What to do about a refused connection; nothing where nothing needs to be done."""
    return REASONS[reason].advice if reason in REASONS else ""
