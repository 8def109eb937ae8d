"""A stream's picture: who gets it, and how browsers keep it."""

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from django.urls import reverse

from ingest.live_store import Thumbnail, get_livestore
from ingest.models import Stream
from tests.dashboard.conftest import client_of, make_user

PICTURE = Thumbnail(1_700_000_000_123, b"RIFF....WEBP")
PATH = "/streams/live/cam-1/thumbnail.webp"


@pytest.fixture
def kept(stream: Stream) -> None:
    async_to_sync(get_livestore().put_thumbnail)(stream.path, PICTURE)


@pytest.mark.both_forms
def test_who_may_view_has_it(kept: None, viewer: Client) -> None:
    assert reverse("dashboard:thumbnail", args=["live", "cam-1"]) == PATH
    answer = viewer.get(PATH)
    assert (answer.status_code, answer.content, answer["Content-Type"]) == (200, PICTURE.image, "image/webp")
    assert answer["Cache-Control"] == "private, no-cache"


def test_the_one_that_a_snapshot_names_never_changes(kept: None, viewer: Client) -> None:
    named = viewer.get(f"{PATH}?v={PICTURE.at_ms}")
    assert named["Cache-Control"] == "private, max-age=900, immutable"
    other = viewer.get(f"{PATH}?v=1")
    assert (other.content, other["Cache-Control"]) == (PICTURE.image, "private, no-cache")


def test_a_browser_that_has_it_is_told_so(kept: None, viewer: Client) -> None:
    etag = viewer.get(PATH)["ETag"]
    again = viewer.get(PATH, headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    assert viewer.get(PATH, headers={"If-None-Match": '"1"'}).status_code == 200


def test_there_is_none_of_others(kept: None, viewer: Client) -> None:
    for name in ("cam-2", "none"):
        assert viewer.get(f"/streams/live/{name}/thumbnail.webp").status_code == 404


def test_nobody_else_has_it(kept: None, client: Client) -> None:
    assert client.get(PATH).status_code == 302
    assert client.get(PATH, headers={"Accept": "image/webp"}).status_code == 401
    assert client_of(make_user()).get(PATH).status_code == 403


@pytest.mark.both_forms
def test_who_looks_at_it_watches_the_stream(kept: None, viewer: Client, client: Client) -> None:
    watched = async_to_sync(get_livestore().awatched)
    client.get(PATH)
    viewer.get("/streams/live/none/thumbnail.webp")
    assert watched() == []
    viewer.get(PATH)
    assert watched() == ["live/cam-1"]
