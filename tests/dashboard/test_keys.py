"""The page of keys and the API's part: what is shown, what is done, and that a secret is told once."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ingest.models import AuditEntry, Stream, StreamKey
from ingest.services import keys
from tests.dashboard.conftest import api_token, audited, lacks, make_session

SECRET = re.compile(r"rk_[A-Za-z0-9]{32}")
BY_SCRIPT = {"X-Requested-With": "fetch"}


def secret_of(answer: Any) -> str:
    found = set(SECRET.findall(answer.content.decode()))
    assert len(found) == 1
    return str(found.pop())


def create(client: Client, **fields: Any) -> Any:
    return client.post("/keys/create", {"stream": "live/cam-1", "label": "OB van", **fields}, headers=BY_SCRIPT)


@pytest.mark.both_forms
def test_a_key_is_made_with_its_stream_and_shown_once(manager: Client, stream: Stream) -> None:
    limits = {"max_kbps": "8000", "over_limit": "close", "allowed_networks": "198.51.100.0/24, 2001:db8::/32"}
    answer = create(manager, stream="live/cam-2", expires_at="2040-01-31T12:00", test_only="1", **limits)
    assert answer.status_code == 201
    assert "no-store" in answer["Cache-Control"]
    secret = secret_of(answer)
    text = answer.content.decode()
    assert re.search(r'id="made-server-label">Server<.*?rtmp://', text, re.DOTALL)
    assert re.search(rf'id="made-key-label">Stream Key<.*?{secret}', text, re.DOTALL)
    assert lacks(text, f"/live/{secret}", f"/live/cam-2?key={secret}") == []
    key = keys.find(secret=secret)
    assert key is not None
    assert key.stream.path == "live/cam-2"
    assert (key.max_kbps, key.over_limit, key.test_only) == (8000, "close", True)
    assert key.allowed_networks == ["198.51.100.0/24", "2001:db8::/32"]
    assert key.expires_at is not None
    assert key.expires_at.isoformat() == "2040-01-31T12:00:00+00:00"
    for path in ("/keys/", f"/keys/{key.pk}/", f"/keys/{key.pk}/test/", f"/keys/{key.pk}/test/progress?since=0"):
        page = manager.get(path)
        assert page.status_code == 200
        assert secret not in page.content.decode()
    assert secret not in json.dumps([*AuditEntry.objects.values(), *StreamKey.objects.values()], default=str)


def test_a_form_that_is_sent_again_by_the_browser_makes_nothing(manager: Client, stream: Stream) -> None:
    """A reload, or a step back in its history: it sends no header of the page's script."""
    assert manager.post("/keys/create", {"stream": "live/cam-1"}).status_code == 400
    assert not StreamKey.objects.exists()


@pytest.mark.parametrize(
    ("fields", "where", "words"),
    [
        ({"stream": "cam-1"}, "stream", "such as live/cam1"),
        ({"stream": "nowhere/cam-1"}, "stream", "There is no application nowhere"),
        ({"stream": "live/a b"}, "stream", "without blanks"),
        ({"allowed_networks": "everywhere"}, "allowed_networks", "everywhere"),
        ({"max_kbps": "0"}, "max_kbps", "greater than or equal to 1"),
        ({"expires_at": "2001-01-01T00:00"}, "expires_at", "is over"),
        ({"expires_at": "soon"}, "expires_at", "valid date"),
    ],
)
def test_invalid_key_form_reports_the_error_at_its_field(
    manager: Client, stream: Stream, fields: dict[str, str], where: str, words: str
) -> None:
    answer = create(manager, **fields)
    assert answer.status_code == 422
    assert words in " ".join(answer.json()["errors"][where])
    assert not StreamKey.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_rotated_key_works_on_for_its_grace(manager: Client, stream: Stream) -> None:
    old = keys.create(stream=stream, label="studio", max_kbps=4000)
    answer = manager.post(f"/keys/{old.key.pk}/rotate", {"grace": "24h"}, headers=BY_SCRIPT)
    new = keys.find(secret=secret_of(answer))
    found = keys.find(secret=old.secret)
    assert new is not None
    assert found is not None
    assert (keys.state(key=found), keys.state(key=new)) == ("active", "active")
    assert new.max_kbps == 4000
    assert "Rotated, works for " in manager.get("/keys/").content.decode()
    again = manager.post(f"/keys/{old.key.pk}/rotate", {"grace": "0"}, headers=BY_SCRIPT)
    assert again.status_code == 422
    assert "rotated already" in str(again.json())


