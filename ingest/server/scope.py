"""What a connection's scope says of its client: the `connect` command with its secrets taken out."""

from dataclasses import dataclass, field
from sys import intern
from typing import Any

from ingest.contracts import ClientCapabilities, LoginAnswer
from ingest.rtmp import events
from ingest.rtmp.capabilities import CapsEx
from ingest.rtmp.messages.values import text
from ingest.server import credentials

URLS = ("tcUrl", "swfUrl", "pageUrl")

FLASH_VER_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Caller:
    """Who called, as `connect` tells it. Empty for a connection that never got so far."""

    app: str = ""
    tc_url: str = ""
    flash_ver: str = ""
    query: dict[str, str] = field(default_factory=dict)
    connect: dict[str, Any] = field(default_factory=dict)
    capabilities: ClientCapabilities = field(default_factory=ClientCapabilities)
    credential: str = field(default="", repr=False)
    login: LoginAnswer | None = field(default=None, repr=False)

    @property
    def reconnects(self) -> bool:
        """Whether the client acts on a reconnect request."""
        return bool(self.capabilities.get("capsEx", 0) & CapsEx.RECONNECT)


def read_caller(event: events.ConnectRequested) -> Caller:
    """Everything but `credential` and `login` is masked."""
    target = credentials.split_app(event.app)
    secret = target.credential
    raw_app = event.app.partition("?")[0].strip("/")
    properties = event.properties
    urls = {
        name: credentials.scrub_url(properties[name], raw_app, secret)
        for name in URLS
        if isinstance(properties.get(name), str)
    }
    said = {name: value for name, value in event.capabilities.properties().items() if name not in URLS}
    others = {name: value for name, value in properties.items() if name not in urls and name != "app"}
    command = _shared(credentials.scrub(others, secret) | urls | {"app": target.name})
    return Caller(
        app=command["app"],
        tc_url=command.get("tcUrl", ""),
        flash_ver=text(command.get("flashVer"))[:FLASH_VER_LENGTH],
        query=target.query,
        connect={"object": command, "arguments": credentials.scrub(event.arguments, secret)},
        capabilities=credentials.scrub(said, secret),
        credential=secret,
        login=target.login,
    )


def _shared(command: dict[str, Any]) -> dict[str, Any]:
    """With texts that all connections share which say the same: a thousand players of one kind do."""
    return {intern(name): intern(value) if type(value) is str else value for name, value in command.items()}
