"""A stream to look at: the preview's URLs, what their bearer has, which pages may use them; and its picture."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ingest.live_store import Thumbnail, get_livestore
from ingest.models import Application, Stream
from ingest.services import play_tokens, playback
from ingest.services.playback import Playable
from ingest.services.refusals import Refused
from tests.dashboard.conftest import make_stream

PATH = "/streams/live/cam-1/preview"


def urls(client: Client, **extra: Any) -> dict[str, str]:
    answer = client.post(PATH, headers={"Accept": "application/json", **extra})
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "private, no-store"
    found: dict[str, str] = answer.json()
    return found


def check(token: str, name: str = "cam-1", later_s: float = 0, **fields: Any) -> Playable:
    now = timezone.now() + timedelta(seconds=later_s)
    return playback.check(app="live", name=name, credential=token, now=now, **({"wanted": "live"} | fields))


def refusal(token: str, name: str = "cam-1", **fields: Any) -> str:
    with pytest.raises(Refused) as caught:
        check(token, name, **fields)
    return caught.value.reason


@pytest.mark.parametrize("policy", Application.PlayPolicy.values)
def test_viewer_gets_preview_urls_under_any_play_policy(
    viewer: Client, stream: Stream, settings: Any, policy: str
) -> None:
    settings.MEDIA_ADDRESS, settings.MEDIA_URL_BASE = ("127.0.0.1", 8001), ""
    Application.objects.update(play_policy=policy)
    found = urls(viewer)
    base, _, token = found["ws_url"].partition("?token=")
    assert base == "ws://127.0.0.1:8001/live/live/cam-1.flv"
    assert found["flv_url"].startswith("http://127.0.0.1:8001/live/live/cam-1.flv?token=")
    granted = check(token)
    assert (granted.stream, granted.is_preview, granted.recording) == (stream, True, None)


def test_preview_token_is_valid_for_one_minute_and_one_live_stream(viewer: Client, stream: Stream) -> None:
    make_stream("cam-2")
    Application.objects.update(play_policy=Application.PlayPolicy.TOKEN)
    token = urls(viewer)["ws_url"].partition("?token=")[2]
    assert check(token, later_s=50).is_preview
    assert refusal(token, later_s=61) == "token_expired"
    assert refusal(token, "cam-2") == "token_invalid"
    assert refusal(token, wanted="any") == "token_invalid"
    assert refusal(token, wanted="recorded") in ("token_invalid", "recording_unknown")
    assert play_tokens.PLAY.verify(token, stream.pk) == "invalid"
    assert not check(play_tokens.PLAY.issue(stream.pk)).is_preview


def test_the_pages_themselves_have_no_token(viewer: Client, stream: Stream) -> None:
    assert "token=" not in viewer.get("/streams/live/cam-1/").content.decode()
    assert viewer.get(PATH).status_code == 405


@pytest.mark.parametrize(
    ("address", "base", "host", "origins"),
    [
        (("127.0.0.1", 8001), "", "localhost", "http://127.0.0.1:8001 ws://127.0.0.1:8001"),
        (("0.0.0.0", 8001), "", "dash.example.org:8000", "http://dash.example.org:8001 ws://dash.example.org:8001"),
        (
            ("0.0.0.0", 8001),
            "https://media.example.org/flv",
            "dash.example.org",
            "https://media.example.org wss://media.example.org",
        ),
    ],
)
def test_csp_allows_media_only_on_the_stream_page_from_the_media_listener(
    viewer: Client, stream: Stream, settings: Any, address: Any, base: str, host: str, origins: str
) -> None:
    settings.MEDIA_ADDRESS, settings.MEDIA_URL_BASE, settings.ALLOWED_HOSTS = address, base, ["*"]
    policy = {
        part.split(" ", 1)[0]: part.split(" ", 1)[1]
        for part in viewer.get("/streams/live/cam-1/", headers={"Host": host})["Content-Security-Policy"].split("; ")
    }
    assert policy["connect-src"] == f"'self' {origins}"
    assert policy["media-src"] == "'self' blob:"
    assert policy["default-src"] == "'self'"
    assert urls(viewer, Host=host)["flv_url"].startswith(origins.split(" ")[0])
    others = viewer.get("/attempts/", headers={"Host": host})["Content-Security-Policy"]
    assert "connect-src 'self';" in f"{others};"
    assert "blob:" not in others.replace("img-src 'self' data: blob:", "")


@pytest.mark.parametrize(
    ("address", "secure", "setting"),
    [(None, False, "RTMPWEB_MEDIA"), (("127.0.0.1", 8001), True, "RTMPWEB_MEDIA_URL")],
    ids=["no media listener", "plain http for a page by https"],
)
def test_unavailable_preview_is_503_and_names_the_setting(
    viewer: Client, stream: Stream, settings: Any, address: Any, secure: bool, setting: str
) -> None:
    settings.MEDIA_ADDRESS, settings.MEDIA_URL_BASE = address, ""
    answer = viewer.post(PATH, headers={"Accept": "application/json"}, secure=secure)
    assert answer.status_code == 503
    assert setting in answer.json()["detail"]
    if address is None:
        assert "connect-src 'self';" in viewer.get("/streams/live/cam-1/")["Content-Security-Policy"] + ";"


PICTURE = Thumbnail(1_700_000_000_123, b"RIFF....WEBP")
THUMBNAIL = "/streams/live/cam-1/thumbnail.webp"


@pytest.fixture
def kept(stream: Stream) -> None:
    async_to_sync(get_livestore().put_thumbnail)(stream.path, PICTURE)


@pytest.mark.stores
def test_viewer_gets_the_thumbnail(kept: None, viewer: Client) -> None:
    assert reverse("dashboard:thumbnail", args=["live", "cam-1"]) == THUMBNAIL
    answer = viewer.get(THUMBNAIL)
    assert (answer.status_code, answer.content, answer["Content-Type"]) == (200, PICTURE.image, "image/webp")
    assert answer["Cache-Control"] == "private, no-cache"
    for name in ("cam-2", "none"):
        assert viewer.get(f"/streams/live/{name}/thumbnail.webp").status_code == 404


def test_thumbnail_is_cached_by_etag_and_versioned_one_is_immutable(kept: None, viewer: Client) -> None:
    named = viewer.get(f"{THUMBNAIL}?v={PICTURE.at_ms}")
    assert named["Cache-Control"] == "private, max-age=900, immutable"
    other = viewer.get(f"{THUMBNAIL}?v=1")
    assert (other.content, other["Cache-Control"]) == (PICTURE.image, "private, no-cache")
    again = viewer.get(THUMBNAIL, headers={"If-None-Match": other["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert viewer.get(THUMBNAIL, headers={"If-None-Match": '"1"'}).status_code == 200


@pytest.mark.both_forms
def test_thumbnail_request_of_a_viewer_marks_the_stream_watched(kept: None, viewer: Client, client: Client) -> None:
    watched = async_to_sync(get_livestore().awatched)
    client.get(THUMBNAIL)
    viewer.get("/streams/live/none/thumbnail.webp")
    assert watched() == []
    viewer.get(THUMBNAIL)
    assert watched() == ["live/cam-1"]
