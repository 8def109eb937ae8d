"""The channel of e-mail, by Django's mail: plain text, the same as HTML with its pictures inside, and files.

What it says is its kind's (`ingest.delivery.kinds`). Its Message-ID is the delivery's: one that is sent again, since
its worker died, is known for the same."""

import logging
import smtplib
import time
from collections.abc import Sequence
from contextlib import suppress
from email.mime.image import MIMEImage
from email.utils import parseaddr

from django.conf import settings
from django.core.mail import EmailMessage, EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend

from ingest.delivery.channel import Answer, Channel
from ingest.delivery.kinds import MailContent, kind_of
from ingest.models import Delivery

logger = logging.getLogger(__name__)

NO_MAIL_SERVER = "No mail server is set (RTMPWEB_EMAIL_URL)."

TAKEN = 250
"""SMTP's word for it."""
REFUSED_FOR_GOOD = 500
"""SMTP's status from which on it is of no use to send this message again,"""
OF_THE_SENDER = (
    smtplib.SMTPConnectError,
    smtplib.SMTPHeloError,
    smtplib.SMTPAuthenticationError,
    smtplib.SMTPSenderRefused,
)
"""but for what the server has against us: that may be repaired."""


def is_mail_set() -> bool:
    return bool(settings.EMAIL_URL)


def mail_domain() -> str:
    return parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "localhost"


class EmailChannel(Channel[EmailMultiAlternatives | None]):
    """Each message is claimed just before it is sent: servers may be slow."""

    name = "email"
    is_read = True
    claim_s = 180.0  # Some ten steps of EMAIL_TIMEOUT.

    def __init__(self) -> None:
        self._connection = get_connection() if is_mail_set() else None
        self._made: tuple[object, MailContent] | None = None
        """Of the last message, and by what it was made."""

    def close(self) -> None:
        if self._connection is not None:
            close_mail(self._connection)

    def prepare(self, row: Delivery) -> EmailMultiAlternatives | None:
        return mail_message(row, self._content(row)) if self._connection is not None else None

    def send(self, rows: Sequence[tuple[Delivery, EmailMultiAlternatives | None]]) -> list[Answer]:
        return [self._send(row, message) for row, message in rows]

    def _content(self, row: Delivery) -> MailContent:
        key = (row.kind, row.about, row.body)
        if self._made is None or self._made[0] != key:
            mail = kind_of(row).mail
            if mail is None:
                raise ValueError(f"Nothing makes a mail of the kind {row.kind}: see ingest/delivery/kinds.py.")
            self._made = (key, mail(row))
        return self._made[1]

    def _send(self, row: Delivery, message: EmailMultiAlternatives | None) -> Answer:
        if self._connection is None or message is None:
            return Answer(None, NO_MAIL_SERVER, duration_ms=0, is_away=True)
        answer = send_mail(self._connection, message)
        if not answer.ok:
            logger.warning("%s was not sent to one recipient: %s", row.subject, answer.error)
        return answer


def mail_message(row: Delivery, content: MailContent) -> EmailMultiAlternatives:
    message = EmailMultiAlternatives(
        content.subject,
        content.text,
        to=[row.address],
        headers={"Message-ID": f"<{row.pk}@{mail_domain()}>", "Auto-Submitted": "auto-generated"},
    )
    message.attach_alternative(content.html, "text/html")
    for cid, picture in content.pictures.items():
        part = MIMEImage(picture, "png")
        part.add_header("Content-ID", f"<{cid}>")
        part.add_header("Content-Disposition", "inline", filename=f"{cid.partition('.')[0]}.png")
        message.attach(part)
    for name, text, kind in content.files:
        message.attach(name, text, kind)
    return message


def send_mail(connection: BaseEmailBackend, message: EmailMessage) -> Answer:
    """The server's status, and its refusal in words; None: it is away."""
    began = time.monotonic()
    status: int | None = TAKEN
    error, is_final = "", False
    try:
        connection.open()
        connection.send_messages([message])
    except smtplib.SMTPRecipientsRefused as refused:
        status, answer = next(iter(refused.recipients.values()))
        error, is_final = f"The mail server refuses the address: {answer!r}", status >= REFUSED_FOR_GOOD
    except smtplib.SMTPResponseException as refused:
        status, error = refused.smtp_code, f"The mail server did not take it: {refused.smtp_error!r}"
        is_final = status >= REFUSED_FOR_GOOD and not isinstance(refused, OF_THE_SENDER)
    except (smtplib.SMTPException, OSError) as problem:
        status, error = None, f"The mail server can't be reached: {problem.strerror or problem}"
    if error and status is not None:
        close_mail(connection)
    took_ms = round((time.monotonic() - began) * 1000)
    return Answer(status, error, "", took_ms, is_away=status is None, is_final=is_final)


def close_mail(connection: BaseEmailBackend) -> None:
    with suppress(smtplib.SMTPException, OSError):
        connection.close()
