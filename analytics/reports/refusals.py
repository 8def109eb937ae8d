"""Refused publishes in words: how many, for what, of which streams."""

from collections import Counter
from collections.abc import Mapping

from analytics.figures import Figures
from analytics.reports.document import Finding, Refusal
from analytics.reports.saying import listed, number, plural

WORDS = {
    "unknown_app": "for an application that there is not",
    "instance_unknown": "for an instance that there is not",
    "too_many_instances": "for an instance too many of the application",
    "app_disabled": "because the application is disabled",
    "key_missing": "without a key",
    "key_unknown": "with an unknown key",
    "key_disabled": "with a disabled key",
    "key_revoked": "with a revoked key",
    "key_expired": "with an expired key",
    "key_other_app": "with another application's key",
    "key_other_stream": "with another stream's key",
    "login_wrong": "with a wrong user or password",
    "login_challenge": "with an answer to another log-in's challenge",
    "login_method": "with an unknown way to log in",
    "login_disabled": "with a disabled log-in",
    "login_revoked": "with a revoked log-in",
    "login_expired": "with an expired log-in",
    "login_other_stream": "with another stream's log-in",
    "network_not_allowed": "from a network that the key does not allow",
    "name_invalid": "with a name that can't be a stream's",
    "stream_disabled": "because the stream is disabled",
    "stream_unknown": "for a stream that there is not",
    "busy": "because the stream was busy",
    "over_limit": "soon after a bitrate over the key's limit",
    "test_over": "soon after a test's end",
    "banned": "from a banned address",
    "database_slow": "because the database was slow",
    "database_error": "because the database was away",
    "callback_refused": "by the authorisation service",
    "callback_failed": "because the authorisation service failed",
    "draining": "because the server was draining",
    "too_many_connections": "because of too many connections",
    "internal_error": "by an error of the server",
}
"""By reason, those of publishes and of connects: as in "6 with an expired key"."""


def words(reason: str) -> str:
    return WORDS.get(reason) or f"by {reason.replace('_', ' ')}"


def listing(together: Figures) -> list[Refusal]:
    """Most first."""
    found = sorted(together.refusals.items(), key=lambda item: (-item[1], item[0]))
    return [
        {"reason": reason, "words": reason.replace("_", " ").capitalize(), "count": count} for reason, count in found
    ]


def finding(together: Figures, streams: Mapping[str, Figures]) -> Finding | None:
    """None where nothing was refused."""
    if not together.refused:
        return None
    whose: dict[str, Counter[str]] = {}
    for path, figures in streams.items():
        for reason, count in figures.refusals.items():
            whose.setdefault(reason, Counter())[path] += count
    parts = [
        f"{number(each['count'])} {words(each['reason'])}{_for(each, whose.get(each['reason'], Counter()))}"
        for each in listing(together)
    ]
    count = together.refused
    return {
        "level": "warning",
        "what": f"{number(count)} {plural(count, 'publish was', 'publishes were')} refused.",
        "advice": f"{listed(parts, most=4)}." if parts else "",
        "stream": "",
    }


def _for(refusal: Refusal, whose: Counter[str]) -> str:
    """The stream's name, where all of them were for one."""
    only = next(iter(whose), "")
    return f" for {only}" if len(whose) == 1 and whose[only] == refusal["count"] else ""
