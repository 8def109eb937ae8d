"""The packager: a node that plays streams as any other node does, and serves them by HLS.

It has no listener of RTMP, and one of HTTP (`http`, by uvicorn). A stream is packaged (`packaged`) once, however many
viewers ask for it; each viewer (`viewers`) is a session, which the application was asked about as about a player."""
