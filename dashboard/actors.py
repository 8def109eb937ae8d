"""Who does it, for the audit log (`ingest.services.audit.record`): the user of a page, the caller of the API."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.http import HttpRequest

from ingest import acting
from ingest.roles import Ability
from ingest.services.audit import Actor


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks the API, as `dashboard.api.auth` finds it. A token has no user."""

    name: str
    abilities: frozenset[Ability]
    user: User | None


def actor_of(request: HttpRequest) -> Actor:
    """The user that is logged in; in an operation of the API its caller, which may be a token ("token NAME")."""
    caller = getattr(request, "auth", None)
    if isinstance(caller, Caller):
        return Actor(caller.name, caller.user, acting.client_address(request))
    return acting.actor_of(request)
