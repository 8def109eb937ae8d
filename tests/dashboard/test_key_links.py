"""Test links: made, listed and revoked at a key; and what a streamer without a log-in gets by one."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from dashboard.keys import test_links as pages
from dashboard.throttle import Limit
from ingest.models import Attempt, AuditEntry, Session, StatusEvent, Stream, StreamKey
from ingest.services import actions as services_actions
from ingest.services import keys
from ingest.services.audit import Actor
from tests.dashboard.conftest import audited, make_session

BY_SCRIPT = {"X-Requested-With": "fetch"}
LINK = re.compile(r"(https?://[^\s<\"]+/t/)#(rk_[A-Za-z0-9]{32})")


@pytest.fixture
def key(stream: Stream) -> StreamKey:
    return keys.create(stream=stream, label="OB van", max_kbps=6000, allowed_networks=["192.0.2.0/24"]).key


def make(client: Client, key: StreamKey, lifetime: str = "24h") -> str:
    """The link's secret."""
    answer = client.post(f"/keys/{key.pk}/link", {"lifetime": lifetime}, headers=BY_SCRIPT)
    assert answer.status_code == 201
    assert "no-store" in answer["Cache-Control"]
    (found,) = set(LINK.findall(answer.content.decode()))
    return str(found[1])


def ask(secret: str, address: str = "192.0.2.7", client: Client | None = None) -> Any:
    return (client or Client(REMOTE_ADDR=address)).get("/t/progress", headers={pages.HEADER: secret})


def step(answer: Any, name: str) -> dict[str, str]:
    return next(each for each in answer.json()["steps"] if each["id"] == name)


@pytest.mark.both_forms
def test_a_link_has_a_key_of_its_own_that_never_goes_on_air(manager: Client, key: StreamKey) -> None:
    secret = make(manager, key)
    link = keys.find(secret=secret)
    assert link is not None
    assert (link.link_of, link.stream, link.test_only) == (key, key.stream, True)
    assert (link.max_kbps, link.allowed_networks) == (6000, ["192.0.2.0/24"])
    assert link.expires_at is not None
    assert timedelta(hours=23) < link.expires_at - timezone.now() <= timedelta(hours=24)
    assert audited("action") == ["test_link.create"]
    assert secret not in str(list(AuditEntry.objects.values()))
    page = manager.get(f"/keys/{key.pk}/").content.decode()
    assert f'data-link="{link.pk}"' in page
    assert secret not in page
    listed = manager.get("/keys/").content.decode()
    assert "1 key: 1 usable" in listed
    assert f'data-key="{link.pk}"' not in listed


@pytest.mark.both_forms
def test_a_revoked_link_opens_nothing(manager: Client, key: StreamKey) -> None:
    secret, other = make(manager, key), make(manager, key, "7d")
    link = StreamKey.objects.get(link_of=key, digest=keys.digest(secret))
    assert ask(secret).status_code == 200
    answer = manager.post(f"/keys/{link.pk}/revoke")
    assert answer["Location"] == f"/keys/{key.pk}/"
    assert ask(secret).status_code == 404
    assert ask(other).status_code == 200
    assert audited("action") == ["test_link.create", "test_link.create", "test_link.revoke"]
    manager.post(f"/keys/{key.pk}/revoke")
    assert ask(other).status_code == 404, "links end with their key"


def test_links_move_to_the_key_that_takes_the_place_of_theirs(manager: Client, key: StreamKey) -> None:
    secret = make(manager, key)
    successor = keys.rotate(key=key).key
    link = keys.find(secret=secret)
    assert link is not None
    assert link.link_of == successor
    itself = manager.post(f"/keys/{link.pk}/rotate", {"grace": "0"}, headers=BY_SCRIPT)
    assert itself.status_code == 422
    assert "make another link in its place" in str(itself.json())
    assert ask(secret).status_code == 200
    assert manager.post(f"/keys/{key.pk}/link", {"lifetime": "1h"}, headers=BY_SCRIPT).status_code == 422


def test_a_link_does_not_outlive_its_key_and_there_are_ten_at_most(manager: Client, stream: Stream) -> None:
    soon = timezone.now() + timedelta(minutes=5)
    key = keys.create(stream=stream, expires_at=soon).key
    found = [keys.find(secret=make(manager, key, "7d")) for _ in range(10)]
    assert {link and link.expires_at for link in found} == {soon}
    more = manager.post(f"/keys/{key.pk}/link", {"lifetime": "1h"}, headers=BY_SCRIPT)
    assert more.status_code == 422
    assert "limit 10" in str(more.json())
    assert manager.post(f"/keys/{key.pk}/link", {"lifetime": "9y"}, headers=BY_SCRIPT).status_code == 400
    assert manager.post(f"/keys/{key.pk}/link", {"lifetime": "1h"}).status_code == 400, "not by the page's script"
    assert StreamKey.objects.filter(link_of=key).count() == 10


