"""The list of sessions: what is found, in which order, by pages, as files, and by whom."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from dashboard.lists import PAGE_SIZE
from dashboard.sessions.queries import SessionFilter
from ingest.models import Node, Session, Stream, StreamKey
from tests.dashboard.conftest import csv_rows, file_text, make_session, make_stream, put_node, snapshot, text_of

pytestmark = pytest.mark.django_db


def found(client: Client, **query: Any) -> list[str]:
    """The sessions' addresses, each test's mark, as the page lists them."""
    answer = client.get("/sessions/", query)
    assert answer.status_code == 200
    return [row.session.address for row in answer.context["rows"]]


def test_session_list_shows_open_first_or_newest_first(viewer: Client, stream: Stream) -> None:
    make_session(stream, age_s=900, address="old and open")
    make_session(stream, age_s=300, ended_ago_s=200, address="ended")
    make_session(stream, age_s=100, ended_ago_s=50, address="new", kind="play")
    assert found(viewer) == ["old and open", "ended"]
    assert found(viewer, order="new") == ["ended", "old and open"]
    assert found(viewer, kind="all") == ["old and open", "new", "ended"]
    assert found(viewer, kind="play") == ["new"]


@pytest.fixture
def several(stream: Stream) -> None:
    other = make_stream("arena-main", app="venue")
    key = StreamKey.objects.create(stream=stream, label="Main OBS", digest="d", prefix="rk_7Qd4")
    node = Node.objects.create(name="ingest-2")
    make_session(stream, age_s=500, ended_ago_s=400, address="192.0.2.1", key=key, end_reason="tcp_reset")
    make_session(other, age_s=400, ended_ago_s=300, address="192.0.2.11", node=node, end_reason="kicked")
    make_session(stream, age_s=90000, ended_ago_s=89000, address="2001:db8::1", encoder="FFmpeg", is_test=True)
    make_session(stream, age_s=300, address="198.51.100.4", protocol="rtmps")


@pytest.mark.both_forms
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"stream": "arena"}, ["192.0.2.11"]),
        ({"stream": "venue/arena"}, ["192.0.2.11"]),
        ({"stream": "LIVE/"}, ["198.51.100.4", "192.0.2.1", "2001:db8::1"]),
        ({"stream": "nothing"}, []),
        ({"address": "192.0.2.1"}, ["192.0.2.1"]),
        ({"address": "192.0.2."}, ["192.0.2.11", "192.0.2.1"]),
        ({"encoder": "ffm"}, ["2001:db8::1"]),
        ({"key": "main"}, ["192.0.2.1"]),
        ({"key": "rk_7"}, ["192.0.2.1"]),
        ({"node": "ingest-2"}, ["192.0.2.11"]),
        ({"reason": "kicked"}, ["192.0.2.11"]),
        ({"reason": "no such reason"}, ["198.51.100.4", "192.0.2.11", "192.0.2.1", "2001:db8::1"]),
        ({"state": "open"}, ["198.51.100.4"]),
        ({"state": "ended", "test": "no"}, ["192.0.2.11", "192.0.2.1"]),
        ({"test": "yes"}, ["2001:db8::1"]),
        ({"protocol": "rtmps"}, ["198.51.100.4"]),
        ({"protocol": "gopher"}, ["198.51.100.4", "192.0.2.11", "192.0.2.1", "2001:db8::1"]),
        ({"stream": "\0cam", "since": "nonsense"}, ["198.51.100.4", "192.0.2.1", "2001:db8::1"]),
    ],
)
def test_filters_narrow_one_another(viewer: Client, several: None, query: dict[str, str], expected: list[str]) -> None:
    assert found(viewer, **query) == expected


@pytest.mark.both_forms
def test_session_time_range_filters_by_start_time(viewer: Client, several: None) -> None:
    yesterday = (timezone.now() - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    assert found(viewer, until=yesterday) == ["2001:db8::1"]
    assert found(viewer, since=yesterday) == ["198.51.100.4", "192.0.2.11", "192.0.2.1"]


@pytest.mark.both_forms
def test_a_deleted_stream_is_found_by_its_whole_path(viewer: Client, stream: Stream) -> None:
    make_session(stream, ended_ago_s=5, address="192.0.2.9")
    stream.delete()
    assert found(viewer, stream="live/cam-1") == ["192.0.2.9"]


@pytest.mark.both_forms
def test_pages_go_on_where_the_one_before_ended(viewer: Client, stream: Stream) -> None:
    """Also over sessions that began in the same moment."""
    began = timezone.now() - timedelta(hours=1)
    for number in range(PAGE_SIZE * 2 + 3):
        make_session(stream, ended_ago_s=5, started_at=began, address=str(number))
    make_session(stream, address="open")
    seen: list[str] = []
    cursor = ""
    for _ in range(3):
        answer = viewer.get("/sessions/", {"before": cursor})
        seen += [row.session.address for row in answer.context["rows"]]
        cursor = answer.context["page"].older
    assert cursor == ""
    assert seen[0] == "open"
    assert sorted(seen) == sorted([*map(str, range(PAGE_SIZE * 2 + 3)), "open"])
    assert viewer.get("/sessions/", {"before": "nonsense"}).context["rows"]


def test_a_row_says_its_state_and_figures(viewer: Client, stream: Stream) -> None:
    live = make_session(stream, age_s=60)
    put_node(snapshot(stream, session_id=str(live.pk), health="bad"))
    make_session(stream, age_s=100, ended_ago_s=0, bytes_in=12_500_000, end_reason="tcp_reset", is_test=True)
    page = viewer.get("/sessions/")
    first, second = page.context["rows"]
    assert (first.words, first.style, round(first.kbps)) == ("Live, bad", "bad", 2609)
    assert (second.words, second.style, second.size_bytes) == ("Connection reset", "bad", 12_500_000)
    assert second.kbps == pytest.approx(1000, rel=0.05)
    assert "Test only" in page.content.decode()


def test_htmx_gets_the_results_alone_and_empty_lists_say_what_to_do(viewer: Client, stream: Stream) -> None:
    assert "Nobody has published yet" in text_of(viewer, "/sessions/")
    make_session(stream)
    part = viewer.get("/sessions/", headers={"HX-Request": "true"}).content.decode()
    assert "<tbody>" in part
    assert "<html" not in part
    assert "No match" in text_of(viewer, "/sessions/", encoder="x")


@pytest.mark.both_forms
def test_filtered_sessions_are_exported_as_csv_and_json(viewer: Client, several: None) -> None:
    Session.objects.filter(encoder="FFmpeg").update(encoder="=cmd()")
    table = csv_rows(viewer.get("/sessions/export.csv", {"stream": "cam-1"}))
    assert [row["address"] for row in table] == ["198.51.100.4", "192.0.2.1", "2001:db8::1"]
    assert table[1]["key"] == "Main OBS"
    assert table[2]["encoder"] == "'=cmd()", "a spreadsheet would take it for a formula"
    answer = viewer.get("/sessions/export.json", {"reason": "kicked"})
    assert "attachment" in answer["Content-Disposition"]
    listing = json.loads(file_text(answer))
    assert (listing["count"], listing["items"][0]["node"]) == (1, "ingest-2")
    assert json.loads(file_text(viewer.get("/sessions/export.json", {"stream": "none"}))) == {"items": [], "count": 0}


@pytest.mark.both_forms
def test_a_page_costs_the_same_whatever_it_shows(stream: Stream, django_assert_max_num_queries: Any) -> None:
    for number in range(30):
        make_session(stream, ended_ago_s=5, address=str(number))
    with django_assert_max_num_queries(4):
        SessionFilter.of({"stream": "cam"}).page("")


@pytest.mark.stores
def test_a_filter_is_answered_by_an_index(stream: Stream) -> None:
    """On both databases: what a page asks for does not sort or read all of history."""
    plans = {
        "": SessionFilter.of({"order": "new"}).rows(),
        "address": SessionFilter.of({"address": "192.0.2.1"}).rows(),
        "reason": SessionFilter.of({"reason": "kicked"}).rows(),
    }
    if connection.vendor == "postgresql":  # So small a table it would rather read whole.
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    for name, rows in plans.items():
        plan = rows[:51].explain().lower()
        assert "index" in plan or "bitmap" in plan, (name, plan)
