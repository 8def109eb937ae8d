"""The one ASGI application: HTTP and WebSocket from Daphne, RTMP connections and the node from `ingest.server`."""

import os

from django.core.asgi import get_asgi_application

from rtmpweb import env

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rtmpweb.settings")
env.read_or_exit()
http = get_asgi_application()  # Before anything that imports a model.

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.conf import settings  # noqa: E402

from dashboard.consumers import websocket_urlpatterns  # noqa: E402
from dashboard.system.unavailable import WatchMiddleware  # noqa: E402
from ingest.asgi import SCOPES  # noqa: E402
from ingest.asgi import application as of_node  # noqa: E402
from rtmpweb.checks import close_after_requests  # noqa: E402
from rtmpweb.middleware import AccessLog, ProxiedClient, RequestLimit  # noqa: E402

close_after_requests()

application = ProtocolTypeRouter(
    {
        "http": ProxiedClient(
            AccessLog(WatchMiddleware(RequestLimit(http, settings.HTTP_REQUESTS))), settings.TRUSTED_PROXIES
        ),
        "websocket": ProxiedClient(
            AccessLog(
                WatchMiddleware(AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))))
            ),
            settings.TRUSTED_PROXIES,
        ),
    }
    | dict.fromkeys(SCOPES, of_node)
)
