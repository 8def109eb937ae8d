"""What goes out to other services and people: how it is signed, whose certificates are believed, and the addresses of
our pages in messages.

`X-Rtmpweb-Signature: t=SECONDS,v1=HEX`: HMAC-SHA-256 under the shared secret of the time, a full stop and the body."""

import hashlib
import hmac
import ssl
from functools import cache

import certifi
from django.conf import settings

SIGNATURE_HEADER = "X-Rtmpweb-Signature"


def signature(secret: str, body: bytes, at: float) -> str:
    """The header's value. `at`: seconds since the epoch, so that receivers can refuse what is old."""
    seconds = int(at)
    digest = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


@cache
def tls_context() -> ssl.SSLContext:
    """Those that the system trusts, and those that certifi does, for a system that has none."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def absolute_url(path: str) -> str:
    """By the dashboard's public URL, if the settings say one; else by its own address."""
    if settings.PUBLIC_URL:
        return f"{settings.PUBLIC_URL}{path}"
    host, port = settings.HTTP_ADDRESS or ("localhost", 8000)
    return f"http://[{host}]:{port}{path}" if ":" in host else f"http://{host}:{port}{path}"
