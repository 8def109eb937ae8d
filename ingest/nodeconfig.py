"""The RTMP server's configuration from the project's settings: the same for `runrtmp` and the embedded server."""

from django.conf import settings

from ingest.server import ServerConfig
from ingest.services import nodes


def server_config(rtmp: tuple[str, int]) -> ServerConfig:
    """A listener on `rtmp` (host, port) as RTMPWEB_* say."""
    return ServerConfig(
        node=nodes.own_name(),
        rtmp=rtmp,
        flush_ms=settings.FLUSH_MS,
        disk=settings.DATA_DIR,
        max_connections=settings.MAX_CONNECTIONS,
        max_connections_per_address=settings.MAX_CONNECTIONS_PER_ADDRESS,
    )
