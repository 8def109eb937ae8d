"""Addresses of pages for those who are elsewhere: in messages."""

from django.conf import settings


def absolute(path: str) -> str:
    """By the dashboard's public URL, if the settings say one; else by its own address."""
    if settings.PUBLIC_URL:
        return f"{settings.PUBLIC_URL}{path}"
    host, port = settings.HTTP_ADDRESS or ("localhost", 8000)
    return f"http://[{host}]:{port}{path}" if ":" in host else f"http://{host}:{port}{path}"
