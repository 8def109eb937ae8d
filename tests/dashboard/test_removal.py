"""Disabling and deleting streams and applications by the API."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from ingest.models import Application, AuditEntry, Recording, Session, Stream
from ingest.services import keys, removal
from tests.dashboard.conftest import make_session
from tests.ingest.removing import meanwhile

STREAM = "/streams/live/cam-1"
APPLICATION = "/applications/live"


def ask(admin: Client, method: str, path: str, **body: Any) -> Any:
    return admin.generic(method, f"/api/v1{path}", json.dumps(body) if body else "", "application/json")


@pytest.mark.parametrize(("path", "subject"), [(STREAM, "stream"), (APPLICATION, "application")])
def test_it_is_disabled_and_enabled(admin: Client, stream: Stream, path: str, subject: str) -> None:
    assert ask(admin, "GET", path).json()["enabled"] is True
    for wanted in (False, False, True):
        answer = ask(admin, "PATCH", path, enabled=wanted)
        assert (answer.status_code, answer.json()["enabled"]) == (200, wanted)
        assert ask(admin, "GET", path).json() == answer.json()
    entries = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(entries) == [f"{subject}.disable", f"{subject}.enable"], "what changes nothing is no act"
    assert ask(admin, "PATCH", path, enabled="perhaps").status_code == 422


def test_an_application_tells_its_policies(admin: Client) -> None:
    Application.objects.create(name="live", play_policy="token", record="all")
    found = ask(admin, "GET", APPLICATION).json()
    assert found == {
        "name": "live",
        "enabled": True,
        "publish": "key",
        "play": "token",
        "record": "all",
        "encoder_login": False,
        "play_recordings": "signed",
        "play_start_unit": "ms",
        "max_instances": 16,
        "shared_objects": "none",
        "callback": "none",
    }
    assert ask(admin, "GET", "/applications").json() == {"items": [found], "count": 1}


@pytest.mark.both_forms
@pytest.mark.parametrize("path", [STREAM, APPLICATION])
def test_it_is_deleted_and_its_history_stays(admin: Client, stream: Stream, path: str) -> None:
    session = make_session(stream, ended_ago_s=1)
    assert ask(admin, "DELETE", path).status_code == 204
    assert ask(admin, "GET", path).status_code == 404
    assert ask(admin, "DELETE", path).status_code == 404
    assert Session.objects.get().pk == session.pk


@pytest.mark.parametrize("path", [STREAM, APPLICATION])
def test_while_it_is_live_it_is_deleted_only_by_force(
    admin: Client, stream: Stream, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_session(stream)
    refused = ask(admin, "DELETE", path)
    assert refused.status_code == 409
    assert "is live: 1 publishing, 0 playing." in refused.json()["detail"]
    assert Stream.objects.exists()
    with monkeypatch.context() as patched:
        patched.setattr(removal, "WAIT_S", 0.0)
        refused = ask(admin, "DELETE", f"{path}?force=true")
        assert refused.status_code == 409
        assert "it is disabled, but one session has not ended" in refused.json()["detail"]
    assert ask(admin, "GET", path).json()["enabled"] is False
    meanwhile(monkeypatch)
    assert ask(admin, "DELETE", f"{path}?force=true").status_code == 204
    assert not Stream.objects.exists()
    assert Session.objects.get().end_reason == "kicked"


@pytest.mark.parametrize("path", [STREAM, APPLICATION])
def test_what_goes_with_it_is_told_before(admin: Client, stream: Stream, path: str) -> None:
    keys.create(stream=stream)
    make_session(stream)
    answer = ask(admin, "DELETE", f"{path}?dry_run=true&force=true")
    assert answer.status_code == 200
    told = answer.json()
    assert (told["goes"]["keys"], told["stays"]["sessions"], told["publishers"], told["players"]) == (1, 1, 1, 0)
    assert Stream.objects.exists()
    assert not Session.objects.exclude(stop_requested="").exists()


@pytest.fixture
def recording(stream: Stream, settings: Any, tmp_path: Path) -> Recording:
    settings.RECORDINGS_DIR = tmp_path
    (tmp_path / "1.flv").write_bytes(b"FLV")
    about = {"application": stream.application, "stream": stream, "name": "cam-1"}
    return Recording.objects.create(file="1.flv", state="complete", **about)


@pytest.mark.parametrize("gone", [False, True])
def test_recordings_go_with_a_stream_if_that_is_said(
    admin: Client, recording: Recording, tmp_path: Path, gone: bool
) -> None:
    assert ask(admin, "DELETE", f"{STREAM}?recordings={'true' if gone else 'false'}").status_code == 204
    assert Recording.objects.exists() is not gone
    assert (tmp_path / "1.flv").exists() is not gone


def test_a_recording_that_is_written_keeps_its_stream(admin: Client, recording: Recording) -> None:
    Recording.objects.update(state="recording")
    answer = ask(admin, "DELETE", f"{STREAM}?recordings=true")
    assert answer.status_code == 409
    assert "It is being recorded" in answer.json()["detail"]
    assert Stream.objects.exists()
