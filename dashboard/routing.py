"""The WebSocket routes; `rtmpweb.asgi` puts them behind the origin check and the session."""

from django.urls import path

from dashboard.consumers import AttemptsConsumer, LiveConsumer, StreamConsumer

websocket_urlpatterns = [
    path("ws/live/", LiveConsumer.as_asgi()),
    path("ws/attempts/", AttemptsConsumer.as_asgi()),
    path("ws/streams/<int:pk>/", StreamConsumer.as_asgi()),
]
