"""What a connection's scope says of its client: the `connect` command with its secrets taken out."""

import math
from dataclasses import dataclass, field
from typing import Any

from ingest.rtmp import events
from ingest.server import credentials

CAPABILITIES = (
    "capabilities",
    "audioCodecs",
    "videoCodecs",
    "videoFunction",
    "fourCcList",
    "videoFourCcInfoMap",
    "audioFourCcInfoMap",
    "capsEx",
    "supportsGoAway",
)
"""What the client says in `connect` that it can do."""

CAPS_RECONNECT = 0x01
"""Of `capsEx` (Enhanced RTMP v2)."""

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
    capabilities: dict[str, Any] = field(default_factory=dict)
    credential: str = field(default="", repr=False)

    @property
    def reconnects(self) -> bool:
        """Whether the client acts on a reconnect request."""
        flags = self.capabilities.get("capsEx")
        return isinstance(flags, float) and math.isfinite(flags) and bool(int(flags) & CAPS_RECONNECT)


def read_caller(event: events.ConnectRequested) -> Caller:
    """Everything but `credential` is masked."""
    target = credentials.split_app(event.app)
    secret = target.credential
    raw_app = event.app.partition("?")[0].strip("/")
    properties = event.properties
    urls = {
        name: credentials.scrub_url(properties[name], raw_app, secret)
        for name in URLS
        if isinstance(properties.get(name), str)
    }
    command = credentials.scrub(properties, secret) | urls | {"app": target.name}
    return Caller(
        app=target.name,
        tc_url=urls.get("tcUrl", ""),
        flash_ver=credentials.scrub_text(event.flash_ver, secret)[:FLASH_VER_LENGTH],
        query=target.query,
        connect={"object": command, "arguments": credentials.scrub(event.arguments, secret)},
        capabilities={name: command[name] for name in CAPABILITIES if name in command},
        credential=secret,
    )
