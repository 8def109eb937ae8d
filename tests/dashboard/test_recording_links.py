"""A recording to look at: the page of who is logged in, and links that are shared, whose page needs no log-in."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.public_pages import HEADERS
from dashboard.recordings import watching
from ingest.models import Application, AuditEntry, Recording, Stream
from ingest.services import play_tokens
from tests.dashboard.conftest import make_stream

BY_SCRIPT = {"Accept": "application/json", "X-Requested-With": "fetch"}


@pytest.fixture
def recording(settings: Any, tmp_path: Path, stream: Stream) -> Recording:
    settings.RECORDINGS_DIR = tmp_path
    settings.MEDIA_ADDRESS, settings.MEDIA_URL_BASE = ("127.0.0.1", 8001), ""
    return made(stream)


def made(stream: Stream, name: str = "show", **fields: Any) -> Recording:
    given = {"state": "complete", "duration_ms": 3_725_000, "file": f"live/{Recording.objects.count()}.flv"} | fields
    return Recording.objects.create(application=stream.application, stream=stream, name=name, **given)


def policy_of(answer: Any) -> dict[str, str]:
    parts = (part.partition(" ") for part in answer["Content-Security-Policy"].split("; "))
    return {name: sources for name, _, sources in parts}


def test_recording_page_shows_details_and_contains_no_token(viewer: Client, recording: Recording) -> None:
    answer = viewer.get(f"/recordings/{recording.pk}/")
    text = answer.content.decode()
    for words in ("live/show", "1:02:05", "Complete", "?format=mp4", "<video"):
        assert words in text
    assert "token=" not in text
    assert "open:share" not in text, "who may not"
    assert policy_of(answer)["media-src"] == "'self' http://127.0.0.1:8001"
    assert policy_of(answer)["connect-src"] == "'self' http://127.0.0.1:8001"
    assert viewer.get("/recordings/999999/").status_code == 404


@pytest.mark.parametrize("policy", Application.PlayPolicy.values)
def test_viewer_gets_recording_player_url_under_any_play_policy(
    viewer: Client, recording: Recording, policy: str
) -> None:
    Application.objects.update(play_policy=policy)
    answer = viewer.post(f"/recordings/{recording.pk}/player", headers=BY_SCRIPT)
    assert answer["Cache-Control"] == "private, no-store"
    url, _, token = answer.json()["mp4_url"].partition("?token=")
    assert url == "http://127.0.0.1:8001/recordings/live/show.mp4"
    assert play_tokens.LOOK.read(token) == (recording.pk, "valid")
    assert play_tokens.LOOK.read(token, now=timezone.now() + timedelta(minutes=61)) == (recording.pk, "expired")
    assert play_tokens.DOWNLOAD.read(token)[0] == play_tokens.RECORDING.read(token)[0] == 0
    assert AuditEntry.objects.get().action == "recording.watch"


@pytest.mark.parametrize(
    ("address", "state", "secure", "status", "words"),
    [
        (None, "complete", False, 503, "RTMPWEB_MEDIA"),
        (("127.0.0.1", 8001), "complete", True, 503, "RTMPWEB_MEDIA_URL"),
        (("127.0.0.1", 8001), "recording", False, 409, "still being recorded"),
    ],
)
def test_unplayable_recording_says_why(
    viewer: Client, recording: Recording, settings: Any, address: Any, state: str, secure: bool, status: int, words: str
) -> None:
    settings.MEDIA_ADDRESS = address
    Recording.objects.update(state=state)
    page = viewer.get(f"/recordings/{recording.pk}/", secure=secure)
    assert words in page.content.decode()
    assert "<video" not in page.content.decode()
    answer = viewer.post(f"/recordings/{recording.pk}/player", headers=BY_SCRIPT, secure=secure)
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True)


def share(client: Client, recording: Recording, hours: str = "24") -> Any:
    return client.post(f"/recordings/{recording.pk}/link", {"hours": hours}, headers=BY_SCRIPT)


def link_of(answer: Any) -> str:
    found: str = answer.context["link"].watch_url
    assert answer.content.decode().count(found) == 1
    return found


def test_a_link_is_shown_once_and_written_down_without_its_token(operator: Client, recording: Recording) -> None:
    answer = share(operator, recording)
    assert (answer.status_code, answer["Cache-Control"]) == (201, "no-store")
    url = urlsplit(link_of(answer))
    assert (url.netloc, url.path) == ("testserver", f"/recordings/{recording.pk}/watch")
    token = url.query.removeprefix("token=")
    assert play_tokens.RECORDING.read(token) == (recording.pk, "valid")
    assert play_tokens.RECORDING.read(token, now=timezone.now() + timedelta(hours=25))[1] == "expired"
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target) == ("recording_token.create", "live/show")
    assert token not in repr(entry.detail)


def test_a_link_leads_to_the_public_address(operator: Client, recording: Recording, settings: Any) -> None:
    settings.PUBLIC_URL = "https://live.example.org"
    assert link_of(share(operator, recording)).startswith("https://live.example.org/recordings/")


def test_unshareable_recording_is_refused_with_a_reason(operator: Client, recording: Recording, settings: Any) -> None:
    assert share(operator, recording, hours="100000").status_code == 400

    def problem() -> str:
        answer = share(operator, recording)
        assert answer.status_code == 422
        (words,) = answer.json()["errors"][""]
        return str(words)

    Recording.objects.update(state="recording")
    assert "still being recorded" in problem()
    Recording.objects.update(state="complete")
    Application.objects.update(play_policy="none")
    assert "play policy" in problem()
    settings.MEDIA_ADDRESS = None
    assert "RTMPWEB_MEDIA" in problem()


@pytest.mark.parametrize(("of_stream", "of_application", "status"), [("none", "public", 422), ("public", "none", 201)])
def test_stream_play_policy_overrides_the_application_for_sharing(
    operator: Client, recording: Recording, of_stream: str, of_application: str, status: int
) -> None:
    Application.objects.update(play_policy=of_application)
    Stream.objects.update(play_policy=of_stream)
    assert share(operator, recording).status_code == status


@pytest.fixture
def anybody() -> Client:
    """Who was sent a link."""
    return Client()


def test_recording_link_plays_without_login_or_cookies(anybody: Client, operator: Client, recording: Recording) -> None:
    link = link_of(share(operator, recording))
    answer = anybody.get(link)
    text = answer.content.decode()
    token = link.partition("token=")[2]
    assert answer.status_code == 200
    assert f'src="http://127.0.0.1:8001/recordings/live/show.mp4?token={token}"' in text
    for words in ("<h1", "show", "1:02:05"):
        assert words in text
    assert "live/show<" not in text.partition("<video")[0], "the application is nobody's business"
    assert not answer.cookies
    assert not anybody.cookies
    assert policy_of(answer)["media-src"] == "'self' http://127.0.0.1:8001"
    for name, value in HEADERS.items():
        assert answer[name] == value


def test_invalid_recording_links_get_the_same_404(anybody: Client, recording: Recording, stream: Stream) -> None:
    other = made(make_stream("cam-2"), "other")
    token = play_tokens.RECORDING.issue(recording.pk)
    answers = [
        anybody.get(f"/recordings/{recording.pk}/watch"),
        anybody.get(f"/recordings/{recording.pk}/watch?token={token[:-1]}"),
        anybody.get(f"/recordings/{other.pk}/watch?token={token}"),
        anybody.get(f"/recordings/999999/watch?token={token}"),
        anybody.get(f"/recordings/{recording.pk}/watch?token={play_tokens.DOWNLOAD.issue(recording.pk)}"),
        anybody.get(f"/recordings/{recording.pk}/watch?token={play_tokens.LOOK.issue(recording.pk)}"),
    ]
    Application.objects.update(play_policy="none")
    answers.append(anybody.get(f"/recordings/{recording.pk}/watch?token={token}"))
    Application.objects.update(play_policy="public")
    Stream.objects.update(enabled=False)
    answers.append(anybody.get(f"/recordings/{recording.pk}/watch?token={token}"))
    assert {answer.status_code for answer in answers} == {404}
    assert {watching.UNKNOWN in answer.content.decode() for answer in answers} == {True}
    assert not any("show" in answer.content.decode() for answer in answers)


def test_a_link_that_has_expired_says_so(anybody: Client, recording: Recording) -> None:
    token = play_tokens.RECORDING.issue(recording.pk, now=timezone.now() - timedelta(days=1))
    answer = anybody.get(f"/recordings/{recording.pk}/watch?token={token}")
    assert (answer.status_code, watching.EXPIRED in answer.content.decode()) == (410, True)


def test_public_recording_needs_no_token_and_newest_of_a_name_is_shown(anybody: Client, recording: Recording) -> None:
    """Of several of the name it is the newest."""
    Application.objects.update(play_recordings="as_live")
    newer = made(Stream.objects.get(), "show", started_at=timezone.now() + timedelta(seconds=1))
    assert anybody.get(f"/recordings/{newer.pk}/watch").status_code == 200
    assert anybody.get(f"/recordings/{recording.pk}/watch").status_code == 404


def test_recording_link_is_409_while_recording_and_503_without_media(
    anybody: Client, recording: Recording, settings: Any
) -> None:
    link = f"/recordings/{recording.pk}/watch?token={play_tokens.RECORDING.issue(recording.pk)}"
    Recording.objects.update(state="recording")
    assert anybody.get(link).status_code == 409
    settings.MEDIA_ADDRESS = None
    answer = anybody.get(link)
    assert (answer.status_code, watching.LATER in answer.content.decode()) == (503, True)
    assert "RTMPWEB" not in answer.content.decode(), "which is for operators"


def test_recording_link_attempts_are_rate_limited_per_address(anybody: Client, recording: Recording) -> None:
    statuses = {
        anybody.get(f"/recordings/{recording.pk}/watch").status_code for _ in range(watching.OF_ADDRESS.most + 1)
    }
    assert statuses == {404, 429}
