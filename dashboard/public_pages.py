"""Pages without a log-in, which whoever was sent a link opens, and where such links lead: these pages are in no search
and no cache, give away no URL, and are counted by address."""

from typing import Final

from django.http import HttpRequest, HttpResponse

from dashboard.throttle import Limit
from ingest.addresses import unit_or_itself
from ingest.services import audit

HEADERS: Final = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex, nofollow"}


def closed(response: HttpResponse) -> HttpResponse:
    """The response, with what keeps it to who asked for it."""
    for name, value in HEADERS.items():
        response[name] = value
    return response


def take_of_address(limit: Limit, request: HttpRequest) -> bool:
    """Counts a request. False: its address has sent too many."""
    return limit.take(unit_or_itself(audit.client_address(request)))


def site_of(request: HttpRequest) -> str:
    """http[s]://host[:port], by which the dashboard was reached: for links that are made, where no setting says its
    public address."""
    return request.build_absolute_uri("/").rstrip("/")
