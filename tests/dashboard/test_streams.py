"""Streams as their pages and the API show them: rows joined with nodes' figures, what is live, and streams of an instance,
whose names have a slash."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.api import api
from dashboard.streams import Now, by_stream
from ingest import livestore
from ingest.livestore import LiveView
from ingest.models import Application, Node, Recording, Stream
from ingest.services import keys
from ingest.validators import NOT_WITHIN
from tests.dashboard.conftest import client_of, figures, make_session, make_stream, make_user, snapshot


@pytest.mark.both_forms
@pytest.mark.parametrize("order", [1, -1])
def test_of_two_nodes_that_know_a_stream_the_publishers_is_shown(stream: Stream, order: int) -> None:
    publisher = snapshot(stream, node="n1", state="live")
    players = snapshot(stream, node="n2", state="waiting", session_id=None)
    assert by_stream([publisher, players][::order]) == {stream.pk: publisher}


@pytest.mark.both_forms
def test_a_view_is_as_new_as_its_newest_node(stream: Stream) -> None:
    now = Now.of(LiveView([figures("n1", 100.0), figures("n2", 101.5)], []))
    assert now.at == 101.5
    assert now.of_stream(stream)["state"] == "offline"


@pytest.mark.both_forms
def test_while_redis_is_away_nothing_is_said_to_be_offline(viewer: Client, stream: Stream) -> None:
    livestore._store = livestore.RedisLiveStore("redis://127.0.0.1:1/0")
    answer = viewer.get("/api/v1/streams")
    assert answer.status_code == 503
    assert answer.json().keys() == {"detail", "items", "count"}


@pytest.mark.both_forms
def test_while_redis_is_away_a_web_process_is_healthy(client: Client, db: None) -> None:
    """Nobody is helped by a load balancer that takes all of them away: log-in, lists and history go on."""
    Node.objects.create(name="n1")
    livestore._store = livestore.RedisLiveStore("redis://127.0.0.1:1/0")
    answer = client.get("/healthz")
    health = answer.json()
    assert (answer.status_code, health["status"], health["nodes"]) == (200, "ok", None)


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
