"""The preview: who gets its URLs, what they let their bearer have, and which pages may use them."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ingest.models import Application, Stream
from ingest.services import play_tokens, playback
from ingest.services.playback import Playable
from ingest.services.refusals import Refused
from tests.dashboard.conftest import client_of, make_stream, make_user

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
def test_a_viewer_may_look_whatever_the_play_policy_is(
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


def test_a_token_is_for_a_minute_one_stream_and_what_is_live(viewer: Client, stream: Stream) -> None:
    make_stream("cam-2")
    Application.objects.update(play_policy=Application.PlayPolicy.TOKEN)
    token = urls(viewer)["ws_url"].partition("?token=")[2]
    assert check(token, later_s=50).is_preview
    assert refusal(token, later_s=61) == "token_expired"
    assert refusal(token, "cam-2") == "token_invalid"
    assert refusal(token, wanted="any") == "token_invalid"
    assert refusal(token, wanted="recorded") in ("token_invalid", "recording_unknown")
    assert play_tokens.verify(token=token, stream=stream.pk) == "invalid"
    assert not check(play_tokens.issue(stream=stream.pk)).is_preview


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
def test_only_the_streams_page_may_get_media_and_from_there_alone(
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


def test_without_the_media_listener_it_says_what_to_set(viewer: Client, stream: Stream, settings: Any) -> None:
    settings.MEDIA_ADDRESS = None
    answer = viewer.post(PATH, headers={"Accept": "application/json"})
    assert answer.status_code == 503
    assert "RTMPWEB_MEDIA" in answer.json()["detail"]
    assert "connect-src 'self';" in viewer.get("/streams/live/cam-1/")["Content-Security-Policy"] + ";"


def test_a_page_by_https_gets_nothing_by_plain_http(viewer: Client, stream: Stream, settings: Any) -> None:
    settings.MEDIA_ADDRESS, settings.MEDIA_URL_BASE = ("127.0.0.1", 8001), ""
    answer = viewer.post(PATH, headers={"Accept": "application/json"}, secure=True)
    assert answer.status_code == 503
    assert "RTMPWEB_MEDIA_URL" in answer.json()["detail"]


def test_who_has_no_role_gets_no_url(stream: Stream) -> None:
    answer = client_of(make_user()).post(PATH, headers={"Accept": "application/json"})
    assert answer.status_code == 403
