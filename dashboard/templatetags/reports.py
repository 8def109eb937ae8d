"""What the pages of reports and of runs show in words and marks."""

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from analytics.models import ReportDelivery
from analytics.reports.saying import marked
from dashboard.templatetags.ui import HEALTH_ICONS, HEALTH_WORDS, icon

register = template.Library()

MAILS = {
    ReportDelivery.State.WAITING: ("clock", "plain", "Waiting"),
    ReportDelivery.State.SENDING: ("clock", "plain", "Being sent"),
    ReportDelivery.State.SENT: ("good", "good", "Sent"),
    ReportDelivery.State.FAILED: ("bad", "bad", "Given up"),
}
"""By a delivery's state: icon, class, word."""


@register.filter
def bolded(text: str) -> SafeString:
    """What stands between pairs of asterisks in bold."""
    parts = ((format_html("<b>{}</b>", part) if is_bold else part,) for part, is_bold in marked(text))
    return format_html_join("", "{}", parts)


@register.simple_tag
def health_mark(health: str) -> SafeString:
    """A health as an icon; its word is for those who don't see it."""
    name, word = HEALTH_ICONS.get(health, "none"), HEALTH_WORDS.get(health, "No data")
    return format_html('<span class="w-{}">{}<span class="vh">{}</span></span>', name, icon(name), word)


@register.simple_tag
def mail_chip(delivery: ReportDelivery) -> SafeString:
    """What became of an e-mail as icon and word. One that failed and is to be tried again is said to be."""
    name, classes, word = MAILS[ReportDelivery.State(delivery.state)]
    if delivery.state == ReportDelivery.State.WAITING and delivery.error:
        name, classes, word = "warn", "warn", "Failed, tried again"
    return format_html('<span class="chip {}">{}{}</span>', classes, icon(name), word)
