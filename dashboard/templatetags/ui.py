"""Template tags of the dashboard's look: icons and status chips."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

HEALTH_ICONS = {"good": "good", "warning": "warn", "bad": "bad", "none": "none"}
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