def test_links_are_disabled_with_their_key_and_expire_no_later(manager: Client, key: StreamKey) -> None:
    secret = make(manager, key, "7d")
    soon = timezone.now() + timedelta(hours=2)
    services_actions.change_key(Actor("test"), key, expires_at=soon)
    assert keys.find(secret=secret).expires_at == soon  # type: ignore[union-attr]
    manager.post(f"/keys/{key.pk}/enable", {"enabled": "0"})
    assert ask(secret).status_code == 404
    link = StreamKey.objects.get(link_of=key)
    assert not link.enabled, "its key publishes no tests either"
    manager.post(f"/keys/{key.pk}/enable", {"enabled": "1"})
    assert ask(secret).status_code == 404
    manager.post(f"/keys/{link.pk}/enable", {"enabled": "1"})
    assert ask(secret).status_code == 200


@pytest.mark.parametrize(
    "rights", [{"test_only": "on", "expires_at": ""}, {"test_only": "", "expires_at": "2099-01-01T00:00"}]
)
def test_a_link_can_not_be_made_a_key_that_goes_on_air(manager: Client, key: StreamKey, rights: dict[str, str]) -> None:
    secret = make(manager, key)
    link = StreamKey.objects.get(link_of=key)
    given = {"label": "x", "over_limit": "warn", "allowed_networks": "192.0.2.0/24"} | rights
    answer = manager.post(f"/keys/{link.pk}/change", given)
    assert answer.status_code == 422
    assert "it stays for tests only, and expires" in answer.content.decode()
    link = StreamKey.objects.get(digest=keys.digest(secret))
    assert (link.test_only, link.expires_at is None) == (True, False)


@pytest.mark.parametrize("path", ["/t/", "/t/progress"])
def test_test_link_page_is_not_cached_indexed_framed_or_sent_as_referrer(db: None, path: str) -> None:
    answer = Client().get(path)
    assert answer["Cache-Control"] == "no-store"
    assert answer["Referrer-Policy"] == "no-referrer"
    assert answer["X-Robots-Tag"] == "noindex, nofollow"
    assert answer["X-Frame-Options"] == "DENY"
    assert not answer.cookies
    assert Client().post(path).status_code == 405


@pytest.mark.both_forms
@pytest.mark.parametrize("secret", ["", "x", "rk_" + "x" * 32, "\x00", "rk_" + "é" * 40, "r" * 5000, "' OR 1=1 --"])
def test_invalid_test_link_secrets_get_the_same_404(db: None, secret: str) -> None:
    answer = ask(secret)
    assert (answer.status_code, answer.json()) == (404, {"detail": pages.UNKNOWN})


@pytest.mark.both_forms
def test_ordinary_key_and_expired_test_link_get_the_unknown_answer(manager: Client, key: StreamKey) -> None:
    ordinary = keys.create(stream=key.stream, test_only=True)
    assert ask(ordinary.secret).json() == {"detail": pages.UNKNOWN}
    secret = make(manager, key)
    StreamKey.objects.filter(link_of=key).update(expires_at=timezone.now())
    assert ask(secret).json() == {"detail": pages.UNKNOWN}


def test_a_streamer_sees_the_own_test_and_nothing_of_others(manager: Client, key: StreamKey) -> None:
    secret = make(manager, key)
    link = StreamKey.objects.get(link_of=key)
    make_session(key.stream, key=key, address="198.51.100.20", encoder="secret-encoder")
    now = {"at": timezone.now(), "action": "publish", "encoder": "OBS 31"}
    for address, reason, own in (
        (
            "203.0.113.9",
            "key_unknown",
            {"description": "The stream key is not known.", "app": "other", "name": "rk_zz…"},
        ),
        ("203.0.113.8", "busy", {"stream": key.stream, "key": key, "app": "live", "name": "cam-1"}),
        ("192.0.2.7", "unknown_app", {"description": "There is no such application.", "app": "lvie"}),
        ("192.0.2.99", "test_over", {"key": link, "stream": key.stream, "description": "The test has ended."}),
    ):
        Attempt.objects.create(address=address, reason=reason, **now, **own)
    answer = ask(secret)
    text = answer.content.decode()
    body = answer.json()
    assert body["stream"] == "live/cam-1"
    assert [(each["reason"], each["whose"]) for each in body["refusals"]] == [
        ("test_over", "key"),
        ("unknown_app", "address"),
    ]
    assert "copy it from this page" in body["refusals"][1]["advice"]
    for hidden in (secret, "203.0.113", "198.51.100.20", "secret-encoder", "OB van", "session"):
        assert hidden not in text
    assert step(answer, "publish")["state"] == "wait", "the stream's own publisher is no test"


