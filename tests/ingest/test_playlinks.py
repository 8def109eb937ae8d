"""Tokens and URLs for playing: by the command, and which pages may use them."""

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone
from pytest_django import Settings

from ingest.models import Application, AuditEntry, Recording, Stream
from ingest.services import media_urls, play_tokens


@pytest.fixture
def stream(db: None) -> Stream:
    application, _ = Application.objects.get_or_create(name="live")
    return Stream.objects.create(application=application, name="caf\u00e9")


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command("playtoken", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_prints_the_token_and_the_urls(stream: Stream, settings: Settings) -> None:
    settings.RTMP_ADDRESS, settings.MEDIA_ADDRESS = ("0.0.0.0", 1935), ("0.0.0.0", 8001)
    found: dict[str, Any] = json.loads(printed("live/caf\u00e9", "--hours", "2", "--json"))
    token = found["token"]
    assert play_tokens.verify(token=token, stream=stream.pk) == "valid"
    later = timezone.now() + timedelta(hours=2, minutes=1)
    assert play_tokens.verify(token=token, stream=stream.pk, now=later) == "expired"
    assert abs(datetime.fromisoformat(found["expires_at"]) - later) < timedelta(minutes=2)
    assert found["stream"] == "live/caf\u00e9"
    assert found["play_url"] == f"rtmp://127.0.0.1/live/caf%C3%A9?token={token}"
    assert found["flv_url"] == f"http://127.0.0.1:8001/live/live/caf%C3%A9.flv?token={token}"
    assert found["ws_url"] == f"ws://127.0.0.1:8001/live/live/caf%C3%A9.flv?token={token}"
    assert "flv url: http://127.0.0.1:8001/live/live/caf%C3%A9.flv?token=" in printed("live/caf\u00e9")


def test_the_urls_are_those_that_browsers_use(stream: Stream, settings: Settings) -> None:
    settings.MEDIA_URL_BASE = "https://media.example.org/tv"
    link = media_urls.make_play_link(stream=stream)
    assert link.flv_url.startswith("https://media.example.org/tv/live/live/")
    assert link.ws_url.startswith("wss://media.example.org/tv/live/live/")
    settings.MEDIA_ADDRESS = None
    link = media_urls.make_play_link(stream=stream)
    assert (link.flv_url, link.ws_url) == ("", "")


@pytest.mark.parametrize("hours", ["0", "-1", "nan", "800"])
def test_no_token_is_made_for_no_time_or_for_ever(stream: Stream, hours: str) -> None:
    with pytest.raises(CommandError, match="744 at most"):
        printed("live/caf\u00e9", "--hours", hours)


def test_no_token_is_made_where_nobody_may_play(stream: Stream) -> None:
    Application.objects.update(play_policy=Application.PlayPolicy.NONE)
    with pytest.raises(CommandError, match="--play token"):
        printed("live/caf\u00e9")


def test_the_dashboard_s_own_pages_may_play(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "[::1]", ".example.org", "*"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://Live.example.org", "https://*.example.org"]
    settings.HTTP_ADDRESS = ("127.0.0.1", 8000)
    assert media_urls.origins() == {"http://localhost:8000", "http://[::1]:8000", "https://live.example.org"}
    settings.BEHIND_TLS = True
    assert "https://localhost" in media_urls.origins()
    settings.MEDIA_ORIGINS = ["https://WWW.example.org/"]
    assert media_urls.origins() == {"https://www.example.org"}


@pytest.fixture
def recording(stream: Stream) -> Recording:
    return Recording.objects.create(application=stream.application, stream=stream, name="show 1", file="a.flv")


def test_a_recordings_link_is_for_that_one(recording: Recording, settings: Any) -> None:
    settings.MEDIA_ADDRESS = ("127.0.0.1", 8001)
    found = json.loads(printed("--recording", str(recording.pk), "--hours", "1", "--json"))
    token = found["token"]
    assert play_tokens.recording_of(token=token) == (recording.pk, "valid")
    assert found["recording"] == "live/show 1"
    assert found["play_url"] == f"rtmp://127.0.0.1/live/show%201?token={token}"
    assert found["flv_url"] == f"http://127.0.0.1:8001/recordings/live/show%201.flv?token={token}"
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target) == ("recording_token.create", "live/show 1")
    assert token not in str(entry.detail)
    Application.objects.update(play_policy=Application.PlayPolicy.NONE)
    for given in (("--recording", str(recording.pk)), ("live/caf\u00e9",)):
        with pytest.raises(CommandError, match="Nobody may play"):
            printed(*given)
    with pytest.raises(CommandError, match="no recording 999"):
        printed("--recording", "999")
    with pytest.raises(CommandError):
        printed("live/caf\u00e9", "--recording", str(recording.pk))
