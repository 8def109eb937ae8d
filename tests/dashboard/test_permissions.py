"""Who may do what, asked of every page, of the API and of no one else's memory: the rows are the roles."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from ingest.models import Session, Stream
from tests.dashboard.conftest import api_token, client_of, make_session, make_stream, make_user

NOBODY = 403
PAGES = ("/", "/attempts/", "/recordings/", "/streams/live/cam-1/")
LISTS = ("/api/v1/streams", "/api/v1/streams/live/cam-1", "/api/v1/sessions", "/api/v1/attempts")

ROLES = [  # Role, may view, may kick, may manage tokens.
    ("viewer", True, False, False),
    ("operator", True, True, False),
    ("key manager", True, False, False),
    ("analyst", True, False, False),
    ("admin", True, True, True),
]


@pytest.mark.parametrize(("role", "view", "kick", "_tokens"), ROLES)
@pytest.mark.parametrize("page", PAGES + LISTS)
def test_a_role_sees_pages_and_lists(
    stream: Stream, role: str, view: bool, kick: bool, _tokens: bool, page: str
) -> None:
    answer = client_of(make_user(role)).get(page)
    assert answer.status_code == (200 if view else 403)


@pytest.mark.parametrize("page", PAGES + LISTS)
def test_a_user_without_a_role_sees_nothing_and_why(stream: Stream, page: str) -> None:
    answer = client_of(make_user()).get(page)
    assert answer.status_code == 403
    assert "cam-1" not in answer.content.decode().replace("/streams/live/cam-1", "")
    if not page.startswith("/api/"):
        assert "no role yet" in answer.content.decode()


@pytest.mark.parametrize("page", PAGES)
def test_anonymous_goes_to_the_log_in_page_and_comes_back(client: Client, stream: Stream, page: str) -> None:
    answer = client.get(page)
    assert answer.status_code == 302
    assert answer["Location"] == f"/login/?next={page}"


@pytest.mark.parametrize("path", LISTS)
def test_anonymous_gets_401_from_the_api(client: Client, stream: Stream, path: str) -> None:
    assert client.get(path).status_code == 401


@pytest.mark.parametrize(("role", "_view", "kick", "_tokens"), ROLES)
def test_a_role_kicks_by_page_session_and_token(
    stream: Stream, role: str, _view: bool, kick: bool, _tokens: bool
) -> None:
    client = client_of(make_user(role))
    api = "/api/v1/streams/live/cam-1/kick"
    ways: tuple[Callable[[], Any], ...] = (
        lambda: client.post("/streams/live/cam-1/kick", headers={"Accept": "application/json"}),
        lambda: client.generic("POST", api),
        lambda: Client().generic("POST", api, headers=api_token(role)),
    )
    for way in ways:
        session = make_session(stream)
        assert way().status_code == (202 if kick else 403)
        session.refresh_from_db()
        assert session.stop_requested == ("kicked" if kick else "")
        Session.objects.all().delete()


def test_anonymous_does_not_kick(client: Client, stream: Stream) -> None:
    session = make_session(stream)
    assert client.post("/streams/live/cam-1/kick").status_code == 302
    assert client.post("/streams/live/cam-1/kick", headers={"Accept": "application/json"}).status_code == 401
    assert client.generic("POST", "/api/v1/streams/live/cam-1/kick").status_code == 401
    session.refresh_from_db()
    assert session.stop_requested == ""


@pytest.mark.parametrize(("role", "_view", "_kick", "tokens"), ROLES)
def test_only_an_admin_sees_api_tokens(db: None, role: str, _view: bool, _kick: bool, tokens: bool) -> None:
    user = make_user(role)
    user.is_staff = True
    user.save()
    assert client_of(user).get(reverse("admin:dashboard_apitoken_changelist")).status_code == (200 if tokens else 403)


def test_a_superuser_may_all_without_a_role_and_an_inactive_user_nothing(db: None) -> None:
    make_stream("cam-1")
    user = make_user()
    user.is_superuser = True
    user.save()
    client = client_of(user)
    assert client.get("/").status_code == 200
    user.is_active = False
    user.save()
    assert client.get("/").status_code == 302
    assert client.get("/api/v1/streams").status_code == 401


def test_a_role_that_is_taken_away_is_gone_at_the_next_request(db: None) -> None:
    user = make_user("viewer")
    client = client_of(user)
    assert client.get("/").status_code == 200
    user.groups.clear()
    assert client.get("/").status_code == 403
