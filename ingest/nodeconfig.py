"""The RTMP server's configuration from the project's settings: the same for `runrtmp` and the embedded server."""

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from ingest.server import ServerConfig
from ingest.services import nodes

SETTINGS = {"rtmp": "RTMPWEB_RTMP", "rtmps": "RTMPWEB_RTMPS"}
"""The setting of each listener's address."""


def server_config(rtmp: tuple[str, int] | None, rtmps: tuple[str, int] | None = None) -> ServerConfig:
    """Listeners on `rtmp` and, with TLS, on `rtmps` (host, port), as RTMPWEB_* say. Raises ImproperlyConfigured."""
    if rtmps and not (settings.TLS_CERT and settings.TLS_KEY):
        raise ImproperlyConfigured(
            "RTMPWEB_RTMPS needs a certificate: name its PEM files in RTMPWEB_TLS_CERT and RTMPWEB_TLS_KEY."
        )
    return ServerConfig(
        node=nodes.own_name(),
        rtmp=rtmp,
        rtmps=rtmps,
        certificate=settings.TLS_CERT,
        certificate_key=settings.TLS_KEY,
        reconnect_url=settings.RECONNECT_URL,
        flush_ms=settings.FLUSH_MS,
        read_ms=settings.READ_MS,
        disk=settings.DATA_DIR,
        max_connections=settings.MAX_CONNECTIONS,
        max_connections_per_address=settings.MAX_CONNECTIONS_PER_ADDRESS,
    )
