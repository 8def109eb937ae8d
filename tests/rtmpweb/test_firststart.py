"""What a start makes, and what it shows."""

import stat
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import authenticate, get_user_model

from ingest.models import Application, Stream, StreamKey
from ingest.services import keys, media_urls
from rtmpweb.embedded import server

pytestmark = pytest.mark.django_db

URL = "http://127.0.0.1:8000/"


def make() -> tuple[server.FirstStart, str, media_urls.ConnectionStrings]:
    made = server.create_missing()
    assert made.password
    assert made.key
    return made, made.password, made.key


def greeting(made: server.FirstStart, *, to_terminal: bool) -> str:
    return "\n".join(server.greeting(made, URL, to_terminal=to_terminal))


@pytest.mark.stores
def test_an_empty_database_gets_all_that_is_needed_to_begin() -> None:
    seen = set()
    for _ in range(2):
        made, password, made_key = make()
        user = authenticate(username="admin", password=password)
        assert user is not None
        assert user.is_superuser
        key = keys.find(secret=made_key.key)
        assert key is not None
        assert (key.stream.path, keys.state(key=key)) == ("live/demo", "active")
        shown = greeting(made, to_terminal=True)
        for text in (URL, "admin", password, made_key.server, made_key.key, made_key.play_url):
            assert text in shown
        seen |= {password, made_key.key}
        get_user_model().objects.all().delete()
        Application.objects.all().delete()
    assert len(seen) == 4, "secrets are different each time"


def test_a_second_start_makes_nothing_and_shows_no_secret() -> None:
    _, _, key = make()
    second = server.create_missing()
    assert second == server.FirstStart()
    assert get_user_model().objects.count() == 1
    assert StreamKey.objects.count() == 1
    shown = greeting(second, to_terminal=True)
    assert shown == greeting(second, to_terminal=False)
    assert URL in shown
    assert "streamkey rotate live/demo" in shown
    assert "changepassword" in shown
    assert key.key not in shown


def test_without_a_terminal_secrets_are_in_a_file_of_this_user_alone(settings: Any, tmp_path: Path) -> None:
    """A journal, or a container's log, keeps what is written to it, and many may read it."""
    settings.DATA_DIR = tmp_path
    file = tmp_path / "first-start.txt"
    file.touch(0o644)
    file.chmod(0o644)
    made, password, key = make()
    told = greeting(made, to_terminal=False)
    assert URL in told
    assert f"The password and stream key to begin with: in {file}, " in told
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for text in (URL, "User: admin", password, key.server, key.key, key.play_url):
        assert text in file.read_text()
    for secret in (password, key.key):
        assert secret not in told


def test_secrets_that_can_be_written_nowhere_are_shown_nowhere(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path
    (tmp_path / "first-start.txt").mkdir()
    made, password, _ = make()
    told = greeting(made, to_terminal=False)
    assert "could not be written" in told
    assert "changepassword admin" in told
    assert "streamkey rotate live/demo" in told
    assert password not in told


def test_first_start_adds_nothing_to_an_existing_setup() -> None:
    get_user_model().objects.create_superuser("chief", "", "a long enough password")
    Application.objects.create(name="event")
    assert server.create_missing() == server.FirstStart()
    assert list(Application.objects.values_list("name", flat=True)) == ["event"]
    assert not Stream.objects.exists()
