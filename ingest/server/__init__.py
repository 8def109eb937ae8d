"""The asyncio shell: an RTMP listener that is an ASGI protocol server. See docs/rtmp-asgi.md."""

from ingest.server.config import Deadlines, ServerConfig
from ingest.server.driver import ASGIApplication
from ingest.server.listener import RtmpServer
from ingest.server.process import favour_the_loop

__all__ = ["ASGIApplication", "Deadlines", "RtmpServer", "ServerConfig", "favour_the_loop"]
