"""The ASGI application of a media node, which knows no pages: RTMP connections and the node, from `ingest.server`.

To be imported once Django is set up.
"""

from collections.abc import Awaitable
from typing import Any

from ingest.consumers.node import NodeConsumer
from ingest.consumers.rtmp import RtmpConsumer

SCOPES = {"rtmp": RtmpConsumer, "rtmp.node": NodeConsumer}


def application(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
    """No coroutine, as Channels' routers are: it would stay for as long as the connection does, a kilobyte of it."""
    return SCOPES[scope["type"]]()(scope, receive, send)
