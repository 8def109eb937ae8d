"""Template tags of the dashboard's look: icons, status chips, and what stands in the database in words."""

from datetime import datetime

from django import template
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
    "node_shutdown": "Server stopped",
    "node_lost": "Server lost",
    "lease_lost": "Lease lost",
}
"""By end reason; static/dashboard/js/words.js says the same for what arrives live."""
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


@register.simple_tag
def lasted(start: datetime, end: datetime) -> str:
    """How long something lasted: 42 s, 3 min 05 s, 1 h 38 min, 6 d 4 h."""
    seconds = max(0, round((end - start).total_seconds()))
    for large, large_name, small, small_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= large:
            return f"{seconds // large}\u00a0{large_name} {seconds % large // small}\u00a0{small_name}"
    return f"{seconds}\u00a0s"


@register.filter
def end_words(reason: str) -> str:
    """A session's end reason in words."""
    return END_WORDS.get(reason, "Ended")
