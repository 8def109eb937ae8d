"""What goes out to other services and people: how it is signed, whose certificates are believed, the addresses of our
pages in messages, and e-mail by Django's mail.

`X-Rtmpweb-Signature: t=SECONDS,v1=HEX`: HMAC-SHA-256 under the shared secret of the time, a full stop and the body."""

import hashlib
import hmac
import smtplib
import ssl
from contextlib import suppress
from functools import cache

import certifi
from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

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


NO_MAIL_SERVER = "No mail server is set: RTMPWEB_EMAIL_URL."

MAIL_TAKEN = 250
"""SMTP's word for it."""


def is_mail_set() -> bool:
    """Whether e-mail goes anywhere."""
    return bool(settings.EMAIL_URL)


def send_mail(connection: BaseEmailBackend, message: EmailMessage) -> tuple[int | None, str]:
    """The server's status (TAKEN, or why not), and the error in words; None: the server is away."""
    status, error = MAIL_TAKEN, ""
    try:
        connection.open()
        connection.send_messages([message])
    except smtplib.SMTPRecipientsRefused as refused:
        code, said = next(iter(refused.recipients.values()))
        status, error = code, f"The mail server refuses the address: {said!r}"
    except smtplib.SMTPResponseException as refused:
        status, error = refused.smtp_code, f"The mail server did not take it: {refused.smtp_error!r}"
    except (smtplib.SMTPException, OSError) as problem:
        return None, f"The mail server can't be reached: {problem}"
    if error:
        close_mail(connection)
    return status, error


def close_mail(connection: BaseEmailBackend) -> None:
    with suppress(smtplib.SMTPException, OSError):
        connection.close()
