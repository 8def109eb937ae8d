"""What pages show, and what they never do."""

import json
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import AsyncClient, Client
from django.utils import timezone

from ingest.live_store import get_livestore
from ingest.models import Attempt, Node, StatusEvent, Stream
from ingest.services import encoder_login
from tests.dashboard.conftest import client_of, figures, make_session, make_stream, make_user, snapshot

PAGES = ("/", "/attempts/", "/recordings/", "/streams/live/cam-1/")


class Blocks(HTMLParser):
    """The JSON blocks of a page by id, and what a strict policy forbids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.data: dict[str, Any] = {}
        self.forbidden: list[str] = []
        self._open: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self._open = names.get("id") if tag == "script" and names.get("type") == "application/json" else None
        inline = tag == "script" and "src" not in names and self._open is None
        if inline or tag == "style" or any(name == "style" or name.startswith("on") for name in names):
            self.forbidden.append(self.get_starttag_text() or tag)

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def handle_data(self, data: str) -> None:
        if self._open:
            self.data[self._open] = json.loads(data)


def blocks(client: Client, path: str) -> Blocks:
    answer = client.get(path)
    assert answer.status_code == 200
    return Blocks(answer.content.decode())


@pytest.mark.parametrize("path", [*PAGES, "/login/"])
def test_a_page_has_a_strict_policy_and_keeps_it(operator: Client, stream: Stream, path: str) -> None:
    answer = operator.get(path)
    policy = answer["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert Blocks(answer.content.decode()).forbidden == []


def test_the_wall_tells_its_script_where_to_find_what(viewer: Client, stream: Stream) -> None:
    data = blocks(viewer, "/").data["bootstrap"]
    assert data["ws"] == "/ws/live/"
    assert data["stream_url"].replace("__APP__", "live").replace("__NAME__", "cam-1") == "/streams/live/cam-1/"
    assert viewer.get(data["sessions_url"]).json() == {"items": [], "count": 0}
    assert data["server"].startswith("rtmp://")


def test_a_streams_page_shows_the_whole_picture_at_once(viewer: Client, stream: Stream) -> None:
    session = make_session(stream)
    for sequence in range(1, 61):
        StatusEvent.objects.create(session=session, sequence=sequence, kind="onstatus", code="NetStream.Publish.Start")
    store = get_livestore()
    sample: Any = {
        "at": 1000.0,
        "video_kbps": 2480.0,
        "audio_kbps": 128.0,
        "fps": 30.0,
        "keyframe_interval": 2.0,
        "drift_dev": 1.0,
        "rtt_ms": 12.0,
        "players": 3,
        "health": "good",
    }
    async_to_sync(store.put_node)(figures(), [snapshot(stream, metadata={"videodatarate": float("nan")})])
    async_to_sync(store.append_samples)({stream.pk: sample})
    async_to_sync(store.append_samples)({stream.pk: sample | {"at": 1001.0, "fps": None}})
    boot = blocks(viewer, "/streams/live/cam-1/").data["boot"]
    assert boot["kind"] == "snapshot"
    assert boot["stream"]["video_kbps"] == 2480.5
    assert boot["stream"]["metadata"] == {"videodatarate": None}
    assert boot["samples"]["at"] == [1000.0, 1001.0]
    assert boot["samples"]["fps"] == [30.0, None]
    assert [event["sequence"] for event in boot["events"]] == list(range(60, 10, -1))
    assert boot["events"][0]["session_id"] == str(session.pk)


def test_who_logged_in_is_shown_where_others_have_their_key(viewer: Client, stream: Stream) -> None:
    made = encoder_login.create(stream=stream, user="bob", label="van")
    make_session(stream, login=made.login)
    page = viewer.get("/streams/live/cam-1/").content.decode()
    assert page.count("van (bob)") == 2
    for secret in (made.password, made.login.salt, made.login.adobe, made.login.llnw):
        assert secret not in page


def test_an_offline_streams_page_says_so(viewer: Client, stream: Stream) -> None:
    boot = blocks(viewer, "/streams/live/cam-1/").data["boot"]
    assert (boot["stream"]["state"], boot["stream"]["video_kbps"]) == ("offline", None)
    assert boot["events"] == []


@pytest.mark.parametrize("path", ["/streams/live/none/", "/streams/none/cam-1/", "/streams/live/cam-1/more/"])
def test_an_unknown_stream_is_404(viewer: Client, stream: Stream, path: str) -> None:
    assert viewer.get(path).status_code == 404


def test_only_who_may_kick_sees_the_form(viewer: Client, operator: Client, stream: Stream) -> None:
    assert "/streams/live/cam-1/kick" in operator.get("/streams/live/cam-1/").content.decode()
    assert "/streams/live/cam-1/kick" not in viewer.get("/streams/live/cam-1/").content.decode()


def test_a_kick_by_form_comes_back_to_the_page_and_says_what_happened(operator: Client, stream: Stream) -> None:
    session = make_session(stream)
    form = {"note": "wrong scene", "session_id": str(session.pk)}
    answer = operator.post("/streams/live/cam-1/kick", form, follow=True)
    assert answer.redirect_chain == [("/streams/live/cam-1/", 302)]
    assert "The publisher of live/cam-1 is being disconnected." in answer.content.decode()
    session.refresh_from_db()
    assert (session.stop_requested, session.stop_note) == ("kicked", "Ended by omar: wrong scene.")


def test_a_kick_of_the_publisher_before_leaves_the_new_one_alone(operator: Client, stream: Stream) -> None:
    before, now = make_session(stream, age_s=90, ended_ago_s=30), make_session(stream, age_s=10)
    answer = operator.post(
        "/streams/live/cam-1/kick", {"session_id": str(before.pk)}, headers={"Accept": "application/json"}
    )
    assert answer.status_code == 409
    now.refresh_from_db()
    assert now.stop_requested == ""


def test_kick_is_by_post_only(operator: Client, stream: Stream) -> None:
    assert operator.get("/streams/live/cam-1/kick").status_code == 405


# --- Attempts ---


@pytest.fixture
def attempts(db: None) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for index in range(60):
        Attempt.objects.create(
            at=noon + timedelta(minutes=index),
            action="publish" if index % 2 else "connect",
            app="live",
            name=f"cam{index}<b>",
            address="198.51.100.1" if index < 3 else "192.0.2.7",
            reason="bad_key" if index % 2 else "unknown_app",
            description="The key is not known.",
        )


def shown(client: Client, query: str = "") -> list[str]:
    page = client.get(f"/attempts/{query}").context["page"]
    return [attempt.name for attempt in page]


def test_an_attempt_that_came_again(db: None) -> None:
    client = client_of(make_user("viewer"))
    now = timezone.now()
    Attempt.objects.create(
        at=now - timedelta(minutes=5), last_at=now - timedelta(seconds=2), count=12, action="publish", address="x"
    )
    assert re.search(r"×12, last \d\u00a0s ago", client.get("/attempts/").content.decode())


def names(*indices: int) -> list[str]:
    return [f"cam{index}<b>" for index in indices]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", names(*range(59, 9, -1))),
        ("?page=2", names(*range(9, -1, -1))),
        ("?page=99", names(*range(9, -1, -1))),
        ("?page=x", names(*range(59, 9, -1))),
        ("?address=198.51.100.1", names(2, 1, 0)),
        ("?address=198.51.100.1&reason=bad_key", names(1)),
        ("?action=connect&since=2026-03-01T12:57", names(58)),
        ("?until=2026-03-01T12:02:00Z", names(1, 0)),
        ("?name=cam59", names(59)),
        ("?app=other", []),
        ("?since=nonsense&address=198.51.100.1", names(2, 1, 0)),
        ("?name=%00&address=198.51.100.1", names(2, 1, 0)),
    ],
)
def test_attempts_are_filtered_and_paged(viewer: Client, attempts: None, query: str, expected: list[str]) -> None:
    assert shown(viewer, query) == expected


@pytest.mark.both_forms
def test_what_a_peer_sent_is_escaped(viewer: Client, attempts: None) -> None:
    page = viewer.get("/attempts/?address=198.51.100.1").content.decode()
    assert "cam2&lt;b&gt;" in page
    assert "cam2<b>" not in page


# --- Theme, health ---


def test_the_theme_is_in_the_first_byte_of_the_page(viewer: Client) -> None:
    assert 'data-theme="dark"' not in viewer.get("/").content.decode()
    answer = viewer.post("/theme/", {"theme": "dark", "next": "/attempts/"})
    assert answer["Location"] == "/attempts/"
    assert 'data-theme="dark"' in viewer.get("/").content.decode()
    viewer.post("/theme/", {"theme": "system"})
    assert "data-theme=" not in viewer.get("/").content.decode().split(">")[1]
    viewer.cookies["theme"] = '"><script>'
    assert "data-theme=" not in viewer.get("/").content.decode().split(">")[1]


def test_the_theme_switch_leads_to_no_other_site(viewer: Client) -> None:
    assert viewer.post("/theme/", {"theme": "dark", "next": "//example.org/"})["Location"] == "/"


def health(client: Client) -> tuple[int, dict[str, Any]]:
    """Status and body of /healthz, without what it says of each part."""
    answer = client.get("/healthz")
    body = answer.json()
    assert body.pop("parts").keys() >= {"database", "nodes", "worker_default", "worker_analytics", "beat", "disk"}
    return answer.status_code, body


@pytest.fixture
def running_node(db: None) -> Node:
    return Node.objects.create(name="n1")


def test_healthz_is_ok_while_a_node_runs(client: Client, db: None, caplog: pytest.LogCaptureFixture) -> None:
    assert health(client) == (503, {"status": "degraded", "database": "ok", "nodes": 0})
    assert not caplog.records
    Node.objects.create(name="n1")
    async_to_sync(get_livestore().put_node)(figures(), [])
    assert health(client) == (200, {"status": "ok", "database": "ok", "nodes": 1})
    answer = client.get("/healthz")
    assert set(answer.json()["parts"].values()) == {"ok"}
    assert "no-store" in answer["Cache-Control"]


async def test_healthz_is_answered_by_address_while_pages_want_an_allowed_host(
    async_client: AsyncClient, transactional_db: None, running_node: Node, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["stream.example.org"]
    by_address = {"host": "127.0.0.1:8000"}
    assert (await async_client.get("/healthz", headers=by_address)).status_code == 200
    assert (await async_client.get("/login/", headers=by_address)).status_code == 400


@pytest.mark.both_forms
def test_healthz_says_that_the_database_is_away(client: Client, transactional_db: None) -> None:
    async_to_sync(get_livestore().put_node)(figures(), [])
    name = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = "/nowhere/gone"
    try:
        found = health(client)
    finally:
        connection.close()
        connection.settings_dict["NAME"] = name
    assert found == (503, {"status": "degraded", "database": "unreachable", "nodes": 1})


def test_navigation_has_what_the_role_may_open(db: None) -> None:
    make_stream("cam-1")

    def labels(client: Client) -> list[str]:
        return [item.label for item in client.get("/").context["navigation"]]

    plain = labels(client_of(make_user("viewer", name="a")))
    assert plain[:3] == ["Wall", "Sessions", "Attempts"]
    assert "Keys" not in plain
    keeper = make_user("key manager", name="b")
    keeper.is_staff = True
    keeper.save()
    assert "Keys" in labels(client_of(keeper))
