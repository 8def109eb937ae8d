from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from tests.receivers import MailReceiver, mail_receiver


@pytest.fixture(autouse=True)
def empty_lake(own_lake: Path) -> None:
    """That the services look at."""


@pytest.fixture
def inbox(settings: Settings) -> Iterator[MailReceiver]:
    with mail_receiver() as receiver:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", receiver.port
        settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.EMAIL_URL = f"smtp://127.0.0.1:{receiver.port}"
        yield receiver
