"""Template filters of a report's mail: it has no icons and no scripts: all is said in words."""

import textwrap

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from analytics import wording
from analytics.reports import document
from analytics.wording import marked

register = template.Library()

WIDTH = 78

register.filter("number", wording.number)
register.filter("percent", wording.percent)
register.filter("short", wording.short)
register.filter("level", wording.level_words)
register.filter("breaks_head", document.breaks_head)
register.filter("breaks", document.breaks)
register.filter("lost_min", document.lost_min)
register.filter("share", document.share)


@register.filter
def bold(text: str) -> SafeString:
    """What stands between ** in bold."""
    return format_html_join(
        "", "{}", ((format_html("<b>{}</b>", part) if is_bold else part,) for part, is_bold in marked(text))
    )


@register.filter
def plain(text: str) -> str:
    """Without the marks of what is bold."""
    return "".join(part for part, _ in marked(text))


@register.filter
def wrapped(text: str, indent: int = 0) -> str:
    """`indent`: that of the lines after the first, which stands where it stands."""
    return textwrap.fill(
        text, WIDTH - indent, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


@register.filter
def column(text: str, width: int) -> str:
    """Filled up to a width, with at least a space behind it."""
    return f"{text + ':':<{width}} "
