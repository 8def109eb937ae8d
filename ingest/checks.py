"""System checks: settings that stop the server or endanger it, each with an id and what to do."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import DatabaseError
from django.utils import timezone

from ingest import command_line
from ingest.models import Application
from ingest.server import connections_possible, tls
from ingest.services import media_urls
from ingest.services.media_urls import WILDCARDS

Finds = Callable[[], Iterator[str | CheckMessage]]


def check(
    tag: str = Tags.compatibility,
    *,
    id: str = "",  # noqa: A002 - Django's word.
    hint: str = "",
    deploy: bool = True,
) -> Callable[[Finds], Finds]:
    """Registers what finds something wrong: sentences, which are errors or warnings as the id says, or whole messages.

    `deploy`: asked by `check --deploy` alone; of the tag `database` with `--database default` as well.
    """
    kind = Error if ".E" in id else CheckWarning

    def registered(finds: Finds) -> Finds:
        def messages(app_configs: Any, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
            if tag == Tags.database and not databases:
                return []
            try:
                return [kind(found, hint=hint, id=id) if isinstance(found, str) else found for found in finds()]
            except DatabaseError:
                return []  # Not migrated yet.

        register(messages, tag, deploy=deploy)
        return finds

    return registered


PEPPER_CHARACTERS = 32


@check(
    Tags.security,
    id="ingest.E001",
    hint="Unset it, so that one is made and kept in the data folder, or give a long random text. "
    "Changing it makes all stream keys and API tokens invalid.",
    deploy=False,
)
def pepper() -> Iterator[str]:
    if len(settings.KEY_PEPPER) < PEPPER_CHARACTERS:
        yield f"RTMPWEB_KEY_PEPPER has fewer than {PEPPER_CHARACTERS} characters."


@check(id="ingest.E002", hint="Give each listener a port of its own.", deploy=False)
def listeners() -> Iterator[str]:
    addresses = {
        "RTMPWEB_HTTP": settings.HTTP_ADDRESS,
        "RTMPWEB_RTMP": settings.RTMP_ADDRESS,
        "RTMPWEB_RTMPS": settings.RTMPS_ADDRESS,
        "RTMPWEB_MEDIA": settings.MEDIA_ADDRESS,
    }
    taken: dict[int, str] = {}
    for name, address in addresses.items():
        if address is None or address[1] == 0:
            continue
        if address[1] in taken:
            yield f"{taken[address[1]]} and {name} have the same port, {address[1]}."
        taken.setdefault(address[1], name)


RENEW = "Put a new pair in the place of RTMPWEB_TLS_CERT and RTMPWEB_TLS_KEY; it is taken up without a restart."


@check(Tags.security)
def certificate() -> Iterator[CheckMessage]:
    """RTMPS can be served with what is set, and for some time to come. (Other commands do without.)"""
    chain, key = settings.TLS_CERT, settings.TLS_KEY
    if settings.RTMPS_ADDRESS is None:
        if chain or key:
            yield CheckWarning(
                "A certificate is set, but RTMPWEB_RTMPS is off: nothing is served with it.",
                hint="Set RTMPWEB_RTMPS, such as to 0.0.0.0:1936, or unset RTMPWEB_TLS_CERT and RTMPWEB_TLS_KEY.",
                id="ingest.W003",
            )
        return
    if chain is None or key is None:
        yield Error(
            "RTMPWEB_RTMPS is set, its certificate or key is not.",
            hint="Name both PEM files in RTMPWEB_TLS_CERT and RTMPWEB_TLS_KEY, or set RTMPWEB_RTMPS=off.",
            id="ingest.E003",
        )
        return
    try:
        expires = tls.load(chain, key).expires
    except tls.CertificateError as error:
        yield Error("RTMPS can't be served.", hint=str(error), id="ingest.E004")
        return
    now = timezone.now()
    when = f"{expires:%d %b %Y, %H:%M} UTC"
    if expires <= now:
        yield Error(f"The certificate for RTMPS expired on {when}: encoders refuse it.", hint=RENEW, id="ingest.E005")
    elif expires - now < tls.WARN_BEFORE:
        yield CheckWarning(f"The certificate for RTMPS expires on {when}.", hint=RENEW, id="ingest.W004")


@check(
    id="ingest.W005",
    hint="Raise its limit (ulimit -Hn; LimitNOFILE= of systemd), or lower RTMPWEB_MAX_CONNECTIONS.",
)
def open_files() -> Iterator[str]:
    if connections_possible() < settings.MAX_CONNECTIONS:
        yield (
            f"A process may open too few files for {settings.MAX_CONNECTIONS} connections: "
            f"{connections_possible()} are possible."
        )


@check(id="ingest.W001", hint="Set RTMPWEB_RTMP_HOST to the server's host name or address.")
def public_host() -> Iterator[str]:
    if not settings.RTMP_HOST and settings.RTMP_ADDRESS is not None and settings.RTMP_ADDRESS[0] in WILDCARDS:
        yield "Nobody knows by which name encoders reach this server: the strings to paste say 127.0.0.1."


@check(
    id="ingest.W006",
    hint="Set RTMPWEB_MEDIA_URL, such as to https://media.example.org, or RTMPWEB_MEDIA=off.",
)
def media_url() -> Iterator[str]:
    address = settings.MEDIA_ADDRESS
    if address is None or settings.MEDIA_URL_BASE:
        return
    if address[0] in WILDCARDS or settings.BEHIND_TLS:
        base = media_urls.media_base()
        yield f"Nobody knows by which URL browsers reach the media listener: what they are given says {base}."


@check(Tags.database)
def open_applications() -> Iterator[CheckMessage]:
    for application in Application.objects.filter(enabled=True, publish_policy=Application.PublishPolicy.OPEN):
        yield CheckWarning(
            f"Anyone may publish to the application {application.name} under any name.",
            hint="On a network that isn't trusted: "
            + command_line.here("application set", application.name, "--publish key"),
            id="ingest.W002",
        )
