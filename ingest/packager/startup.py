"""A packager by the project's settings: a node without listeners, and what its viewers may take."""

from dataclasses import replace

from django.conf import settings

from ingest.consumers.startup import server_config
from ingest.hls import HlsSettings
from ingest.models import Node
from ingest.packager.packager import Packager
from ingest.packager.settings import PackagerSettings
from ingest.server.asgi import ASGIApplication
from ingest.services import nodes

SUFFIX = "-hls"
"""Of its node's name, so that it may run beside a media node of the same settings."""


def packager_name() -> str:
    return f"{nodes.own_name()}{SUFFIX}"


def make(application: ASGIApplication, address: tuple[str, int]) -> Packager:
    """`address`: where it listens. Raises ImproperlyConfigured."""
    node = packager_name()
    # Whatever the node beside it is told: a packager pulls nothing, and nobody reaches a stream by it.
    settings.ROLE, settings.NODE_URL = Node.Role.PACKAGER, ""
    bounds = PackagerSettings(
        proxies=settings.TRUSTED_PROXIES,
        rewind=settings.DATA_DIR / "hls" / node if settings.REWIND_S else None,
        rewind_s=settings.REWIND_S,
    )
    config = replace(
        server_config(None),
        node=node,
        local=None,
        hls=address,
        recording=None,
        thumbnails=None,
        max_connections=bounds.viewers,
        max_connections_per_address=bounds.viewers_per_address,
    )
    return Packager(application, config, bounds, HlsSettings(rewind_s=settings.REWIND_S), settings.SECRET_KEY.encode())
