"""The time zone of pages: the operator's choice, else his browser's; all else stays in UTC. Times in forms on days on
which clocks change: what was not touched stays, what is typed is always understood."""

import json
import re
from datetime import UTC, date, datetime, timedelta
from html import unescape
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from analytics import periods
from analytics.models import Grain
from dashboard import zones
from dashboard.history.periods import PagePeriod
from dashboard.templatetags import analytics, times
from dashboard.zones import moment
from ingest.models import AuditEntry, Recording, Session, Stream, StreamKey
from ingest.services import keys
from tests.analytics.rollups import make_rollup
from tests.dashboard.conftest import api_token, client_of, file_text, lacks, make_session, make_user
from tests.dashboard.demo_data import seed_demo_data
from tests.dashboard.test_accessibility import PAGES

ROOT = Path(__file__).resolve().parents[2]

KOLKATA, BERLIN, NEW_YORK = ZoneInfo("Asia/Kolkata"), ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
"""Half an hour off; one whose clocks change; behind UTC."""

TIME = re.compile(r'<time datetime="([^"]+)" title="([^"]+)">([^<]*)</time>')

EVENING = datetime(2025, 3, 2, 20, 15, tzinfo=UTC)
"""In Kolkata it is 01:45 of the next day."""


def at_home(client: Client, zone: str = "Asia/Kolkata") -> Client:
    client.cookies[zones.BROWSERS] = zone
    return client


def named(client: Client) -> str:
    (words,) = re.findall(r"Times are in ([^<]+)\.</span>", client.get("/system/").content.decode())
    return str(words)


def test_time_zone_is_the_browsers_until_one_is_chosen(viewer: Client) -> None:
    assert named(viewer) == "UTC"
    viewer.cookies[zones.BROWSERS] = "Asia/Kolkata"
    assert named(viewer) == "Asia/Kolkata, now UTC+5:30"
    answer = viewer.post("/zone/", {"zone": " Asia/Tokyo ", "next": "/system/"})
    assert (answer.status_code, answer["Location"]) == (302, "/system/")
    assert named(viewer) == "Asia/Tokyo, now UTC+9"
    page = viewer.get("/system/").content.decode()
    assert '<html lang="en" data-zone="Asia/Tokyo" data-zone-by="choice">' in page
    viewer.post("/zone/", {"zone": ""})
    assert named(viewer) == "Asia/Kolkata, now UTC+5:30"


def test_chosen_time_zone_follows_the_account_to_other_browsers(viewer: Client) -> None:
    assert viewer.post("/zone/", {"zone": "Asia/Tokyo", "shows_utc": "1"}).status_code == 302
    phone = client_of(User.objects.get(username="vera"))
    assert named(phone) == "Asia/Tokyo, now UTC+9"
    phone.post("/zone/", {"zone": "America/New_York"})
    assert named(viewer).startswith("America/New_York, ")
    other = make_user("viewer", name="somebody else")
    viewer.force_login(other)
    assert named(viewer) == "UTC", "who else logs in in this browser has chosen nothing"
    viewer.logout()
    assert "Times are shown in UTC." in viewer.get("/login/").content.decode()
    viewer.force_login(other)
    chosen = viewer.post("/zone/", {"zone": "Asia/Tokyo"}).cookies[zones.CHOSEN]
    assert chosen["max-age"] >= 365 * 24 * 3600, "the log-in page goes by what was chosen in the browser"
    client = Client()
    client.cookies[zones.CHOSEN] = chosen.value
    assert "Times are shown in Asia/Tokyo, now UTC+9." in client.get("/login/").content.decode()


def test_time_zone_is_chosen_on_a_page_without_script(viewer: Client) -> None:
    page = viewer.get("/system/?a=1&b=2").content.decode()
    links = re.findall(r'href="(/zone/[^"]*)"', page)
    assert links == ["/zone/?next=%2Fsystem%2F%3Fa%3D1%26b%3D2"] * 2, "in the rail, and under More"
    page = viewer.get(links[0]).content.decode()
    assert '<input type="hidden" name="next" value="/system/?a=1&amp;b=2">' in page
    assert '<option value="Europe/Berlin">' in page
    viewer.post("/zone/", {"zone": "Europe/Berlin", "shows_utc": "1"})
    form = viewer.get("/zone/").context["form"]
    assert (form["zone"].value(), form["shows_utc"].value()) == ("Europe/Berlin", True)
    assert Client().get("/zone/").status_code == 302


