"""FLV over HTTP and over WebSocket, from the bytes that all viewers of a stream share.

`connection` has a request from its head to its end, and `requests` asks the application for it; `http` puts the tags
that a `live_viewer` takes from its queue, or what a `recording_viewer` reads, into what the peer reads. TLS is for a
proxy.
"""

from ingest.server.media.connection import MediaConnection
from ingest.server.media.requests import MediaControl

__all__ = ["MediaConnection", "MediaControl"]
