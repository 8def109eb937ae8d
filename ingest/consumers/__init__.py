"""The applications behind the RTMP server's scopes: one for each connection, one for each node."""

from ingest.consumers.node import NodeConsumer
from ingest.consumers.rtmp import RtmpConsumer

__all__ = ["NodeConsumer", "RtmpConsumer"]