def test_unknown_time_zone_is_refused_and_the_former_one_kept(viewer: Client) -> None:
    viewer.post("/zone/", {"zone": "Asia/Tokyo"})
    answer = viewer.post("/zone/", {"zone": "Mars/Olympus", "next": "//example.org/"})
    assert answer.status_code == 422
    assert "There is no time zone Mars/Olympus." in answer.content.decode()
    assert 'name="next" value="/"' in answer.content.decode(), "to no other site"
    assert named(viewer) == "Asia/Tokyo, now UTC+9"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/localtime", "America", "Europe/Berlin\0", "<b>", "x" * 500])
def test_a_wrong_cookie_is_as_none(viewer: Client, name: str) -> None:
    viewer.cookies[zones.CHOSEN] = viewer.cookies[zones.BROWSERS] = name
    assert named(viewer) == "UTC"


BESIDE = r'<time datetime="([^"]+T[^"]+)"(?![^>]*data-own-zone)[^>]*>(.*?)</time>(.{,120})'
"""A page for anybody has its times in the browser's own zone, by its script."""


@pytest.mark.both_forms
@pytest.mark.usefixtures("still")
def test_every_page_has_its_times_in_the_zone_with_utc_behind_each(admin_client: Client) -> None:
    """And, for who wants it so, beside each."""
    there = seed_demo_data()
    seen = beside = 0
    at_home(admin_client)
    for path in PAGES:
        if path.startswith("/api/"):
            continue
        page = admin_client.get(path.format(**there)).content.decode()
        assert 'data-zone="Asia/Kolkata"' in page, path
        assert not re.search(r"[Tt]imes? (are )?in UTC", page), path
        for told, title, shown in TIME.findall(page):
            at = datetime.fromisoformat(told)
            assert f"{at:%H:%M:%S} UTC" in title, (path, title)
            if re.search(r"\d\d:\d\d", shown):
                assert f"{at.astimezone(KOLKATA):%H:%M}" in shown, (path, shown, told)
                seen += 1
    admin_client.post("/zone/", {"zone": "Asia/Kolkata", "shows_utc": "1"})
    for path in PAGES:
        page = admin_client.get(path.format(**there)).content.decode()
        for told, shown, rest in re.findall(BESIDE, page, re.S):
            at = datetime.fromisoformat(told)
            if f"{at.astimezone(KOLKATA):%H:%M}" in shown:
                utc = rf'<span class="utc">\([^)]*{at:%H:%M}(:{at:%S})? UTC\)</span>'
                assert re.search(utc, shown + rest), (path, shown)
                beside += 1
    assert min(seen, beside) > 30
    admin_client.post("/zone/", {"zone": "UTC", "shows_utc": "1"})
    assert 'class="utc"' not in admin_client.get("/sessions/").content.decode(), "it would say the same twice"


def test_templates_write_times_only_with_the_zone_tags() -> None:
    """A time of day is written by what `times` has, with UTC beside it; but for titles in drawings."""
    found = []
    for path in (ROOT / "templates" / "dashboard").rglob("*.html"):
        text = re.sub(r"<title>[^<]*</title>", "", path.read_text())
        text = re.sub(r"{% timezone document.*?{% endtimezone %}", "", text)  # A report's times are of its own zone.
        found += [(path.name, each) for each in re.findall(r'{{[^}]*\|(?:date|time):"[^"]*[Hi][^"]*" }}', text)]
        found += [
            (path.name, each)
            for each in re.findall(r"[%}]} UTC\b|in UTC\.<", text)
            if path.name != "_analytics_dates.html"
        ]
    assert found == []


