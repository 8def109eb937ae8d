"""Browsers that have logged in to an account: a signed cookie of each, by which the log-in page knows them again.

It opens nothing. Who brings it is only spared the limit that strangers' failures at the account lead to
(`dashboard.throttle.ACCOUNT`); without it that limit would let anybody lock the account's owner out.
"""

import hashlib
import secrets
from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

KNOWN = timedelta(days=30)
"""For so long after the last log-in a browser, and an address, is known."""

SALT = "dashboard.device"


def device_of(request: HttpRequest, username: str) -> str:
    """The browser's own number, if it has logged in to the account; "" if it is not known."""
    found = request.get_signed_cookie(cookie_name(username), default="", salt=SALT, max_age=KNOWN)
    return str(found)


def remember(answer: HttpResponse, username: str) -> None:
    """Has the browser that gets this answer be known."""
    answer.set_signed_cookie(
        cookie_name(username),
        secrets.token_urlsafe(16),
        salt=SALT,
        max_age=KNOWN,
        path=reverse("dashboard:login"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def cookie_name(username: str) -> str:
    """Of the account: several people may use one browser."""
    return f"known_{hashlib.sha256(username.casefold().encode()).hexdigest()[:16]}"
