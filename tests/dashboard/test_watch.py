"""What a stream's page says of how it is watched: by what policy, with which addresses, and what is off."""

import html
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from ingest.models import Application, Stream
from tests.dashboard.conftest import audited, lacks

PATH = "/streams/live/cam-1/"
BY_SCRIPT = {"X-Requested-With": "fetch"}


@pytest.fixture(autouse=True)
def listening(settings: Settings) -> None:
    settings.RTMP_ADDRESS, settings.RTMPS_ADDRESS, settings.RTMP_HOST = ("0.0.0.0", 1935), None, ""
    settings.MEDIA_ADDRESS, settings.MEDIA_URL_BASE = ("0.0.0.0", 8001), ""
    settings.ALLOWED_HOSTS = ["*"]


def text_of(client: Client, **headers: str) -> str:
    return html.unescape(client.get(PATH, headers=headers).content.decode())


def policy(value: str) -> None:
    Application.objects.update(play_policy=value)


def test_stream_page_shows_play_addresses_under_public_policy(
    viewer: Client, stream: Stream, settings: Settings
) -> None:
    settings.RTMPS_ADDRESS = ("0.0.0.0", 443)
    text = text_of(viewer, host="stage.example.org:8000")
    urls = ("rtmp://stage.example.org/live/cam-1", "rtmps://stage.example.org/live/cam-1")
    flv = "http://stage.example.org:8001/live/live/cam-1.flv"
    assert lacks(text, *urls, flv, f"ffplay {flv}", f"vlc {urls[0]}", f"mpv {urls[1]}") == []
    assert "Make a link" not in text
    settings.RTMP_HOST = "in.example.org"
    assert "rtmp://in.example.org/live/cam-1" in text_of(viewer)


def test_operator_makes_a_play_link_under_token_policy(
    viewer: Client, operator: Client, stream: Stream, settings: Settings
) -> None:
    policy("token")
    assert lacks(text_of(viewer), "An operator can make one.") == []
    assert "Make a link" not in text_of(viewer)
    assert lacks(text_of(operator), "Make a link", "Whoever has a link watches") == []
    answer: Any = operator.post(f"{PATH}link", {"hours": "1"}, headers=BY_SCRIPT)
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    made = html.unescape(answer.content.decode())
    assert lacks(made, "rtmp://testserver/live/cam-1?token=", ":8001/live/live/cam-1.flv?token=") == []
    assert lacks(made, "ffplay 'http://testserver:8001/live/live/cam-1.flv?token=") == []
    assert audited("action") == ["play_token.create"]
    assert operator.post(f"{PATH}link", {"hours": "9999"}, headers=BY_SCRIPT).status_code == 400


def test_stream_page_shows_no_address_under_policy_none(operator: Client, stream: Stream) -> None:
    policy("none")
    text = text_of(operator)
    assert lacks(text, "Nobody may watch this stream: the application’s play policy says so.") == []
    assert "rtmp://testserver/live/cam-1" not in text
    refused = operator.post(f"{PATH}link", {"hours": "1"}, headers=BY_SCRIPT)
    assert refused.status_code == 422
    assert audited("action") == []


def test_stream_page_names_the_setting_of_a_disabled_media_listener(
    viewer: Client, stream: Stream, settings: Settings
) -> None:
    settings.MEDIA_ADDRESS = None
    text = text_of(viewer)
    assert lacks(text, "FLV over HTTP is off", "<code>RTMPWEB_MEDIA</code>", 'data-off="No preview: the media') == []
    assert ".flv" not in text


EMBED = '<iframe src="{url}embed=1" title="live/cam-1" width="640" height="360" style="border:0" '


def test_the_watch_page_is_printed_with_what_embeds_it(viewer: Client, stream: Stream, settings: Settings) -> None:
    settings.HLS_ADDRESS, settings.HLS_URL_BASE = ("0.0.0.0", 8002), ""
    text = text_of(viewer)
    page = "http://testserver/watch/live/cam-1"
    assert lacks(text, page, EMBED.format(url=f"{page}?"), "http://testserver:8002/hls/live/cam-1/index.m3u8") == []
    settings.HLS_ADDRESS = None
    text = text_of(viewer)
    assert lacks(text, "The watch page is off", "<code>RTMPWEB_HLS</code>") == []
    assert "/watch/" not in text


def test_links_last_until_they_are_replaced(operator: Client, stream: Stream, settings: Settings) -> None:
    settings.HLS_ADDRESS = ("0.0.0.0", 8002)
    policy("token")
    made = [
        html.unescape(operator.post(f"{PATH}{path}", sent, headers=BY_SCRIPT).content.decode())
        for path, sent in (("link", {"hours": "lasting"}), ("new-link", {}))
    ]
    for text in made:
        assert lacks(text, "http://testserver/watch/live/cam-1?token=", "until the links are replaced", "embed=1") == []
    assert audited("action") == ["play_token.create", "play_token.replace"]
    policy("none")
    assert operator.post(f"{PATH}new-link", headers=BY_SCRIPT).status_code == 422


def test_play_policy_is_shown_and_changed_on_the_stream_page(manager: Client, viewer: Client, stream: Stream) -> None:
    assert lacks(text_of(manager), "Who may watch live/cam-1", "as the application says", "live: anyone.") == []
    assert "Who may watch live/cam-1" not in text_of(viewer)
    path = f"{PATH}play-policy"
    answer: Any = manager.post(path, {"play_policy": "token", "hls_always": "on"}, headers=BY_SCRIPT)
    assert answer.status_code == 302
    stream.refresh_from_db()
    assert (stream.play_policy, stream.hls_always) == ("token", True)
    assert lacks(text_of(viewer), "By link", "An operator can make one.") == []
    assert manager.post(path, {"play_policy": "x"}, headers={"Accept": "application/json"}).status_code == 409
    manager.post(path, {"play_policy": "none"})
    text = text_of(viewer)
    assert lacks(text, "Closed", "Nobody may watch this stream.") == []
    stream.refresh_from_db()
    assert not stream.hls_always