def test_time_in_a_sentence_is_followed_by_utc() -> None:
    with timezone.override(KOLKATA):
        assert zones.clock(EVENING) == "01:45:00 (2 Mar, 20:15:00 UTC)"
        assert zones.clock(EVENING - timedelta(hours=4), "%-d %b") == "2 Mar, 21:45:00 (16:15:00 UTC)"
        assert times.day_utc(EVENING) == "3 Mar 2025, 01:45 (2 Mar, 20:15 UTC)"
    assert zones.clock(EVENING) == "20:15:00 UTC"
    assert times.day_utc(EVENING) == "2 Mar 2025, 20:15 UTC"


def test_key_state_text_uses_the_page_time_zone(viewer: Client, stream: Stream) -> None:
    key = keys.create(stream=stream, label="studio", expires_at=EVENING).key
    page = at_home(viewer).get("/streams/live/cam-1/").content.decode()
    assert "expired on 3 Mar, 01:45 (2 Mar, 20:15 UTC)" in page
    StreamKey.objects.filter(pk=key.pk).update(revoked_at=EVENING)
    assert "revoked on 3 Mar, 01:45" in at_home(viewer).get("/streams/live/cam-1/").content.decode()


def test_days_of_filters_are_of_the_zone(admin_client: Client, stream: Stream) -> None:
    Recording.objects.create(application=stream.application, name="late", file="live/a.flv", started_at=EVENING)
    entry = AuditEntry.objects.create(at=EVENING, actor="mira", action="key.rotate")

    def recordings(query: str) -> list[str]:
        return [row.name for row in admin_client.get(f"/recordings/?{query}").context["page"]]

    def entries(query: str) -> list[int]:
        return [row.pk for row in admin_client.get(f"/audit/?actor=mira&{query}").context["page"]]

    second, third = "since=2025-03-02&until=2025-03-02", "since=2025-03-03&until=2025-03-03"
    assert (recordings(second), recordings(third)) == (["late"], [])
    at_home(admin_client)
    assert (recordings(second), recordings(third)) == ([], ["late"])
    assert (entries(second), entries(third)) == ([], [entry.pk])
    rows = json.loads(file_text(admin_client.get(f"/audit/export?format=json&actor=mira&{third}")))["items"]
    assert [row["at"] for row in rows] == ["2025-03-02T20:15:00Z"], "the file has the page's rows, in UTC"


def test_times_of_filters_are_of_the_zone_and_shown_so_again(viewer: Client, stream: Stream) -> None:
    session = make_session(stream)
    Session.objects.filter(pk=session.pk).update(started_at=EVENING, ended_at=EVENING)
    query = "since=2025-03-03T01:45&until=2025-03-03T01:46"
    assert viewer.get(f"/sessions/?{query}").context["page"].rows == []
    answer = at_home(viewer).get(f"/sessions/?{query}")
    assert answer.context["page"].rows == [session]
    linked = viewer.get("/sessions/?since=2025-03-02T20:15:00Z&until=2025-03-02T20:15:30Z")
    assert linked.context["page"].rows == [session], "a time that names its zone is meant in that"
    assert 'name="since" value="2025-03-03T01:45"' in linked.content.decode()
    assert 'name="until" value="2025-03-03T01:45:30"' in linked.content.decode()
    lines = file_text(viewer.get(f"/sessions/export.csv?{query}")).splitlines()
    assert "2025-03-02T20:15:00+00:00" in lines[1]
    assert viewer.get("/sessions/?since=0001-01-01T00:00").status_code == 200, "before the calendar of UTC"


def test_key_expiry_is_entered_and_shown_in_the_page_time_zone(manager: Client, stream: Stream) -> None:
    at_home(manager)
    key = keys.create(stream=stream, label="studio").key
    fields = {"label": "studio", "over_limit": "warn"}
    assert manager.post(f"/keys/{key.pk}/change", fields | {"expires_at": "2030-01-01T00:00"}).status_code == 302
    key.refresh_from_db()
    assert key.expires_at == datetime(2029, 12, 31, 18, 30, tzinfo=UTC)
    page = manager.get(f"/keys/{key.pk}/").content.decode()
    assert lacks(page, "Expires, Asia/Kolkata", 'value="2030-01-01T00:00"') == []


