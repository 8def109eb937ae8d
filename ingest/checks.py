"""System checks: settings that stop the server or endanger it, each with an id and what to do."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError
from django.utils import timezone

from ingest.models import Application
from ingest.server import connections_possible, tls
from ingest.services import media_urls
from ingest.services.media_urls import WILDCARDS

PEPPER_CHARACTERS = 32

RENEW = "Put a new pair in the place of RTMPWEB_TLS_CERT and RTMPWEB_TLS_KEY; it is taken up without a restart."


@register(Tags.security)
def pepper(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    if len(settings.KEY_PEPPER) >= PEPPER_CHARACTERS:
        return []
    return [
        Error(
            f"RTMPWEB_KEY_PEPPER has fewer than {PEPPER_CHARACTERS} characters.",
            hint="Unset it, so that one is made and kept in the data folder, or give a long random text. "
            "Changing it makes all stream keys and API tokens invalid.",
            id="ingest.E001",
        )
    ]


@register(Tags.compatibility)
def listeners(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    addresses = {
        "RTMPWEB_HTTP": settings.HTTP_ADDRESS,
        "RTMPWEB_RTMP": settings.RTMP_ADDRESS,
        "RTMPWEB_RTMPS": settings.RTMPS_ADDRESS,
        "RTMPWEB_MEDIA": settings.MEDIA_ADDRESS,
    }
    taken: dict[int, str] = {}
    found: list[CheckMessage] = []
    for name, address in addresses.items():
        if address is None or address[1] == 0:
            continue
        if address[1] in taken:
            found.append(
                Error(
                    f"{taken[address[1]]} and {name} have the same port, {address[1]}.",
                    hint="Give each listener a port of its own.",
                    id="ingest.E002",
                )
            )
        taken.setdefault(address[1], name)
    return found


@register(Tags.security, deploy=True)
def certificate(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """RTMPS can be served with what is set, and for some time to come. (Other commands do without.)"""
    chain, key = settings.TLS_CERT, settings.TLS_KEY
    if settings.RTMPS_ADDRESS is None:
        if chain is None and key is None:
            return []
        return [
            CheckWarning(
                "A certificate is set, but RTMPWEB_RTMPS is off: nothing is served with it.",
                hint="Set RTMPWEB_RTMPS, such as to 0.0.0.0:1936, or unset RTMPWEB_TLS_CERT and RTMPWEB_TLS_KEY.",
                id="ingest.W003",
            )
        ]
    if chain is None or key is None:
        return [
            Error(
                "RTMPWEB_RTMPS is set, its certificate or key is not.",
                hint="Name both PEM files in RTMPWEB_TLS_CERT and RTMPWEB_TLS_KEY, or set RTMPWEB_RTMPS=off.",
                id="ingest.E003",
            )
        ]
    try:
        expires = tls.load(chain, key).expires
    except tls.CertificateError as error:
        return [Error("RTMPS can't be served.", hint=str(error), id="ingest.E004")]
    now = timezone.now()
    if expires <= now:
        words = f"The certificate for RTMPS expired on {expires:%d %b %Y, %H:%M} UTC: encoders refuse it."
        return [Error(words, hint=RENEW, id="ingest.E005")]
    if expires - now < tls.WARN_BEFORE:
        words = f"The certificate for RTMPS expires on {expires:%d %b %Y, %H:%M} UTC."
        return [CheckWarning(words, hint=RENEW, id="ingest.W004")]
    return []


@register(Tags.compatibility, deploy=True)
def open_files(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    if connections_possible() >= settings.MAX_CONNECTIONS:
        return []
    return [
        CheckWarning(
            f"A process may open too few files for {settings.MAX_CONNECTIONS} connections: "
            f"{connections_possible()} are possible.",
            hint="Raise its limit (ulimit -Hn; LimitNOFILE= of systemd), or lower RTMPWEB_MAX_CONNECTIONS.",
            id="ingest.W005",
        )
    ]


@register(Tags.compatibility, deploy=True)
def public_host(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    if settings.RTMP_HOST or settings.RTMP_ADDRESS is None or settings.RTMP_ADDRESS[0] not in WILDCARDS:
        return []
    return [
        CheckWarning(
            "Nobody knows by which name encoders reach this server: the strings to paste say 127.0.0.1.",
            hint="Set RTMPWEB_RTMP_HOST to the server's host name or address.",
            id="ingest.W001",
        )
    ]


@register(Tags.compatibility, deploy=True)
def media_url(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    address = settings.MEDIA_ADDRESS
    if address is None or settings.MEDIA_URL_BASE or (address[0] not in WILDCARDS and not settings.BEHIND_TLS):
        return []
    return [
        CheckWarning(
            "Nobody knows by which URL browsers reach the media listener: what they are given says "
            f"{media_urls.media_base()}.",
            hint="Set RTMPWEB_MEDIA_URL, such as to https://media.example.org, or RTMPWEB_MEDIA=off.",
            id="ingest.W006",
        )
    ]


@register(Tags.database, deploy=True)
def open_applications(app_configs: Any, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Asked with `check --deploy --database default`."""
    if not databases:
        return []
    try:
        names = list(
            Application.objects.filter(enabled=True, publish_policy=Application.PublishPolicy.OPEN).values_list(
                "name", flat=True
            )
        )
    except DatabaseError:
        return []  # Not migrated yet.
    return [
        CheckWarning(
            f"Anyone may publish to the application {name} under any name.",
            hint=f"On a network that isn't trusted: manage.py application set {name} --publish key",
            id="ingest.W002",
        )
        for name in names
    ]
