"""FLV over HTTP and over WebSocket, from the bytes that all viewers of a stream share.

`connection` has a request from its head to its end and asks the application by `control`; `http` and `websocket` put
the tags that a `viewer` takes from its queue into what the peer reads. TLS is for a proxy before it.
"""

from ingest.server.media.connection import MediaConnection

__all__ = ["MediaConnection"]
