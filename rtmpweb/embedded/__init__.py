"""The embedded server: one event loop for HTTP, WebSocket and RTMP; the Celery workers are its children.

Its HTTP server is the web process's as well.
"""
