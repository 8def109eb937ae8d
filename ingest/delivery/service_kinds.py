"""The kinds of services: what a person fills in for each, where that is found, and what the library is given of it.

What is entered is matched by a pattern and handed over as arguments: the library's own URLs can do more, such as read
files."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True)
class Message:
    """What a service says. `level`: bad, warning, over, ended or test. `key`: of what is the same incident, which
    ends with the message that is `is_over`.
    """

    title: str
    text: str
    url: str
    level: str
    key: str
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """What a person fills in. `pattern`: of all that is accepted; its groups are what is used."""

    name: str
    label: str
    pattern: str
    example: str
    hint: str = ""
    is_secret: bool = True
    is_required: bool = True
    default: str = ""
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """`steps`: where its fields are found. `shown`: what pages show of it, filled in with its options and the ends of
    its secrets. `library`: module and class. `refusals`: what its answers mean, by status.
    """

    steps: str
    fields: tuple[Field, ...]
    shown: str
    library: tuple[str, str]
    arguments: Callable[[Mapping[str, str], Message], dict[str, Any]]
    refusals: Mapping[int, str] = field(default_factory=dict)
    resolves: bool = False
    """The message that an alert is over ends what the first one opened, there."""


def _slack(values: Mapping[str, str], message: Message) -> dict[str, Any]:
    a, b, c = _groups("slack", values)
    return {"token_a": a, "token_b": b, "token_c": c, "include_image": False, "include_footer": False}


def _discord(values: Mapping[str, str], message: Message) -> dict[str, Any]:
    webhook, token = _groups("discord", values)
    return {"webhook_id": webhook, "webhook_token": token, "avatar": False}


def _teams(values: Mapping[str, str], message: Message) -> dict[str, Any]:
    host, port, direct, route, workflow = _groups("teams", values)
    query = parse_qs(urlsplit(values["url"]).query)
    of_address = {"host": host, "port": int(port) if port else None, "workflow": workflow, "routing_id": route}
    of_query = {"signature": query["sig"][0], "version": query.get("api-version", [None])[0]}
    return of_address | of_query | {"power_automate": bool(direct), "include_image": False}


def _telegram(values: Mapping[str, str], message: Message) -> dict[str, Any]:
    return {"bot_token": values["token"], "targets": [values["chat"]], "detect_owner": False}


def _pagerduty(values: Mapping[str, str], message: Message) -> dict[str, Any]:
    """Of one key an incident is opened once, and resolved. `apikey`: the library asks for one, PagerDuty does not."""
    fixed = {"apikey": "-", "source": "rtmpweb", "component": "alerts", "include_image": False, "action": "map"}
    of_service = {"integrationkey": values["key"], "region_name": values["region"]}
    return fixed | of_service | {"click": message.url or None, "dedup": message.key}


NTFY_PRIORITIES = {"bad": "max", "warning": "high"}


def _ntfy(values: Mapping[str, str], message: Message) -> dict[str, Any]:
    server, token = urlsplit(values["server"]), values.get("token") or None
    host = f"[{server.hostname}]" if ":" in (server.hostname or "") else server.hostname
    to = {"host": host, "port": server.port, "secure": server.scheme == "https", "mode": "private"}
    of_service = {"targets": [values["topic"]], "auth": "token" if token else "basic", "token": token}
    priority = NTFY_PRIORITIES.get(message.level)
    return to | of_service | {"include_image": False, "priority": priority, "click": message.url or None}


SLACK_URL = r"https://hooks\.slack\.com/services/([A-Z0-9]+)/([A-Z0-9]+)/([A-Za-z0-9]+)/?"
DISCORD_URL = r"https://(?:(?:canary|ptb)\.)?discord(?:app)?\.com/api/webhooks/([0-9]+)/([A-Za-z0-9_-]+)/?"
TEAMS_URL = (
    r"https://([\w-][\w.-]*\.(?:logic\.azure\.[a-z]+|(?:power|apps)platform(?:\.[a-z0-9-]+){1,3}))(?::([0-9]{1,5}))?"
    r"(/powerautomate/automations/direct(?:/cu/([0-9]+))?)?/workflows/([A-Za-z0-9_-]+)/triggers/manual/paths/invoke/?"
    r"\?(?:\S*&)?sig=[A-Za-z0-9_-]+(?:&\S*)?"
)

KINDS: Mapping[str, ServiceKind] = {
    "slack": ServiceKind(
        "At api.slack.com/apps open or create an app, turn Incoming Webhooks on, then Add New Webhook to Workspace and "
        "choose the channel. Copy its Webhook URL.",
        (Field("url", "Webhook URL", SLACK_URL, "https://hooks.slack.com/services/T000/B000/XXXX"),),
        "hooks.slack.com, …{url}",
        ("slack", "NotifySlack"),
        _slack,
        {403: "the channel or workspace does not let it post", 410: "the channel was archived"},
    ),
    "discord": ServiceKind(
        "In Discord open the channel's settings, Integrations, Webhooks, New Webhook, then Copy Webhook URL.",
        (Field("url", "Webhook URL", DISCORD_URL, "https://discord.com/api/webhooks/0000/XXXX"),),
        "discord.com, …{url}",
        ("discord", "NotifyDiscord"),
        _discord,
    ),
    "teams": ServiceKind(
        "In Teams, in the channel's menu (…), choose Workflows, then “Send webhook alerts to a channel” (or “Post to a "
        "channel when a webhook request is received”), and copy the URL that it ends with.",
        (
            Field(
                "url",
                "Workflow URL",
                TEAMS_URL,
                "https://prod-00.westeurope.logic.azure.com:443/workflows/…/triggers/manual/paths/invoke?…&sig=XXXX",
            ),
        ),
        "Teams workflow, …{url}",
        ("workflows", "NotifyWorkflows"),
        _teams,
        {
            401: "the workflow's URL is wrong or has expired",
            403: "the workflow's URL is wrong or has expired",
            404: "the workflow was deleted",
        },
    ),
    "telegram": ServiceKind(
        "Send /newbot to @BotFather and copy the token. Add the bot to the chat. The chat's ID is in "
        "api.telegram.org/bot<token>/getUpdates once somebody wrote there; a public channel's is its @name.",
        (
            Field("token", "Bot token", r"[0-9]{5,}:[A-Za-z0-9_-]{20,}", "123456789:AAExampleOfAToken_0123456789"),
            Field("chat", "Chat ID", r"-?[0-9]{1,20}|@[A-Za-z]\w{3,31}", "-1001234567890", is_secret=False),
        ),
        "chat {chat}, bot …{token}",
        ("telegram", "NotifyTelegram"),
        _telegram,
        {
            401: "the bot's token is wrong or was revoked",
            403: "the bot was blocked or removed from the chat",
            404: "the bot's token is wrong",
        },
    ),
    "pagerduty": ServiceKind(
        "In PagerDuty open the service, Integrations, Add an integration, Events API V2, and copy its Integration Key. "
        "When an alert is resolved, so is its incident.",
        (
            Field("key", "Integration key", r"[A-Za-z0-9]{32}", "0123456789abcdef0123456789abcdef"),
            Field(
                "region",
                "Region",
                "us|eu",
                "us",
                is_secret=False,
                default="us",
                choices=(("us", "US (app.pagerduty.com)"), ("eu", "EU (app.eu.pagerduty.com)")),
            ),
        ),
        "region {region}, key …{key}",
        ("pagerduty", "NotifyPagerDuty"),
        _pagerduty,
        {400: "the integration key is wrong"},
        resolves=True,
    ),
    "ntfy": ServiceKind(
        "Subscribe to a topic in the ntfy app and enter the same here. On ntfy.sh whoever knows a topic can read it: "
        "choose one that can't be guessed.",
        (
            Field(
                "server",
                "Server",
                r"https?://[^\s/?#@]+/?",
                "https://ntfy.sh",
                is_secret=False,
                default="https://ntfy.sh",
            ),
            Field("topic", "Topic", r"[A-Za-z0-9_-]{1,64}", "studio-alerts-x7Q2"),
            Field(
                "token",
                "Access token",
                r"tk_[A-Za-z0-9]+",
                "tk_…",
                "Only if the server asks for one.",
                is_required=False,
            ),
        ),
        "{server}, topic …{topic}",
        ("ntfy", "NotifyNtfy"),
        _ntfy,
        {401: "the access token is wrong", 403: "the topic needs an access token that may publish to it"},
    ),
}
"""By Service.Kind."""


def _groups(kind: str, values: Mapping[str, str]) -> tuple[Any, ...]:
    """The parts of its URL."""
    matched = re.fullmatch(KINDS[kind].fields[0].pattern, values["url"])
    if matched is None:
        raise ValueError("The URL is of another service.")
    return matched.groups()
