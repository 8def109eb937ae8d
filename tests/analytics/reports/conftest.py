from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from tests.receivers import MailReceiver, mail_receiver, use_mail_server


@pytest.fixture(autouse=True)
def empty_lake(own_lake: Path) -> None:
    """That the services look at."""


@pytest.fixture
def inbox(settings: Settings) -> Iterator[MailReceiver]:
    with mail_receiver() as receiver:
        use_mail_server(settings, receiver.port)
        yield receiver
