"""Streams that should be live: at which times, who is missing since when, and where that is said."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from playwright.sync_api import Page
from playwright.sync_api import expect as expect_on

from dashboard import tasks
from dashboard.alerts import evaluation
from dashboard.models import Alert, AlertRule
from ingest.models import ExpectedTime, Session, Stream
from ingest.models.hours import expected_streams
from tests.dashboard.conftest import api_token, lacks, make_session, make_stream
from tests.media import make_clip
from tests.server_process import ServerProcess, program, wait_for

BERLIN = {"time_zone": "Europe/Berlin"}


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")


def expect(stream: Stream, begin: time, end: time, **fields: Any) -> ExpectedTime:
    made = ExpectedTime(stream=stream, from_time=begin, until_time=end, **fields)
    made.full_clean()
    made.save()
    return made


def missing(now: datetime) -> dict[str, tuple[datetime, bool]]:
    """{stream: since when, and whether it was live in its time}."""
    _, found = expected_streams(now)
    names = dict(Stream.objects.values_list("pk", "name"))
    return {names[pk]: (each.since, each.was_live) for pk, each in found.items()}


def published(stream: Stream, begin: datetime, end: datetime | None) -> Session:
    return make_session(stream, started_at=begin, ended_at=end)


# --- Who is missing ---


@pytest.mark.both_forms
def test_a_stream_is_missing_once_its_grace_is_over_until_it_is_live(stream: Stream) -> None:
    make_stream("never-expected")
    expect(stream, time(10), time(11, 30), days=[6], **BERLIN)  # 29 November 2026 is a Sunday: 9:00 in UTC.
    assert missing(at("2026-11-28T09:30")) == {}
    assert missing(at("2026-11-29T09:01:59")) == {}
    assert missing(at("2026-11-29T09:02")) == {"cam-1": (at("2026-11-29T09:00"), False)}
    session = published(stream, at("2026-11-29T09:05"), None)
    assert missing(at("2026-11-29T09:06")) == {}
    Session.objects.filter(pk=session.pk).update(ended_at=at("2026-11-29T09:40"))
    assert missing(at("2026-11-29T09:41")) == {}, "the grace counts again"
    assert missing(at("2026-11-29T09:42")) == {"cam-1": (at("2026-11-29T09:40"), True)}
    assert missing(at("2026-11-29T10:30")) == {}


def test_stream_that_ends_within_grace_before_the_planned_end_is_not_missing(stream: Stream) -> None:
    expect(stream, time(10), time(11), grace_s=300)
    published(stream, at("2026-11-29T09:58"), at("2026-11-29T10:56"))
    assert missing(at("2026-11-29T10:59:30")) == {}


def test_expected_time_of_a_single_date_extends_over_midnight(stream: Stream) -> None:
    expect(stream, time(23), time(1), date=date(2026, 12, 24), grace_s=0)
    assert missing(at("2026-12-23T23:30")) == {}
    assert missing(at("2026-12-25T00:30")) == {"cam-1": (at("2026-12-24T23:00"), False)}
    assert missing(at("2026-12-25T23:30")) == {}


def test_times_that_overlap_are_one(stream: Stream) -> None:
    expect(stream, time(10), time(11), grace_s=0)
    expect(stream, time(10, 30), time(12), grace_s=0)
    assert missing(at("2026-11-29T10:45")) == {"cam-1": (at("2026-11-29T10:00"), False)}


@pytest.mark.parametrize(
    ("day", "begin", "from_utc"),
    [
        (date(2026, 3, 29), time(2, 30), "2026-03-29T01:30"),  # Skipped: it comes an hour later.
        (date(2026, 10, 25), time(2, 30), "2026-10-25T00:30"),  # Twice: the first.
        (date(2026, 7, 1), time(20), "2026-07-01T18:00"),
        (date(2026, 12, 1), time(20), "2026-12-01T19:00"),
    ],
)
def test_expected_time_follows_daylight_saving_of_its_zone(
    stream: Stream, day: date, begin: time, from_utc: str
) -> None:
    expect(stream, begin, time(23), date=day, grace_s=0, **BERLIN)
    assert missing(at(from_utc) - timedelta(seconds=1)) == {}
    assert missing(at(from_utc)) == {"cam-1": (at(from_utc), False)}


def test_disabled_streams_and_tests_do_not_count(stream: Stream) -> None:
    expect(stream, time(10), time(11), grace_s=0)
    make_session(stream, started_at=at("2026-11-29T09:00"), is_test=True)
    assert set(missing(at("2026-11-29T10:30"))) == {"cam-1"}, "a test is not on air"
    Stream.objects.update(enabled=False)
    assert missing(at("2026-11-29T10:30")) == {}


def test_expected_streams_query_count_is_constant(db: None) -> None:
    counts = []
    for number in range(3):
        for each in range(10 * number + 1):
            expect(make_stream(f"cam-{number}-{each}"), time(10), time(11), grace_s=0)
        with CaptureQueriesContext(connection) as asked:
            assert len(expected_streams(at("2026-11-29T10:30"))[1]) >= 1
        counts.append(len(asked))
    assert counts == [3, 3, 3]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"days": [6]}, "Sundays 10:00-11:30 Europe/Berlin"),
        ({"days": [0, 2]}, "Mon, Wed 10:00-11:30 Europe/Berlin"),
        ({}, "Daily 10:00-11:30 Europe/Berlin"),
        ({"date": date(2026, 12, 6)}, "6 Dec 2026 10:00-11:30 Europe/Berlin"),
    ],
)
def test_expected_time_has_words_and_next_begin(stream: Stream, fields: dict[str, Any], words: str) -> None:
    made = expect(stream, time(10), time(11, 30), **fields, **BERLIN)
    assert made.words == words
    found = made.next_begin(at("2026-11-29T09:00"))
    following = {"Sundays": "2026-12-06", "Mon, Wed": "2026-11-30", "Daily": "2026-11-30", "6 Dec 2026": "2026-12-06"}
    assert found == at(f"{following[words.partition(' 10:')[0]]}T09:00")
    assert "date" not in fields or made.next_begin(at("2026-12-06T09:00")) is None


# --- Where it is set and said ---


@pytest.fixture
def due(stream: Stream, still: datetime) -> datetime:
    """When the stream should have gone live: ten minutes ago."""
    begin = (still - timedelta(minutes=10)).replace(second=0, microsecond=0)
    expect(stream, begin.time(), (begin + timedelta(hours=1)).time())
    return begin


def test_expected_time_is_set_and_validated_on_the_stream_settings_form(manager: Client, stream: Stream) -> None:
    url = reverse("admin:ingest_stream_change", args=[stream.pk])
    assert lacks(manager.get(url).content.decode(), "Expected live", "Grace (s)", "Only on") == []
    form: dict[str, Any] = {
        "application": stream.application_id,
        "name": "cam-1",
        "enabled": "on",
        "takeover": "reject",
        "expect_audio": "on",
        "expect_video": "on",
        "idle_timeout_s": 10,
        "first_media_timeout_s": 20,
        "health_overrides-TOTAL_FORMS": 0,
        "health_overrides-INITIAL_FORMS": 0,
        "expected_times-TOTAL_FORMS": 1,
        "expected_times-INITIAL_FORMS": 0,
    }
    row = {"days": ["6", "0"], "from_time": "22:00", "until_time": "06:00", "time_zone": "Europe/Berlin", "grace_s": 60}
    sent = form | {f"expected_times-0-{name}": value for name, value in row.items()}
    both = manager.post(url, sent | {"expected_times-0-date": "2026-12-24"})
    assert "not both" in both.content.decode()
    assert "is no time zone" in manager.post(url, sent | {"expected_times-0-time_zone": "Mars"}).content.decode()
    assert manager.post(url, sent).status_code == 302
    made = ExpectedTime.objects.get()
    assert (sorted(made.days), made.date, made.from_time, made.grace_s) == ([0, 6], None, time(22), 60)


def test_the_streams_page_says_when_and_that_it_is_missing(viewer: Client, stream: Stream, due: datetime) -> None:
    page = viewer.get("/streams/live/cam-1/").content.decode()
    words = f"Daily {due:%H:%M}-{due + timedelta(hours=1):%H:%M} UTC"
    assert lacks(page, f"Expected live: {words}", "; next", f"Should be live since {due:%H:%M}") == []
    make_session(stream)
    assert "Should be live since" not in viewer.get("/streams/live/cam-1/").content.decode()


def test_wall_lists_missing_streams(viewer: Client, stream: Stream, due: datetime) -> None:
    (item,) = viewer.get("/live/expected/").json()["items"]
    until = (due + timedelta(hours=1)).timestamp()
    assert item.pop("id") == stream.pk
    assert item == {"app": "live", "name": "cam-1", "was_live": False, "since": due.timestamp(), "until": until}


def test_api_includes_expected_times_of_a_stream(client: Client, stream: Stream) -> None:
    expect(stream, time(10), time(11, 30), days=[6], **BERLIN)
    own = {"days": [6], "date": None, "from_time": "10:00", "until_time": "11:30", "time_zone": "Europe/Berlin"}
    token = api_token()
    for path in ("/api/v1/streams/live/cam-1", "/api/v1/streams"):
        answer = client.get(path, headers=token).json()
        found = answer["items"][0] if "items" in answer else answer
        assert found["expected_times"] == [own | {"grace_s": 120}]


# --- Alerts ---


def run(now: datetime) -> None:
    tasks.handle_events(now)
    evaluation.check_rules(now)
    evaluation.notify(now)


def opened() -> list[tuple[str, datetime]]:
    return list(Alert.objects.filter(cleared_at=None).values_list("subject", "opened_at"))


def rule(**fields: Any) -> AlertRule:
    return AlertRule.objects.create(**{"name": "Missing", "kinds": ["not_live"], "delay_s": 0, **fields})


@pytest.mark.both_forms
def test_a_rule_without_hours_goes_by_the_streams_times(stream: Stream) -> None:
    make_stream("never-expected")
    expect(stream, time(10), time(11), **BERLIN)
    rule()
    run(at("2026-11-29T09:01"))
    assert opened() == []
    run(at("2026-11-29T09:03"))
    assert opened() == [("live/cam-1", at("2026-11-29T09:00"))]
    session = published(stream, at("2026-11-29T09:05"), None)
    run(at("2026-11-29T09:06"))
    assert opened() == []
    Session.objects.filter(pk=session.pk).update(ended_at=at("2026-11-29T09:30"))
    run(at("2026-11-29T09:33"))
    assert opened() == [("live/cam-1", at("2026-11-29T09:30"))]
    run(at("2026-11-29T10:00"))
    assert opened() == []


def test_not_live_rule_with_hours_overrides_expected_times(stream: Stream) -> None:
    expect(stream, time(10), time(11))
    rule(from_time=time(12), until_time=time(13)).streams.add(stream)
    run(at("2026-11-29T10:30"))
    assert opened() == []
    run(at("2026-11-29T12:00:01"))
    assert opened() == [("live/cam-1", at("2026-11-29T12:00"))]


def test_not_live_rule_of_streams_treats_those_without_times_as_always_due(stream: Stream) -> None:
    other = make_stream("other")
    expect(stream, time(10), time(11), grace_s=0)
    expect(other, time(10), time(11), grace_s=0)
    always = make_stream("always")
    rule().streams.add(stream, always)
    run(at("2026-11-29T10:30"))
    assert {subject for subject, _ in opened()} == {"live/cam-1", "live/always"}
    run(at("2026-11-29T11:30"))
    assert {subject for subject, _ in opened()} == {"live/always"}


def test_times_that_are_deleted_leave_no_alert(stream: Stream) -> None:
    made = expect(stream, time(10), time(11), grace_s=0)
    rule()
    run(at("2026-11-29T10:30"))
    assert len(opened()) == 1
    made.delete()
    run(at("2026-11-29T10:31"))
    assert opened() == []


# --- In the browser ---


ASKED_EACH_MS = 10_000
"""Between two questions of the wall for the streams that should be live."""


@pytest.mark.matrix
@pytest.mark.serve
@pytest.mark.browser
@pytest.mark.clients
def test_expected_time_set_in_browser_shows_missing_on_wall_until_live(
    own: tuple[ServerProcess, Page], tmp_path: Any
) -> None:
    server, page = own
    clip = make_clip(tmp_path / "clip.flv", seconds=1)
    begin = (datetime.now(UTC) - timedelta(minutes=10)).replace(second=0, microsecond=0)
    key = server.create_key("live/demo")["key"]
    page.goto(f"{server.http}/streams/live/demo/settings?of=expected")
    page.click("#expected_times-group .add-row a")
    page.fill("[name=expected_times-0-from_time]", f"{begin:%H:%M}")
    page.fill("[name=expected_times-0-until_time]", f"{begin - timedelta(hours=1):%H:%M}")
    page.click("input[name=_save]")
    expect_on(page.locator("#missing")).to_contain_text(f"Should be live since {begin:%H:%M}")
    page.clock.install()
    page.goto(server.http)
    item = page.locator("#strip [data-item=missing]")
    expect_on(item).to_contain_text("live/demo")
    expect_on(item).to_contain_text(f"Should be live since {begin:%H:%M}")
    loop = ("-v", "error", "-re", "-stream_loop", "-1", "-i", str(clip), "-c", "copy", "-f", "flv")

    def is_gone() -> bool:
        page.clock.fast_forward(ASKED_EACH_MS)
        return item.count() == 0

    with program("ffmpeg", *loop, f"{server.rtmp}/live/{key}"):
        wait_for(is_gone, timeout_s=20, what="the wall does not miss it any more")
