"""What a start makes, and what it shows."""

import pytest
from django.contrib.auth import authenticate, get_user_model

from ingest.models import Application, Stream, StreamKey
from ingest.services import keys
from rtmpweb.embedded import firststart

pytestmark = pytest.mark.django_db

URL = "http://127.0.0.1:8000/"


@pytest.mark.both_forms
def test_an_empty_database_gets_all_that_is_needed_to_begin() -> None:
    made = firststart.make_what_is_missing()
    assert made.password
    assert made.key
    user = authenticate(username="admin", password=made.password)
    assert user is not None
    assert user.is_superuser
    key = keys.find(secret=made.key.key)
    assert key is not None
    assert key.stream.path == "live/demo"
    assert keys.state(key=key) == "active"
    shown = "\n".join(firststart.greeting(made, URL))
    for text in (URL, "admin", made.password, made.key.server, made.key.key, made.key.play_url):
        assert text in shown


def test_a_second_start_makes_nothing_and_shows_no_secret() -> None:
    first = firststart.make_what_is_missing()
    assert first.key
    second = firststart.make_what_is_missing()
    assert second == firststart.Made()
    assert get_user_model().objects.count() == 1
    assert StreamKey.objects.count() == 1
    shown = "\n".join(firststart.greeting(second, URL))
    assert URL in shown
    assert "streamkey rotate live/demo" in shown
    assert "changepassword" in shown
    assert first.key.key not in shown


def test_what_an_operator_made_is_left_alone() -> None:
    get_user_model().objects.create_superuser("chief", "", "a long enough password")
    Application.objects.create(name="event")
    assert firststart.make_what_is_missing() == firststart.Made()
    assert list(Application.objects.values_list("name", flat=True)) == ["event"]
    assert not Stream.objects.exists()


def test_secrets_are_different_each_time() -> None:
    one = firststart.make_what_is_missing()
    get_user_model().objects.all().delete()
    Application.objects.all().delete()
    other = firststart.make_what_is_missing()
    assert one.password != other.password
    assert one.key
    assert other.key
    assert one.key.key != other.key.key
