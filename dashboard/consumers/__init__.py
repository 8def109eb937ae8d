"""The WebSocket consumers of the pages."""

from dashboard.consumers.attempts import AttemptsConsumer
from dashboard.consumers.stream import StreamConsumer
from dashboard.consumers.wall import LiveConsumer

__all__ = ["AttemptsConsumer", "LiveConsumer", "StreamConsumer"]