def test_the_verdict_stays_when_the_encoder_has_stopped(manager: Client, key: StreamKey) -> None:
    secret = make(manager, key)
    link = StreamKey.objects.get(link_of=key)
    long_ago = timezone.now() - timedelta(seconds=100)

    def tested(reason: str, seconds: int, **fields: Any) -> Session:
        session = make_session(key.stream, key=link, is_test=True, ended_ago_s=1, **fields)
        ended = long_ago + timedelta(seconds=seconds)
        Session.objects.filter(pk=session.pk).update(started_at=long_ago, ended_at=ended, end_reason=reason)
        return session

    measured = {"video_codec": "H.264", "audio_codec": "AAC", "width": 1280, "height": 720}
    session = tested("client_unpublish", 60, keyframes=30, bytes_in=15_000_000, **measured)
    answer = ask(secret)
    assert step(answer, "verdict") == {
        "id": "verdict",
        "state": "good",
        "title": "It worked",
        "words": step(answer, "verdict")["words"],
    }
    assert step(answer, "video")["words"] == "H.264, 1280 × 720."
    assert step(answer, "keyframes")["words"] == "2.0 s (limit 4 s)."
    assert step(answer, "bitrate")["words"] == "2,000 kbit/s on average."
    detail = {"advice": "Set the keyframe interval to 2 s."}
    StatusEvent.objects.create(session=session, sequence=5, kind="health.opened", code="gop_long", detail=detail)
    with_issue = step(ask(secret), "verdict")
    assert (with_issue["state"], with_issue["title"]) == ("warn", "Ended, with 1 issue found")
    assert "Set the keyframe interval to 2 s." in with_issue["words"]
    Session.objects.all().delete()
    tested("client_unpublish", 5, **measured)
    assert "Too short for a verdict" in step(ask(secret), "verdict")["words"]
    Session.objects.all().delete()
    tested("tcp_reset", 60, **measured)
    assert "If nobody stopped the encoder" in step(ask(secret), "verdict")["words"], "so ends, too, who stops OBS"
    Session.objects.all().delete()
    tested("idle_timeout", 60, **measured)
    assert step(ask(secret), "verdict")["state"] == "warn"


def test_test_link_requests_are_rate_limited_per_link_and_address(
    manager: Client, key: StreamKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "OF_LINK", Limit("test-link", 3, 60))
    monkeypatch.setattr(pages, "OF_ADDRESS", Limit("test-link-address", 5, 60))
    secret, other = make(manager, key), make(manager, key)
    assert [ask(secret).status_code for _ in range(4)] == [200, 200, 200, 429]
    assert ask(other).status_code == 200
    assert ask(other).status_code == 429, "of the address"
    refused = ask("rk_" + "x" * 32)
    assert refused.status_code == 429
    assert refused["Retry-After"] == "15"
    assert ask(other, "2001:db8::1").status_code == 200


def test_more_links_ask_the_database_no_more(manager: Client, key: StreamKey) -> None:
    counts = []
    manager.get(f"/keys/{key.pk}/")  # What is asked once a process.
    for _ in range(2):
        make(manager, key)
        with CaptureQueriesContext(connection) as asked:
            manager.get(f"/keys/{key.pk}/")
        counts.append(len(asked))
    assert counts[0] == counts[1]
    secret = make(manager, key)
    with CaptureQueriesContext(connection) as asked:
        ask(secret)
    assert len(asked) <= 4, "it is asked each two seconds"


def test_the_server_is_where_the_page_was_reached_unless_the_settings_say(
    manager: Client, key: StreamKey, settings: Settings
) -> None:
    settings.RTMP_ADDRESS, settings.RTMPS_ADDRESS, settings.RTMP_HOST = ("0.0.0.0", 1935), ("0.0.0.0", 443), ""
    settings.ALLOWED_HOSTS = ["*"]
    secret = make(manager, key)

    def servers() -> list[str]:
        headers = {pages.HEADER: secret, "host": "stage.example.org:8000"}
        answer = Client().get("/t/progress", headers=headers).json()
        return [answer["server"], answer["rtmps_server"]]

    assert servers() == ["rtmp://stage.example.org/live", "rtmps://stage.example.org/live"]
    shown = manager.get(f"/keys/{key.pk}/", headers={"host": "[2001:db8::5]"}).content.decode()
    assert "rtmp://[2001:db8::5]/live" in shown
    settings.RTMP_HOST = "in.example.org"
    assert servers() == ["rtmp://in.example.org/live", "rtmps://in.example.org/live"]


def test_the_link_leads_where_the_settings_say(manager: Client, key: StreamKey, settings: Settings) -> None:
    def url() -> str:
        answer = manager.post(f"/keys/{key.pk}/link", {"lifetime": "1h"}, headers=BY_SCRIPT)
        return str(LINK.findall(answer.content.decode())[0][0])

    assert url() == "http://testserver/t/"
    settings.PUBLIC_URL = "https://live.example.org"
    assert url() == "https://live.example.org/t/"
