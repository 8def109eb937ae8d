"""Times in forms on days on which clocks change: what was not touched stays, what is typed is always understood."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.zones import moment
from ingest.models import Session, Stream, StreamKey
from ingest.services import keys
from tests.dashboard.conftest import client_of, file_text, make_session, make_user
from tests.dashboard.test_zones import BERLIN, at_home

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
def manager(db: None) -> Client:
    return at_home(client_of(make_user("key manager", name="kim")), "Europe/Berlin")


def changed(manager: Client, key: StreamKey, **fields: str) -> datetime | None:
    answer = manager.post(f"/keys/{key.pk}/change", {"label": "studio", "over_limit": "warn"} | fields)
    assert answer.status_code == 302, answer.content.decode()
    key.refresh_from_db()
    return key.expires_at


@pytest.mark.parametrize("expires", [SUMMERS, WINTERS, WINTERS + timedelta(microseconds=250_000)])
def test_a_key_keeps_its_expiry_when_something_else_is_changed(
    manager: Client, stream: Stream, expires: datetime
) -> None:
    key = keys.create(stream=stream, label="camera", expires_at=expires).key
    sent = inputs(manager.get(f"/keys/{key.pk}/").content.decode(), "expires_at")
    assert sent["expires_at"] == "2026-10-25T02:30"
    assert changed(manager, key, **sent) == expires
    assert key.label == "studio"
    refused = manager.post(f"/keys/{key.pk}/change", sent | {"label": "studio", "max_kbps": "none"})
    assert refused.status_code == 422
    assert changed(manager, key, **inputs(refused.content.decode(), "expires_at")) == expires


def test_another_time_is_meant_once_it_is_typed(manager: Client, stream: Stream) -> None:
    key = keys.create(stream=stream, label="studio", expires_at=WINTERS).key
    sent = inputs(manager.get(f"/keys/{key.pk}/").content.decode(), "expires_at")
    assert changed(manager, key, **sent | {"expires_at": "2026-10-25T03:30"}) == WINTERS + timedelta(hours=1)
    assert changed(manager, key, **sent | {"expires_at": ""}) is None
    assert changed(manager, key, expires_at="2026-10-25T02:30") == SUMMERS, "the first of two"
    at_home(manager, "UTC")
    assert changed(manager, key, **sent) == datetime(2026, 10, 25, 2, 30, tzinfo=UTC), "it was shown in another zone"
    assert manager.post(f"/keys/{key.pk}/change", {"expires_at": "tomorrow"}).status_code == 422
    assert manager.post(f"/keys/{key.pk}/change", {"expires_at": "9999-12-31T24:00"}).status_code == 422


def test_a_time_that_clocks_skip_is_as_far_behind_the_change_as_it_seems() -> None:
    with timezone.override(BERLIN):
        assert moment("2027-03-28T02:30") == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
        assert moment("2027-03-28T03:30") == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)


def test_the_hour_that_comes_twice_can_be_computed_anew(db: None) -> None:
    analyst = at_home(client_of(make_user("analyst", name="ana")), "Europe/Berlin")
    answer = analyst.post("/jobs/recompute", {"since": "2026-10-25T02:00", "until": "2026-10-25T03:00"})
    form = answer.context["form"]
    assert form.cleaned_data == {
        "since": datetime(2026, 10, 25, 0, tzinfo=UTC),
        "until": datetime(2026, 10, 25, 2, tzinfo=UTC),
    }, form.errors
    assert inputs(answer.content.decode(), "since") == {"since": "2026-10-25T02:00"}


def test_a_filter_of_a_link_finds_the_same_when_it_is_sent_again(db: None, stream: Stream) -> None:
    viewer = at_home(client_of(make_user("viewer", name="vic")), "Europe/Berlin")
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
