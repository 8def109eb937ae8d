"""Who asks by HTTP, as the audit log names them: for the admin here, for pages and API by dashboard/actors.py."""

from django.contrib.auth.models import User
from django.http import HttpRequest

from ingest.services.audit import Actor


def client_address(request: HttpRequest) -> str:
    """Where the request comes from; behind a trusted proxy (rtmpweb/proxied.py), the proxy's client."""
    return str(request.META.get("REMOTE_ADDR", ""))


def actor_of(request: HttpRequest) -> Actor:
    """The logged-in user."""
    user = request.user
    assert isinstance(user, User)  # noqa: S101  # Pages and admin let no other act.
    return Actor(user.get_username(), user, client_address(request))