def test_recompute_requires_whole_utc_hours(analyst: Client) -> None:
    at_home(analyst)
    whole = {"since": "2026-11-14T20:30", "until": "2026-11-14T22:30"}  # 15:00 to 17:00.
    assert "Give a full hour" not in analyst.post("/jobs/recompute", whole).content.decode()
    odd = analyst.post("/jobs/recompute", {"since": "2026-11-14T20:00", "until": "2026-11-14T22:00"})
    assert "Give a full hour of UTC: history is kept by these. This is 14:30 UTC." in odd.content.decode()


def test_day_with_a_clock_change_has_its_real_length() -> None:
    with timezone.override(BERLIN):
        since, until = zones.days("2026-10-25", "2026-10-25")
        assert since is not None
        assert until is not None
        assert until - since == timedelta(hours=25)
        assert since == datetime(2026, 10, 24, 22, tzinfo=UTC)
        period = PagePeriod.of({"from": "2026-10-25", "to": "2026-10-25"})
        assert (period.since, len(period.starts), period.length_days, period.words) == (since, 25, 1, "25 Oct 2026")
    assert zones.days("9999-12-31", "x") == (datetime(9999, 12, 31, tzinfo=UTC), None)
    with timezone.override(KOLKATA):
        assert zones.days("0001-01-01", "9999-12-31") == (None, None)


def test_history_by_hour_is_of_the_zone_and_by_day_of_utc() -> None:
    """Hours begin with those of UTC: in a zone that is half an hour off, a day is widened to them."""
    with timezone.override(KOLKATA):
        hours = PagePeriod.of({"from": "2026-03-03", "to": "2026-03-03"})
        assert hours.since == datetime(2026, 3, 2, 18, tzinfo=UTC)
        assert hours.until == datetime(2026, 3, 3, 19, tzinfo=UTC)
        assert (hours.words, hours.zone.key, hours.grain) == ("3 Mar 2026", "Asia/Kolkata", Grain.HOUR)
        assert (hours.first_day, hours.last_day) == (date(2026, 3, 3), date(2026, 3, 3))
        days = PagePeriod.of({"from": "2026-02-01", "to": "2026-02-28"})
        assert (days.since, days.until) == (datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
        assert (days.words, days.zone.key) == ("1 to 28 Feb 2026", "UTC")


ANALYTICS, COMPARE = "/analytics/?stream=live/cam-1&grain=hour&", "/analytics/compare/?"
NOTE = re.compile(r'<span id="period-note"><svg[^>]*>.*?</svg>([^<]+)</span>')


@pytest.mark.parametrize("page", [ANALYTICS, COMPARE])
@pytest.mark.parametrize(
    ("zone", "day", "note"),
    [
        ("Asia/Kathmandu", date(2026, 11, 14), "13 Nov 2026, 23:45 to 15 Nov 2026, 00:45"),
        ("Australia/Lord_Howe", date(2026, 6, 14), "13 Jun 2026, 23:30 to 15 Jun 2026, 00:30"),
        ("Australia/Lord_Howe", date(2026, 11, 14), ""),  # Its summer time is UTC+11.
        ("Australia/Lord_Howe", date(2026, 10, 4), "3 Oct 2026, 23:30 to 5 Oct 2026, 00:00"),  # It begins.
        ("Europe/Berlin", date(2026, 11, 14), ""),
        ("UTC", date(2026, 11, 14), ""),
    ],
)
def test_history_in_a_zone_off_whole_hours_states_the_hours_covered(
    viewer: Client, page: str, zone: str, day: date, note: str
) -> None:
    content = at_home(viewer, zone).get(f"{page}from={day}&to={day}").content.decode()
    said = [f"{zone} is not whole hours from UTC: the figures are of whole hours, {note}."] if note else []
    assert NOTE.findall(content) == said
    in_reports = periods.containing("daily", day, ZoneInfo(zone)).widened_words
    assert said == ([in_reports] if in_reports else []), "reports say the same"


@pytest.mark.parametrize(
    "query",
    [
        *(f"{ANALYTICS}range=24h", f"{COMPARE}range=24h", f"{COMPARE}range=30d"),
        "/analytics/?stream=live/cam-1&grain=day&from=2026-11-14&to=2026-11-14",
    ],
)
def test_history_ranges_of_whole_utc_hours_show_no_zone_note(viewer: Client, query: str) -> None:
    assert not NOTE.search(at_home(viewer, "Asia/Kathmandu").get(query).content.decode())


def test_neighbouring_days_share_the_hour_that_their_midnight_is_in() -> None:
    with timezone.override(ZoneInfo("Asia/Kathmandu")):
        first, second = [PagePeriod.of({"from": day, "to": day}) for day in ("2026-11-14", "2026-11-15")]
        assert first.until == datetime(2026, 11, 14, 19, tzinfo=UTC)
        assert second.since == datetime(2026, 11, 14, 18, tzinfo=UTC)
        assert first.note
        assert first.before.note == "", "that one ends where the other begins"


def test_a_range_begins_with_an_hour_of_utc_and_names_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 11, 14, 18, 30, tzinfo=UTC))
    with timezone.override(ZoneInfo("Asia/Kathmandu")):
        assert PagePeriod.of({"range": "24h"}).words == "13 Nov, 23:45 to now, 15 Nov 2026, 00:15"


