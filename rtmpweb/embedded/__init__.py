"""The embedded server: one event loop for HTTP, WebSocket and RTMP; the Celery workers are its children."""
