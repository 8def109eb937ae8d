"""The page of recordings, the API's part, downloads and deletion: what is shown, to whom, and what is left after."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ingest.models import AuditEntry, Recording, Stream
from ingest.services import play_tokens
from tests.dashboard.conftest import api_token, make_stream

CONTENT = b"FLV" + bytes(range(256)) * 4096

Make = Callable[..., Recording]


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.RECORDINGS_DIR = tmp_path
    return tmp_path


@pytest.fixture
def make(folder: Path, stream: Stream) -> Make:
    def make(name: str = "show", day: int = 1, of: Stream = stream, **fields: Any) -> Recording:
        file = f"live/{Recording.objects.count()}.flv"
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(CONTENT)
        given = {"state": "complete", "duration_ms": 3_725_000, "size_bytes": len(CONTENT)} | fields
        at = datetime(2026, 11, day, 12, 30, tzinfo=UTC)
        return Recording.objects.create(
            application=of.application, stream=of, name=name, file=file, started_at=at, ended_at=at, **given
        )

    return make


def shown(client: Client, query: str = "") -> list[str]:
    return [row.name for row in client.get(f"/recordings/{query}").context["page"]]


def test_recordings_page_lists_recordings_newest_first(viewer: Client, make: Make) -> None:
    make("old", 1)
    make("new", 2, keep=True, description="Imported from a.mp4.")
    assert shown(viewer) == ["new", "old"]
    text = viewer.get("/recordings/").content.decode()
    for words in ("live/new", "Kept", "Imported from a.mp4.", "1:02:05", "1.0\xa0MB", "Complete", "1 Nov 2026"):
        assert words in text
    assert "open:delete" not in text


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("?name=a", ["cam", "art"]),
        ("?app=vod", ["film"]),
        ("?state=failed", ["art"]),
        ("?since=2026-11-02", ["film", "cam"]),
        ("?until=2026-11-02", ["cam", "art"]),
        ("?since=2026-11-02&until=2026-11-02", ["cam"]),
        ("?since=tomorrow&state=", ["film", "cam", "art"]),
        ("?name=%00&since=2026-13-40", ["film", "cam", "art"]),
    ],
)
def test_recordings_are_filtered_by_name_application_state_and_date(
    viewer: Client, make: Make, query: str, names: list[str]
) -> None:
    make("art", 1, state="failed")
    make("cam", 2)
    make("film", 3, of=make_stream("x", "vod"))
    assert shown(viewer, query) == names


def test_without_recordings_the_page_says_what_to_do(viewer: Client) -> None:
    assert "application set live --record all" in viewer.get("/recordings/").content.decode()
    assert "No recording matches" in viewer.get("/recordings/?name=x").content.decode()


@pytest.mark.parametrize("way", ["page", "session", "token"])
def test_deleting_a_recording_deletes_its_file(operator: Client, make: Make, folder: Path, way: str) -> None:
    row = make()
    if way == "page":
        answer = operator.post(f"/recordings/{row.pk}/delete", headers={"Accept": "application/json"})
    else:
        asked = operator if way == "session" else Client(headers=api_token("operator"))
        answer = asked.delete(f"/api/v1/recordings/{row.pk}")
    assert answer.status_code in (200, 204)
    assert not Recording.objects.exists()
    assert not (folder / row.file).exists()


def test_a_deletion_is_written_down(operator: Client, make: Make) -> None:
    row = make()
    answer = operator.post(f"/recordings/{row.pk}/delete", {"note": "asked for by the guest"}, follow=True)
    assert "The recording show is deleted." in answer.content.decode()
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.action, entry.target) == ("omar", "recording.delete", "live/show")
    assert entry.detail == {"file": row.file, "note": "asked for by the guest"}


def test_recording_in_progress_can_not_be_deleted(operator: Client, make: Make, folder: Path) -> None:
    row = make(state="recording")
    answer = operator.delete(f"/api/v1/recordings/{row.pk}")
    assert answer.status_code == 409
    assert "being recorded" in answer.json()["detail"]
    assert "being recorded" in operator.post(f"/recordings/{row.pk}/delete", follow=True).content.decode()
    assert (folder / row.file).exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("before", ["", "/api/v1"])
@pytest.mark.parametrize("state", ["recording", "complete", "failed"])
def test_a_download_leads_to_the_listener(viewer: Client, make: Make, settings: Any, before: str, state: str) -> None:
    settings.MEDIA_URL_BASE = "https://media.example.org"
    make("gr\u00fc\u00dfe 1")
    row = make("gr\u00fc\u00dfe 1", 2, state=state)
    as_mp4 = viewer.get(f"{before}/recordings/{row.pk}/download?format=mp4")
    assert as_mp4["Location"].startswith("https://media.example.org/recordings/live/gr%C3%BC%C3%9Fe%201.mp4?token=")
    answer = viewer.get(f"{before}/recordings/{row.pk}/download")
    url, _, token = answer["Location"].partition("?token=")
    assert (answer.status_code, url) == (302, "https://media.example.org/recordings/live/gr%C3%BC%C3%9Fe%201.flv")
    assert answer["Cache-Control"] == "private, no-store"
    assert play_tokens.DOWNLOAD.read(token) == (row.pk, "valid")
    later = timezone.now() + timedelta(seconds=61)
    assert play_tokens.DOWNLOAD.read(token, now=later) == (row.pk, "expired")


def test_without_the_media_listener_a_download_says_what_to_set(viewer: Client, make: Make, settings: Any) -> None:
    settings.MEDIA_ADDRESS = None
    row = make()
    page = viewer.get(f"/recordings/{row.pk}/download")
    answer = viewer.get(f"/api/v1/recordings/{row.pk}/download")
    assert (page.status_code, answer.status_code) == (503, 503)
    assert "RTMPWEB_MEDIA" in page.content.decode()
    assert "RTMPWEB_MEDIA" in answer.json()["detail"]
    assert viewer.get(f"/api/v1/recordings/{row.pk}").json()["flv_url"] == ""


def test_a_file_outside_the_folder_is_not_handed_out(viewer: Client, make: Make) -> None:
    row = make()
    Recording.objects.update(file="../../etc/passwd")
    assert viewer.get(f"/recordings/{row.pk}/download").status_code == 404
    assert viewer.get(f"/api/v1/recordings/{row.pk}/download").status_code == 404


def test_the_api_describes_recordings(viewer: Client, make: Make, settings: Any) -> None:
    settings.MEDIA_ADDRESS = ("127.0.0.1", 8001)
    make("old", 1)
    row = make("new", 2, node=None)
    found = viewer.get("/api/v1/recordings?app=live&stream=cam-1&since=2026-11-02").json()
    assert found["count"] == 1
    assert found["items"][0] == viewer.get(f"/api/v1/recordings/{row.pk}").json()
    assert found["items"][0] == {
        "id": row.pk,
        "app": "live",
        "name": "new",
        "stream": "cam-1",
        "session_id": None,
        "node": None,
        "state": "complete",
        "description": "",
        "started_at": "2026-11-02T12:30:00Z",
        "ended_at": "2026-11-02T12:30:00Z",
        "duration_ms": 3_725_000,
        "size_bytes": len(CONTENT),
        "keep": False,
        "flv_url": "http://127.0.0.1:8001/recordings/live/new.flv",
        "mp4_url": "http://127.0.0.1:8001/recordings/live/new.mp4",
    }
    assert viewer.get("/api/v1/recordings/999999").status_code == 404


def test_a_token_plays_one_recording(operator: Client, make: Make, settings: Any) -> None:
    settings.MEDIA_ADDRESS = ("127.0.0.1", 8001)
    row = make("new", 2)
    path = f"/api/v1/recordings/{row.pk}/token"
    answer = operator.post(path, {"hours": 2}, content_type="application/json")
    made = answer.json()
    assert answer.status_code == 201
    assert play_tokens.RECORDING.read(made["token"]) == (row.pk, "valid")
    assert made["flv_url"] == f"http://127.0.0.1:8001/recordings/live/new.flv?token={made['token']}"
    assert made["mp4_url"] == f"http://127.0.0.1:8001/recordings/live/new.mp4?token={made['token']}"
    assert made["watch_url"].endswith(f"/recordings/{row.pk}/watch?token={made['token']}")
    assert operator.generic("POST", path).status_code == 201, "for the usual time"
    row.application.play_policy = "none"
    row.application.save()
    assert operator.generic("POST", path).status_code == 409
    assert operator.generic("POST", "/api/v1/recordings/999999/token").status_code == 404