def test_history_days_are_labelled_with_the_utc_date_west_of_utc(viewer: Client, stream: Stream) -> None:
    row = make_rollup(grain=Grain.DAY)
    page = at_home(viewer, "America/New_York").get("/analytics/?stream=live/cam-1&range=30d").content.decode()
    assert lacks(page, "<th>Day, UTC</th>", f">{row.start:%a} {row.start.day} {row.start:%b}</a></time>") == []


def test_ledger_day_with_a_clock_change_has_25_hours(db: None) -> None:
    now = datetime(2026, 10, 26, 12, tzinfo=UTC)
    with timezone.override(BERLIN):
        today, changed = analytics.ledger_days(2, now)
    assert (today.start, changed.start) == (date(2026, 10, 26), date(2026, 10, 25))
    assert len(changed.hours) == 25
    assert today.hours[0].start == datetime(2026, 10, 25, 23, tzinfo=UTC)


def test_api_metrics_and_admin_stay_in_utc(admin_client: Client, stream: Stream) -> None:
    session = make_session(stream)
    Session.objects.filter(pk=session.pk).update(started_at=EVENING, ended_at=EVENING)
    at_home(admin_client)
    rows = admin_client.get("/api/v1/sessions?since=2025-03-02T20:15&until=2025-03-02T20:16").json()["items"]
    assert [row["started_at"][:19] for row in rows] == ["2025-03-02T20:15:00"]
    assert rows[0]["started_at"].endswith("Z")
    assert "2025-03-02 20:15" in admin_client.get("/admin/ingest/session/").content.decode()
    assert admin_client.get("/metrics", headers=api_token()).status_code == 200
    assert timezone.get_current_timezone_name() == "UTC", "what comes after a page is in UTC again"


SUMMERS, WINTERS = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
"""Both 02:30 in Berlin, where clocks go back from three to two."""

INPUT = re.compile(r"<input[^>]*>")


def inputs(page: str, name: str) -> dict[str, str]:
    """What a browser sends of the inputs of a page's time."""
    found = {}
    for tag in INPUT.findall(page):
        attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        if attributes.get("name", "").startswith(name):
            found[attributes["name"]] = unescape(attributes["value"])
    return found


@pytest.fixture
def in_berlin(manager: Client) -> Client:
    return at_home(manager, "Europe/Berlin")


def changed(manager: Client, key: StreamKey, **fields: str) -> datetime | None:
    answer = manager.post(f"/keys/{key.pk}/change", {"label": "studio", "over_limit": "warn"} | fields)
    assert answer.status_code == 302, answer.content.decode()
    key.refresh_from_db()
    return key.expires_at