@pytest.mark.both_forms
def test_a_key_is_changed_disabled_and_revoked(manager: Client, stream: Stream) -> None:
    key = keys.create(stream=stream, label="studio").key
    url = f"/keys/{key.pk}"
    said = manager.post(f"{url}/change", {"label": "rack", "max_kbps": "900", "allowed_networks": ""}, follow=True)
    assert "rack is changed" in said.content.decode()
    manager.post(f"{url}/enable", {"enabled": "0"})
    key.refresh_from_db()
    assert (key.label, key.max_kbps, keys.state(key=key)) == ("rack", 900, "disabled")
    manager.post(f"{url}/enable", {"enabled": "1"})
    manager.post(f"{url}/revoke")
    key.refresh_from_db()
    assert keys.state(key=key) == "revoked"
    assert f'data-key="{key.pk}"' not in manager.get("/keys/").content.decode()
    assert f'data-key="{key.pk}"' in manager.get("/keys/?state=revoked").content.decode()
    wrong = manager.post(f"{url}/change", {"allowed_networks": "x"})
    assert wrong.status_code == 422
    assert audited("action") == ["key.change", "key.disable", "key.enable", "key.revoke"]
    changed = {"label": ["studio", "rack"], "max_kbps": [None, 900]}
    assert AuditEntry.objects.get(action="key.change").detail["changed"] == changed


@pytest.mark.both_forms
def test_the_list_says_each_state(manager: Client, stream: Stream) -> None:
    now = timezone.now()
    live = keys.create(stream=stream, label="on air").key
    make_session(stream, key=live)
    keys.create(stream=stream, label="soon", expires_at=now + timedelta(days=2, minutes=5))
    StreamKey.objects.filter(pk=keys.create(stream=stream, label="old").key.pk).update(expires_at=now)
    keys.create(stream=stream, label="off", enabled=False)
    keys.create(stream=stream, label="trial", test_only=True, secret="brought-over")
    text = manager.get("/keys/").content.decode()
    states = dict(re.findall(r'data-state="(\w+)">.*?<b>(\w[\w ]*)</b>', text, re.DOTALL))
    assert {"active", "expiring", "expired", "disabled"} == states.keys()
    assert lacks(text, "5 keys: 3 usable, 1 disabled, 1 expired", "Expires in 2\u00a0d", "Test only", "imported") == []
    assert "<b>soon</b>" in manager.get("/keys/?state=expiring").content.decode()
    assert "<b>soon</b>" not in manager.get("/keys/?q=trial").content.decode()
    assert "No key matches" in manager.get("/keys/?q=nothing-like-it").content.decode()


@pytest.mark.both_forms
@pytest.mark.django_db
def test_the_api_makes_rotates_and_revokes(client: Client, stream: Stream) -> None:
    headers = api_token("key manager")

    def post(path: str, **body: Any) -> Any:
        return client.post(f"/api/v1/keys{path}", json.dumps(body), "application/json", headers=headers)

    made = post("", app="live", name="cam-9", label="script", max_kbps=3000)
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    body = made.json()
    assert SECRET.fullmatch(body["key"])
    assert (body["app"], body["name"], body["state"], body["max_kbps"]) == ("live", "cam-9", "active", 3000)
    rotated = post(f"/{body['id']}/rotate", grace_s=3600)
    assert rotated.status_code == 201
    assert rotated.json()["key"] != body["key"]
    assert post(f"/{body['id']}/rotate").status_code == 409
    listed = client.get("/api/v1/keys", headers=headers)
    assert [item["state"] for item in listed.json()["items"]] == ["active", "grace"]
    assert "key" not in listed.json()["items"][0]
    assert post(f"/{body['id']}/revoke").json()["state"] == "revoked"
    assert post("", app="live", name="a b").status_code == 422
    assert post("", app="nowhere", name="cam").status_code == 404
    assert set(audited("actor")) == {"token key manager-script"}
    assert audited("action") == ["stream.create", "key.create", "key.rotate", "key.revoke"]
