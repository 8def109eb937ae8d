"""The applications behind the RTMP server's scopes (ingest.asgi): one for each connection, one for each node."""
