"""The audit log in words."""

from typing import Any

from django import template

register = template.Library()

MOST = 12
"""Lines of one entry's detail."""

PAST = {
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

WHOLE = {
    "login": "Logged in",
    "logout": "Logged out",
    "login.fail": "Log-in failed",
    "login.limit": "Log-ins limited",
    "analytics.run": "Analytics run",
}


@register.filter
def act_words(action: str) -> str:
    """key.rotate becomes "Key rotated"."""
    if action in WHOLE:
        return WHOLE[action]
    subject, _, verb = action.partition(".")
    return f"{subject.replace('_', ' ')} {PAST.get(verb, verb.replace('_', ' '))}".strip().capitalize()


@register.filter
def detail_lines(detail: dict[str, Any]) -> list[str]:
    """An entry's detail as lines, such as "enabled: no, was yes"."""
    lines: list[str] = []
    for name, value in detail.items():
        if name == "changed" and isinstance(value, dict):
            lines += [f"{field.replace('_', ' ')}: {_change(each)}" for field, each in value.items()]
        elif value not in ("", None, [], {}):
            lines.append(f"{name.replace('_', ' ')}: {_said(value)}")
    return lines[:MOST]


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
