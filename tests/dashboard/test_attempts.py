"""Refused connections: told to the open page as they come, filters and counts of page and API, bans that it lifts."""

import json
import re
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ingest import log_records
from ingest.consumers import recorder
from ingest.log_records import Bound
from ingest.models import Attempt, AuditEntry, Ban, Stream, StreamKey
from ingest.services import keys
from ingest.services.authorization import Peer
from tests.dashboard.conftest import lacks, make_stream
from tests.dashboard.sockets import opened, said
from tests.dashboard.test_api import ATTEMPT, get

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


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """By which pages are told a few a second: it stands still, and nothing was refused in its second before."""
    held = SimpleNamespace(now=1000.9)
    monkeypatch.setattr(recorder, "_page_attempts", Bound(recorder.PAGE_ATTEMPTS_S))
    monkeypatch.setattr(log_records, "time", SimpleNamespace(monotonic=lambda: held.now))
    return held


@pytest.mark.stores
@pytest.mark.django_db(transaction=True)
async def test_refused_attempt_is_pushed_to_open_pages_without_its_key(viewer: Client) -> None:
    async with opened("/ws/attempts/", viewer) as page:
        assert (await said(page))["kind"] == "snapshot"
        refuse(name="some-imported-key")
        told = await said(page)
    assert told["kind"] == "attempt"
    assert (told["reason"], told["address"], told["count"]) == ("key_unknown", "192.0.2.9", 1)
    assert abs(told["at"] - time.time()) < 5
    assert "some-imported-key" not in json.dumps(told)


@pytest.mark.django_db(transaction=True)
async def test_flood_of_attempts_is_pushed_to_pages_at_a_limited_rate(viewer: Client, clock: SimpleNamespace) -> None:
    async with opened("/ws/attempts/", viewer) as page:
        await said(page)
        for clock.now in (1000.9, 1001.0, 1001.9):
            for number in range(70):
                refuse(peer=Peer(address=f"192.0.2.{number}", encoder="", node="n1", channel=""))
        for _ in range(2 * recorder.PAGE_ATTEMPTS_S):
            assert (await said(page))["kind"] == "attempt"
        assert await page.receive_nothing(timeout=0.3)


@pytest.mark.both_forms
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["token_missing", "key_expired", "busy"]),
        ("app=cams", ["busy"]),
        ("app=other", []),
        ("name=cam-1&address=192.0.2.1", ["key_expired"]),
        ("reason=busy&name=cam-1", ["busy"]),
        ("action=play", ["token_missing"]),
        ("within=3600", ["token_missing", "key_expired"]),
        ("since=2026-03-01T11:57", ["token_missing", "key_expired"]),
        ("until=2026-03-01T11:00:00Z", ["busy"]),
        *((wrong, ["token_missing", "key_expired", "busy"]) for wrong in ("within=7", "within=x", "key=x", "page=x")),
        *((wrong, ["token_missing", "key_expired", "busy"]) for wrong in (f"key={'9' * 40}", "since=soon", "name=%00")),
    ],
)
def test_attempt_filters_combine_and_invalid_ones_are_ignored(
    viewer: Client, monkeypatch: pytest.MonkeyPatch, query: str, expected: list[str]
) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    monkeypatch.setattr(timezone, "now", lambda: noon)
    make_attempt(reason="busy", app="cams", name="cam-1", at=noon - timedelta(hours=2))
    make_attempt(reason="key_expired", name="cam-1", address="192.0.2.1", at=noon - timedelta(minutes=2))
    make_attempt(reason="token_missing", action="play", name="cam-2", at=noon - timedelta(minutes=1))
    assert reasons(viewer, query) == expected


@pytest.mark.parametrize(
    ("page", "numbers"), [("2", range(9, -1, -1)), ("99", range(9, -1, -1)), ("x", range(59, 9, -1))]
)
def test_attempts_are_paged_newest_first(viewer: Client, page: str, numbers: range) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for number in range(60):
        make_attempt(reason=str(number), at=noon + timedelta(minutes=number))
    assert reasons(viewer, f"page={page}") == [str(number) for number in numbers]


def test_an_attempt_that_came_again_says_how_often(viewer: Client) -> None:
    now = timezone.now()
    make_attempt(at=now - timedelta(minutes=5), last_at=now - timedelta(seconds=2), count=12)
    assert re.search(r"×12, last \d\u00a0s ago", viewer.get("/attempts/").content.decode())


