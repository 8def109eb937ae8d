"""The installation: settings, routes of HTTP, WebSocket and RTMP, Celery, and the embedded server."""

from rtmpweb.celery import app as celery_app  # So that @shared_task finds it in every process.

__all__ = ["celery_app"]
