"""The asyncio shell: an RTMP listener that is an ASGI protocol server. See docs/rtmp-asgi.md."""

from ingest.server.config import Deadlines, ServerConfig
from ingest.server.driver import ASGIApplication
from ingest.server.listener import RtmpServer
from ingest.server.listening import ListenError
from ingest.server.process import connections_possible, favour_the_loop
from ingest.server.tls import CertificateError

__all__ = [
    "ASGIApplication",
    "CertificateError",
    "Deadlines",
    "ListenError",
    "RtmpServer",
    "ServerConfig",
    "connections_possible",
    "favour_the_loop",
]