@pytest.mark.both_forms
def test_attempt_reasons_are_counted_by_repetitions(viewer: Client) -> None:
    make_attempt(count=1200)
    make_attempt(reason="busy", count=3)
    make_attempt(reason="key_expired", at=timezone.now() - timedelta(days=2))
    answer = viewer.get("/attempts/?reason=busy")
    assert answer.context["counted"] == [("key_unknown", 1200), ("busy", 3)]
    page = " ".join(answer.content.decode().split())
    assert '<a class="chip plain" href="?reason=key_unknown">Wrong key <b>1,200</b></a>' in page


@pytest.mark.both_forms
def test_attempt_row_links_to_its_stream_and_to_attempts_of_its_key(viewer: Client, stream: Stream) -> None:
    key: StreamKey = keys.create(stream=stream, label="studio").key
    make_attempt(name="cam-1", stream=stream, key=key)
    make_attempt(reason="busy")
    page = viewer.get("/attempts/").content.decode()
    assert lacks(page, 'href="/streams/live/cam-1/"', f'href="?key={key.pk}">studio</a>') == []
    assert reasons(viewer, f"key={key.pk}") == ["key_unknown"]


@pytest.mark.parametrize(("attempt", "ban"), [("192.0.2.9", "192.0.2.9"), ("2001:db8::7", "2001:db8::/64")])
def test_ban_is_shown_to_viewers_and_lifted_by_operators(
    viewer: Client, operator: Client, attempt: str, ban: str
) -> None:
    make_attempt(address=attempt)
    Ban.objects.create(address=ban, until=timezone.now() + timedelta(minutes=5), guesses=10)
    assert "Banned until" in viewer.get("/attempts/").content.decode()
    assert "data-lift" not in viewer.get("/attempts/").content.decode()
    assert f'data-lift="{attempt}"' in operator.get("/attempts/").content.decode()
    answer = operator.post("/attempts/lift", {"address": attempt}, follow=True).content.decode()
    assert "can connect again within 2 s" in answer
    assert "Banned until" not in answer
    assert AuditEntry.objects.get().action == "ban.lift"


@pytest.mark.parametrize(("address", "status"), [("192.0.2.1", 404), ("nowhere", 400)])
def test_lifting_no_ban_says_so(operator: Client, address: str, status: int) -> None:
    answer = operator.post("/attempts/lift", {"address": address}, headers={"Accept": "application/json"})
    assert answer.status_code == status
    assert not AuditEntry.objects.exists()


def test_a_name_that_is_markup_is_text(viewer: Client) -> None:
    make_stream("cam-1")
    make_attempt(app="<b>live", name='"><script>x</script>', encoder="<img src=x>", address="<i>")
    page = viewer.get("/attempts/").content.decode()
    assert "<script>x" not in page
    assert "<img" not in page
    assert "<b>live" not in page


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["bad_key", "unknown_app", "key_expired"]),
        ({"reason": "bad_key"}, ["bad_key"]),
        ({"address": "198.51.100.1"}, ["unknown_app"]),
        ({"action": "connect"}, ["unknown_app"]),
        ({"app": "live", "name": "cam-1"}, ["key_expired"]),
        ({"since": "2026-03-01T00:00:00Z"}, ["bad_key", "unknown_app"]),
        ({"until": "2026-03-01T00:00:00Z"}, ["key_expired"]),
        ({"limit": 1, "offset": 1}, ["unknown_app"]),
    ],
)
def test_the_api_filters_and_pages(viewer: Client, query: dict[str, Any], expected: list[str]) -> None:
    day = datetime(2026, 2, 28, 12, tzinfo=UTC)
    rows = [
        ("key_expired", "publish", "live", "cam-1", "192.0.2.7"),
        ("unknown_app", "connect", "nope", "", "198.51.100.1"),
        ("bad_key", "publish", "live", "rk_7Qd4…", "192.0.2.7"),
    ]
    for days, (reason, action, app, name, address) in enumerate(rows):
        at = day + timedelta(days=days)
        make_attempt(at=at, reason=reason, action=action, app=app, name=name, address=address)
    listing = get(viewer, "/attempts", **query)
    assert [item["reason"] for item in listing["items"]] == expected
    assert all((item["count"], item["last_at"]) == (1, item["at"]) for item in listing["items"])
    assert all(item.keys() >= ATTEMPT for item in listing["items"])


@pytest.mark.both_forms
def test_api_filters_a_repeated_attempt_by_its_last_time(viewer: Client) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    make_attempt(at=noon, last_at=noon + timedelta(minutes=30), count=180)
    (item,) = get(viewer, "/attempts", since="2026-03-01T12:29:00Z")["items"]
    assert (item["at"], item["last_at"], item["count"]) == ("2026-03-01T12:00:00Z", "2026-03-01T12:30:00Z", 180)
    assert get(viewer, "/attempts", since="2026-03-01T12:31:00Z")["items"] == []
