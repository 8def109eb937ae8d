"""The watch page as it is answered: to whom, with which headers, and what it tells those whom it has nothing for."""

import html
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from dashboard.watch import views
from ingest.live_store import Thumbnail, get_livestore
from ingest.models import Application, Stream
from ingest.services import media_urls, play_policy, play_tokens
from ingest.services.audit import Actor

PATH = "/watch/live/cam-1"
POSTER = "/poster/live/cam-1.webp"
CLOSED, LINK_ENDED = (words[0] for words in (views.CLOSED, views.LINK_ENDED))


@pytest.fixture(autouse=True)
def listening(settings: Settings) -> None:
    settings.HLS_ADDRESS, settings.HLS_URL_BASE, settings.REWIND_S = ("0.0.0.0", 8002), "", 0
    settings.ALLOWED_HOSTS = ["*"]


def ask(client: Client, path: str = PATH, **headers: str) -> tuple[int, str]:
    answer: Any = client.get(path, headers=headers)
    return answer.status_code, html.unescape(answer.content.decode())


def policy(value: str) -> None:
    Application.objects.update(play_policy=value)


def link(stream: Stream) -> str:
    stream.refresh_from_db()
    return media_urls.make_play_link(stream, media_urls.LASTING).token


def test_anybody_watches_what_is_public(client: Client, stream: Stream) -> None:
    status, text = ask(client, host="tv.example.org")
    assert status == 200
    assert 'data-hls="http://tv.example.org:8002/hls/live/cam-1/"' in text
    assert "<title>cam-1</title>" in text
    assert f'src="{POSTER}"' in text
    assert "data-rewind" not in text


def test_watch_page_by_link_puts_its_token_into_media_urls(client: Client, stream: Stream) -> None:
    policy("token")
    token = link(stream)
    status, text = ask(client, f"{PATH}?token={token}")
    assert status == 200
    assert f'data-hls="http://testserver:8002/hls/{token}/live/cam-1/"' in text
    assert f'src="{POSTER}?token={token}"' in text
    policy("public")
    assert token not in ask(client, f"{PATH}?token={token}")[1], "which nobody asks for then"


def test_closed_disabled_and_unknown_streams_get_the_same_404(client: Client, stream: Stream) -> None:
    """Whether it is closed, takes a link, is disabled or is not there."""
    found = {ask(client, "/watch/live/none"), ask(client, "/watch/nowhere/cam-1")}
    for value in ("none", "token"):
        policy(value)
        found.add(ask(client))
    policy("public")
    Stream.objects.update(enabled=False)
    found.add(ask(client))
    ((status, text),) = found
    assert status == 404
    assert CLOSED in text
    assert "cam-1" not in text


def test_invalid_watch_links_get_the_same_link_ended_answer(client: Client, stream: Stream) -> None:
    policy("token")
    old, late = link(stream), play_tokens.PLAY.issue(stream.pk, lifetime=-play_tokens.PLAY.lifetime)
    play_policy.new_link(Actor("boss"), stream=stream)
    found = {ask(client, f"{PATH}?token={token}") for token in (old, late, "nonsense")}
    found.add(ask(client, "/watch/live/none?token=nonsense"))
    ((status, text),) = found
    assert status == 404
    assert LINK_ENDED in text


def test_the_page_sets_no_cookie_and_keeps_its_policy(client: Client, stream: Stream) -> None:
    answer: Any = client.get(PATH, headers={"host": "tv.example.org"})
    assert not answer.cookies
    assert "Cookie" not in answer.get("Vary", "")
    rules = dict(each.strip().split(" ", 1) for each in answer["Content-Security-Policy"].split(";"))
    assert rules["default-src"] == "'self'"
    assert rules["connect-src"] == "http://tv.example.org:8002"
    assert rules["media-src"] == "blob: data: http://tv.example.org:8002"
    assert rules["frame-ancestors"] == "'none'"
    assert answer["X-Frame-Options"] == "DENY"
    assert (answer["Referrer-Policy"], answer["Cache-Control"]) == ("no-referrer", "no-store")
    assert "noindex" in answer["X-Robots-Tag"]
    assert "csrf" not in answer.content.decode()


@pytest.mark.parametrize("path", [PATH, "/watch/live/none"])
def test_watch_page_with_embed_may_be_framed_by_any_site(client: Client, stream: Stream, path: str) -> None:
    answer: Any = client.get(f"{path}?embed=1")
    assert "frame-ancestors *" in answer["Content-Security-Policy"]
    assert "X-Frame-Options" not in answer
    assert "data-embed" in answer.content.decode()
    other: Any = client.get("/login/?embed=1")
    assert (other["X-Frame-Options"], "frame-ancestors *" in other["Content-Security-Policy"]) == ("DENY", False)


def test_watch_page_is_404_without_hls_and_503_without_secure_hls_url(
    client: Client, stream: Stream, settings: Settings
) -> None:
    settings.HLS_ADDRESS = None
    assert ask(client)[0] == 404
    settings.HLS_ADDRESS = ("127.0.0.1", 8002)
    answer: Any = client.get(PATH, secure=True)
    assert (answer.status_code, "RTMPWEB_HLS_URL" in answer.content.decode()) == (503, True)
    settings.HLS_URL_BASE = "https://hls.example.org/tv"
    answer = client.get(PATH, secure=True)
    assert 'data-hls="https://hls.example.org/tv/hls/live/cam-1/"' in answer.content.decode()
    assert "connect-src https://hls.example.org;" in answer["Content-Security-Policy"] + ";"


def test_watch_page_serves_instance_names_and_open_applications(client: Client, db: None, settings: Settings) -> None:
    application = Application.objects.create(name="open", publish_policy="open")
    assert ask(client, "/watch/open/to-come")[0] == 200
    Stream.objects.create(application=application, name="studio/Café 1")
    status, text = ask(client, "/watch/open/studio/Caf%C3%A9%201")
    assert status == 200
    assert "/hls/open/studio/Caf%C3%A9%201/" in text
    assert "<title>Café 1</title>" in text
    settings.REWIND_S = 600
    assert "data-rewind" in ask(client, "/watch/open/studio/Caf%C3%A9%201")[1]


def test_watch_poster_follows_the_play_policy(client: Client, stream: Stream) -> None:
    assert client.get(POSTER).status_code == 204
    picture = Thumbnail(image=b"RIFF", at_ms=1_700_000_000_000)
    async_to_sync(get_livestore().put_thumbnail)("live/cam-1", picture)
    answer: Any = client.get(POSTER)
    assert (answer.status_code, answer.content, answer["Content-Type"]) == (200, b"RIFF", "image/webp")
    assert client.get(POSTER, headers={"If-None-Match": answer["ETag"]}).status_code == 304
    assert not answer.cookies
    policy("token")
    assert client.get(POSTER).status_code == 404
    assert client.get(f"{POSTER}?token={link(stream)}").status_code == 200
    policy("none")
    assert client.get(POSTER).status_code == client.get("/poster/live/none.webp").status_code == 404


def test_watch_page_is_rate_limited_per_address(client: Client, stream: Stream) -> None:
    cache.clear()
    views.OF_ADDRESS.add("127.0.0.1", times=views.OF_ADDRESS.most)
    answer: Any = client.get(PATH)
    assert (answer.status_code, answer["Retry-After"]) == (429, "15")
    cache.clear()
