"""The page of refused attempts while they come: its WebSocket, its filters and counts, and the bans it can lift."""

import json
import time
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ingest.consumers import recorder
from ingest.models import Attempt, AuditEntry, Ban, Stream, StreamKey
from ingest.services import keys
from ingest.services.authorization import Peer
from tests.dashboard.conftest import client_of, make_stream, make_user
from tests.dashboard.sockets import opened, said

PEER = Peer(address="192.0.2.9", encoder="OBS 30", node="n1", channel="")


def refuse(name: str = "rk_secretsecret", **fields: Any) -> None:
    """As the consumer of a connection does it."""
    asked: dict[str, Any] = {
        "action": "publish",
        "peer": PEER,
        "app": "live",
        "app_is_known": True,
        "name": name,
        "reason": "key_unknown",
        "code": "NetStream.Publish.BadName",
        "description": "The key is not known.",
    }
    recorder.attempt(**(asked | fields))


def make_attempt(**fields: Any) -> Attempt:
    base: dict[str, Any] = {"action": "publish", "app": "live", "address": "192.0.2.9", "reason": "key_unknown"}
    return Attempt.objects.create(**(base | fields))


def reasons(client: Client, query: str) -> list[str]:
    answer = client.get(f"/attempts/?{query}")
    assert answer.status_code == 200
    return [row.reason for row, _ in answer.context["rows"]]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.9

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """By which pages are told a few a second: it stands still, and nothing was refused in its second before."""
    held = Clock()
    monkeypatch.setattr(recorder, "_page_attempts", recorder._EachSecond(recorder.PAGE_ATTEMPTS_S, held))
    return held


@pytest.fixture
def viewing(transactional_db: None) -> Client:
    return client_of(make_user("viewer"))


@pytest.mark.both_forms
async def test_what_is_refused_is_told_at_once_and_names_no_secret(viewing: Client) -> None:
    async with opened("/ws/attempts/", viewing) as page:
        assert (await said(page))["kind"] == "snapshot"
        refuse(name="some-imported-key")
        told = await said(page)
    assert told["kind"] == "attempt"
    assert (told["reason"], told["address"], told["count"]) == ("key_unknown", "192.0.2.9", 1)
    assert abs(told["at"] - time.time()) < 5
    assert "some-imported-key" not in json.dumps(told)


async def test_of_a_flood_pages_are_told_a_few_a_second(viewing: Client, clock: Clock) -> None:
    async with opened("/ws/attempts/", viewing) as page:
        await said(page)
        for clock.now in (1000.9, 1001.0, 1001.9):
            for number in range(70):
                refuse(peer=Peer(address=f"192.0.2.{number}", encoder="", node="n1", channel=""))
        for _ in range(2 * recorder.PAGE_ATTEMPTS_S):
            assert (await said(page))["kind"] == "attempt"
        assert await page.receive_nothing(timeout=0.3)


@pytest.mark.both_forms
def test_filters_join(viewer: Client) -> None:
    now = timezone.now()
    make_attempt(reason="busy", app="cams", name="cam-1", at=now - timedelta(hours=2))
    make_attempt(reason="key_expired", name="cam-1", address="192.0.2.1")
    make_attempt(reason="token_missing", action="play", name="cam-2")
    assert reasons(viewer, "") == ["token_missing", "key_expired", "busy"]
    assert reasons(viewer, "app=cams") == ["busy"]
    assert reasons(viewer, "name=cam-1&address=192.0.2.1") == ["key_expired"]
    assert reasons(viewer, "action=play") == ["token_missing"]
    assert reasons(viewer, "within=3600") == ["token_missing", "key_expired"]
    assert reasons(viewer, f"until={(now - timedelta(hours=1)).isoformat().replace('+00:00', 'Z')}") == ["busy"]


@pytest.mark.parametrize(
    "query", ["within=7", "within=x", "key=x", f"key={'9' * 40}", "since=soon", "name=%00", "page=x"]
)
def test_a_filter_that_is_none_filters_nothing(viewer: Client, query: str) -> None:
    make_attempt()
    assert reasons(viewer, query) == ["key_unknown"]


@pytest.mark.both_forms
def test_reasons_are_counted_with_all_that_a_row_stands_for(viewer: Client) -> None:
    make_attempt(count=1200)
    make_attempt(reason="busy", count=3)
    make_attempt(reason="key_expired", at=timezone.now() - timedelta(days=2))
    answer = viewer.get("/attempts/?reason=busy")
    assert answer.context["counted"] == [
        ("key_unknown", 1200),
        ("busy", 3),
    ]
    page = " ".join(answer.content.decode().split())
    assert '<a class="chip plain" href="?reason=key_unknown">Key unknown <b>1,200</b></a>' in page


@pytest.mark.both_forms
def test_a_row_leads_to_its_stream_and_to_what_else_its_key_was_refused_for(viewer: Client, stream: Stream) -> None:
    key: StreamKey = keys.create(stream=stream, label="studio").key
    make_attempt(name="cam-1", stream=stream, key=key)
    make_attempt(reason="busy")
    page = viewer.get("/attempts/").content.decode()
    assert 'href="/streams/live/cam-1/"' in page
    assert f'href="?key={key.pk}">studio</a>' in page
    assert reasons(viewer, f"key={key.pk}") == ["key_unknown"]


@pytest.mark.parametrize(("attempt", "ban"), [("192.0.2.9", "192.0.2.9"), ("2001:db8::7", "2001:db8::/64")])
def test_a_ban_is_shown_and_lifted_by_who_may(viewer: Client, operator: Client, attempt: str, ban: str) -> None:
    make_attempt(address=attempt)
    Ban.objects.create(address=ban, until=timezone.now() + timedelta(minutes=5), guesses=10)
    assert "Banned until" in viewer.get("/attempts/").content.decode()
    assert "data-lift" not in viewer.get("/attempts/").content.decode()
    assert f'data-lift="{attempt}"' in operator.get("/attempts/").content.decode()
    answer = operator.post("/attempts/lift", {"address": attempt}, follow=True).content.decode()
    assert "is heard again within 2 s" in answer
    assert "Banned until" not in answer
    assert AuditEntry.objects.get().action == "ban.lift"


def test_lifting_no_ban_says_so(operator: Client) -> None:
    json_only = {"Accept": "application/json"}
    assert operator.post("/attempts/lift", {"address": "192.0.2.1"}, headers=json_only).status_code == 404
    assert operator.post("/attempts/lift", {"address": "nowhere"}, headers=json_only).status_code == 400
    assert not AuditEntry.objects.exists()


def test_a_name_that_is_markup_is_text(viewer: Client) -> None:
    make_stream("cam-1")
    make_attempt(app="<b>live", name='"><script>x</script>', encoder="<img src=x>", address="<i>")
    page = viewer.get("/attempts/").content.decode()
    assert "<script>x" not in page
    assert "<img" not in page
    assert "<b>live" not in page
