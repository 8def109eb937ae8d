"""Whose certificates are believed, of services that we call."""

import ssl
from functools import cache

import certifi


@cache
def tls() -> ssl.SSLContext:
    """Those that the system trusts, and those that certifi does, for a system that has none."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context
