"""A stream of an instance, whose name has a slash: its pages, its part of the API, and its keys."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.api import api
from ingest.models import Application, Recording, Stream
from ingest.models.names import NOT_WITHIN
from ingest.services import keys
from tests.dashboard.conftest import client_of, make_session, make_stream, make_user

PAGE, API = "/streams/live/room/cam", "/api/v1/streams/live/room/cam"


@pytest.fixture
def inside(db: None) -> Stream:
    make_stream("room")  # Whose pages are not to be taken for the other's.
    return make_stream("room/cam")


@pytest.fixture
def admin(db: None) -> Client:
    return client_of(make_user("admin", name="ada"))


def test_its_page_and_what_leads_there(admin: Client, inside: Stream) -> None:
    session = make_session(inside)
    Recording.objects.create(application=inside.application, stream=inside, name="room/cam", file="a.flv")
    assert reverse("dashboard:stream", kwargs={"app": "live", "name": inside.name}) == f"{PAGE}/"
    for path in (f"{PAGE}/", "/recordings/", f"/sessions/{session.pk}/", "/sessions/?stream=live/room/cam"):
        answer = admin.get(path)
        assert answer.status_code == 200, path
        assert "live/room/cam" in answer.content.decode(), path
    assert admin.get("/streams/live/room%2Fcam/").status_code == 200, "as scripts write it"
    assert admin.get("/streams/live/room/none/").status_code == 404
    assert admin.post(f"{PAGE}/kick", {}, headers={"Accept": "application/json"}).status_code == 202
    session.refresh_from_db()
    assert session.stop_requested == "kicked"


def test_its_part_of_the_api(admin: Client, inside: Stream) -> None:
    found = admin.get(API).json()
    assert (found["app"], found["name"]) == ("live", "room/cam")
    assert admin.get("/api/v1/streams/live/room").json()["name"] == "room"
    assert admin.get("/api/v1/streams?name=room/cam").json()["count"] == 1
    for path in ("samples", "mute"):
        for name in ("room/cam", "room"):
            assert admin.get(f"/api/v1/streams/live/{name}/{path}").status_code == 200
    made = admin.generic("POST", f"{API}/token").json()
    assert "/live/room/cam?token=" in made["play_url"]
    assert admin.get("/api/v1/streams/live/a/b/c").status_code == 404


def test_what_the_api_has_behind_a_stream_is_no_name_of_one() -> None:
    """Else a path would have two meanings."""
    before = "/api/v1/streams/{app}/{name}/"
    behind = {path.removeprefix(before) for path in api.get_openapi_schema()["paths"] if path.startswith(before)}
    assert behind == NOT_WITHIN


def test_a_key_is_made_for_one(admin: Client, inside: Stream) -> None:
    made = admin.post("/api/v1/keys", {"app": "live", "name": "hall/cam"}, content_type="application/json")
    assert made.status_code == 201
    assert made.json()["server"].endswith("/live/hall")
    found = keys.find(secret=made.json()["key"])
    assert found is not None
    assert found.stream.path == "live/hall/cam"
    for name in ("a/b/c", "-a/b", "room/kick"):
        refused = admin.post("/api/v1/keys", {"app": "live", "name": name}, content_type="application/json")
        assert refused.status_code == 422, name


def test_in_some_number(admin: Client, inside: Stream, admin_client: Client) -> None:
    Application.objects.update(max_instances=1)
    wish: dict[str, Any] = {"app": "live", "name": "hall/cam"}
    refused = admin.post("/api/v1/keys", wish, content_type="application/json")
    assert (refused.status_code, "--max-instances" in refused.json()["detail"]) == (422, True)
    form = {"application": inside.application.pk, "name": "hall/cam", "takeover": "reject"}
    form |= {"idle_timeout_s": 10, "first_media_timeout_s": 20}
    form |= {f"health_overrides-{name}": 0 for name in ("TOTAL_FORMS", "INITIAL_FORMS")}
    page = admin_client.post("/admin/ingest/stream/add/", form)
    assert page.status_code == 200
    assert "max-instances" in page.content.decode()
    assert not Stream.objects.filter(name="hall/cam").exists()
