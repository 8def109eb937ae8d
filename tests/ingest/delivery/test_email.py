"""What a mail server's answer means: for this message, or for none."""

import smtplib
from typing import Any

import pytest
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from ingest.delivery.email import send_mail


class Server(BaseEmailBackend):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def send_messages(self, messages: Any) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "is_final", "is_away"),
    [
        (smtplib.SMTPRecipientsRefused({"a@example.org": (550, b"gone")}), 550, True, False),
        (smtplib.SMTPRecipientsRefused({"a@example.org": (451, b"later")}), 451, False, False),
        (smtplib.SMTPDataError(554, b"spam"), 554, True, False),
        (smtplib.SMTPDataError(452, b"full"), 452, False, False),
        (smtplib.SMTPAuthenticationError(535, b"who?"), 535, False, False),
        (smtplib.SMTPSenderRefused(553, b"not you", "rtmpweb@localhost"), 553, False, False),
        (smtplib.SMTPServerDisconnected("gone"), None, False, True),
        (ConnectionRefusedError(111, "refused"), None, False, True),
    ],
)
def test_mail_refusal_is_final_for_the_message_but_not_for_the_sender(
    error: Exception, status: int | None, is_final: bool, is_away: bool
) -> None:
    answer = send_mail(Server(error), EmailMessage(to=["a@example.org"]))
    assert (answer.ok, answer.status, answer.is_final, answer.is_away) == (False, status, is_final, is_away)
    assert answer.error.startswith("The mail server ")
