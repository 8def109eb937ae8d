"""The server's end of a connection.

`connect` pauses the connection, `publish` and `play` their message stream, until `accept_*` or `reject_*` is called.
Everything else that a client may ask is answered here. Names that clients publish or play under may be stream keys: no
answer repeats them.
"""

from ingest.rtmp.server.connection import ServerConnection

__all__ = ["ServerConnection"]
