"""The asyncio shell: an RTMP listener that is an ASGI protocol server. See docs/rtmp-asgi.md."""

from ingest.server.asgi import ASGIApplication
from ingest.server.config import Deadlines, ServerConfig
from ingest.server.listener import RtmpServer
from ingest.server.process import connections_possible, tune_for_event_loop
from ingest.server.sockets import ListenError
from ingest.server.tls import CertificateError

__all__ = [
    "ASGIApplication",
    "CertificateError",
    "Deadlines",
    "ListenError",
    "RtmpServer",
    "ServerConfig",
    "connections_possible",
    "tune_for_event_loop",
]
