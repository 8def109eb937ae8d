"""E-mail by Django's mail: whether there is a server, and what it says to a message."""

import smtplib
from contextlib import suppress

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

NO_SERVER = "No mail server is set: RTMPWEB_EMAIL_URL."

TAKEN = 250
"""SMTP's word for it."""


def is_set() -> bool:
    """Whether e-mail goes anywhere."""
    return bool(settings.EMAIL_URL)


def hand_over(connection: BaseEmailBackend, message: EmailMessage) -> tuple[int | None, str]:
    """The server's status (TAKEN, or why not), and the error in words; None: the server is away."""
    status, error = TAKEN, ""
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
        close(connection)
    return status, error


def close(connection: BaseEmailBackend) -> None:
    with suppress(smtplib.SMTPException, OSError):
        connection.close()