@pytest.mark.parametrize("expires", [SUMMERS, WINTERS, WINTERS + timedelta(microseconds=250_000)])
def test_a_key_keeps_its_expiry_when_another_field_changes(
    in_berlin: Client, stream: Stream, expires: datetime
) -> None:
    key = keys.create(stream=stream, label="camera", expires_at=expires).key
    sent = inputs(in_berlin.get(f"/keys/{key.pk}/").content.decode(), "expires_at")
    assert sent["expires_at"] == "2026-10-25T02:30"
    assert changed(in_berlin, key, **sent) == expires
    assert key.label == "studio"
    refused = in_berlin.post(f"/keys/{key.pk}/change", sent | {"label": "studio", "max_kbps": "none"})
    assert refused.status_code == 422
    assert changed(in_berlin, key, **inputs(refused.content.decode(), "expires_at")) == expires


def test_key_expiry_that_was_edited_replaces_the_stored_one(in_berlin: Client, stream: Stream) -> None:
    key = keys.create(stream=stream, label="studio", expires_at=WINTERS).key
    sent = inputs(in_berlin.get(f"/keys/{key.pk}/").content.decode(), "expires_at")
    assert changed(in_berlin, key, **sent | {"expires_at": "2026-10-25T03:30"}) == WINTERS + timedelta(hours=1)
    assert changed(in_berlin, key, **sent | {"expires_at": ""}) is None
    assert changed(in_berlin, key, expires_at="2026-10-25T02:30") == SUMMERS, "the first of two"
    at_home(in_berlin, "UTC")
    assert changed(in_berlin, key, **sent) == datetime(2026, 10, 25, 2, 30, tzinfo=UTC), "it was shown in another zone"
    assert in_berlin.post(f"/keys/{key.pk}/change", {"expires_at": "tomorrow"}).status_code == 422
    assert in_berlin.post(f"/keys/{key.pk}/change", {"expires_at": "9999-12-31T24:00"}).status_code == 422


def test_time_skipped_by_a_clock_change_moves_one_hour_later() -> None:
    with timezone.override(BERLIN):
        assert moment("2027-03-28T02:30") == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
        assert moment("2027-03-28T03:30") == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)


def test_repeated_hour_of_a_clock_change_can_be_recomputed(analyst: Client) -> None:
    answer = at_home(analyst, "Europe/Berlin").post(
        "/jobs/recompute", {"since": "2026-10-25T02:00", "until": "2026-10-25T03:00"}
    )
    form = answer.context["form"]
    assert form.cleaned_data == {
        "since": datetime(2026, 10, 25, 0, tzinfo=UTC),
        "until": datetime(2026, 10, 25, 2, tzinfo=UTC),
    }, form.errors
    assert inputs(answer.content.decode(), "since") == {"since": "2026-10-25T02:00"}


def test_resubmitted_filter_of_a_link_finds_the_same_ambiguous_hour(viewer: Client, stream: Stream) -> None:
    at_home(viewer, "Europe/Berlin")
    session = make_session(stream)
    Session.objects.filter(pk=session.pk).update(started_at=WINTERS, ended_at=WINTERS)
    linked = {"since": "2026-10-25T01:30:00Z", "until": "2026-10-25T01:31:00Z"}
    page = viewer.get("/sessions/", linked)
    assert page.context["page"].rows == [session]
    sent = inputs(page.content.decode(), "since") | inputs(page.content.decode(), "until")
    assert (sent["since"], sent["until"]) == ("2026-10-25T02:30", "2026-10-25T02:31")
    again = viewer.get("/sessions/", sent)
    assert again.context["page"].rows == [session]
    assert inputs(again.content.decode(), "since") | inputs(again.content.decode(), "until") == sent
    assert str(session.pk) in file_text(viewer.get("/sessions/export.csv", sent))
    typed = viewer.get("/sessions/", sent | {"until": "2026-10-25T02:20"})
    assert typed.context["page"].rows == []
    plain = viewer.get("/sessions/", {"since": "2026-11-25T01:30:00Z"})
    assert inputs(plain.content.decode(), "since") == {"since": "2026-11-25T02:30"}, "nothing beside what is plain"
