"""What a start makes, and what it shows."""

import stat
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import authenticate, get_user_model

from ingest.models import Application, Stream, StreamKey
from ingest.services import keys
from rtmpweb.embedded import server

pytestmark = pytest.mark.django_db

URL = "http://127.0.0.1:8000/"


@pytest.mark.both_forms
def test_an_empty_database_gets_all_that_is_needed_to_begin() -> None:
    made = server.make_what_is_missing()
    assert made.password
    assert made.key
    user = authenticate(username="admin", password=made.password)
    assert user is not None
    assert user.is_superuser
    key = keys.find(secret=made.key.key)
    assert key is not None
    assert key.stream.path == "live/demo"
    assert keys.state(key=key) == "active"
    shown = "\n".join(server.greeting(made, URL, to_terminal=True))
    for text in (URL, "admin", made.password, made.key.server, made.key.key, made.key.play_url):
        assert text in shown


def test_a_second_start_makes_nothing_and_shows_no_secret() -> None:
    first = server.make_what_is_missing()
    assert first.key
    second = server.make_what_is_missing()
    assert second == server.FirstStart()
    assert get_user_model().objects.count() == 1
    assert StreamKey.objects.count() == 1
    shown = "\n".join(server.greeting(second, URL, to_terminal=True))
    assert shown == "\n".join(server.greeting(second, URL, to_terminal=False))
    assert URL in shown
    assert "streamkey rotate live/demo" in shown
    assert "changepassword" in shown
    assert first.key.key not in shown


def test_without_a_terminal_secrets_are_in_a_file_of_this_user_alone(settings: Any, tmp_path: Path) -> None:
    """A journal, or a container's log, keeps what is written to it, and many may read it."""
    settings.DATA_DIR = tmp_path
    file = tmp_path / "first-start.txt"
    file.touch(0o644)
    file.chmod(0o644)
    made = server.make_what_is_missing()
    assert made.password
    assert made.key
    told = "\n".join(server.greeting(made, URL, to_terminal=False))
    assert URL in told
    assert f"The password and stream key to begin with: in {file}, " in told
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for text in (URL, "User: admin", made.password, made.key.server, made.key.key, made.key.play_url):
        assert text in file.read_text()
    for secret in (made.password, made.key.key):
        assert secret not in told


def test_secrets_that_can_be_written_nowhere_are_shown_nowhere(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    (tmp_path / "first-start.txt").mkdir()
    made = server.make_what_is_missing()
    assert made.password
    told = "\n".join(server.greeting(made, URL, to_terminal=False))
    assert "could not be written" in told
    assert "changepassword admin" in told
    assert "streamkey rotate live/demo" in told
    assert made.password not in told


def test_what_an_operator_made_is_left_alone() -> None:
    get_user_model().objects.create_superuser("chief", "", "a long enough password")
    Application.objects.create(name="event")
    assert server.make_what_is_missing() == server.FirstStart()
    assert list(Application.objects.values_list("name", flat=True)) == ["event"]
    assert not Stream.objects.exists()


def test_secrets_are_different_each_time() -> None:
    one = server.make_what_is_missing()
    get_user_model().objects.all().delete()
    Application.objects.all().delete()
    other = server.make_what_is_missing()
    assert one.password != other.password
    assert one.key
    assert other.key
    assert one.key.key != other.key.key
