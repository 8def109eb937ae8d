"""Notes, acknowledgements, silences and kicks, by pages and the API: what is written down, and what pages hear."""

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.utils import timezone

from dashboard.models import Mute
from dashboard.streams import actions as streams_actions
from dashboard.streams import silences
from dashboard.streams.queries import latest_events
from ingest.contracts import Issue
from ingest.models import Application, StatusEvent, Stream
from ingest.services import play_tokens
from ingest.services.audit import Actor
from tests.dashboard.conftest import (
    api_token,
    audited,
    client_of,
    is_silenced,
    lacks,
    make_session,
    make_stream,
    make_user,
    put_node,
    snapshot,
    text_of,
)
from tests.dashboard.sockets import opened, said
from tests.snapshots import issue

API = "/api/v1/streams/live/cam-1"
PAGE = "/streams/live/cam-1"
SINCE = 1_700_000_000.25
AS_JSON = {"Accept": "application/json"}


def judged(stream: Stream, session: Any, *issues: Issue) -> None:
    """What the stream's node says of it now."""
    put_node(snapshot(stream, session_id=str(session.pk), issues=issues))


def post(client: Client, path: str, body: dict[str, Any]) -> Any:
    return client.post(path, json.dumps(body), content_type="application/json")


def events() -> list[tuple[int, str, str, str]]:
    rows = StatusEvent.objects.order_by("at", "sequence")
    return [(row.sequence, row.kind, row.code, row.description) for row in rows]


@pytest.mark.both_forms
def test_note_is_an_event_of_the_live_session_with_its_own_sequence_range(operator: Client, stream: Stream) -> None:
    make_session(stream, age_s=900, ended_ago_s=600)
    session = make_session(stream)
    StatusEvent.objects.create(session=session, sequence=1, kind="session.started")
    answer = post(operator, f"{API}/notes", {"note": " Venue moved to Wi-Fi. "})
    assert answer.status_code == 201
    assert answer.json()["detail"] == {"by": "omar"}
    assert operator.post(f"{PAGE}/note", {"note": "And back."}, headers=AS_JSON).status_code == 201
    first = streams_actions.FIRST_SEQUENCE
    assert events() == [
        (1, "session.started", "", ""),
        (first, "operator.note", "", "Venue moved to Wi-Fi."),
        (first + 1, "operator.note", "", "And back."),
    ]
    assert set(StatusEvent.objects.values_list("session", flat=True)) == {session.pk}
    assert audited("actor", "action", "target") == [("omar", "session.note", "live/cam-1")] * 2
    assert latest_events(stream.pk)[0]["description"] == "And back."


def test_a_note_of_a_stream_off_air_stands_at_its_last_session(operator: Client, stream: Stream) -> None:
    assert post(operator, f"{API}/notes", {"note": "Too early."}).status_code == 409
    last = make_session(stream, age_s=900, ended_ago_s=600)
    make_session(stream, age_s=300, ended_ago_s=200, is_test=True)
    answer = post(Client(headers=api_token("operator")), f"{API}/notes", {"note": "Cable."})
    assert (answer.status_code, answer.json()["detail"]["by"]) == (201, "token operator-script")
    assert StatusEvent.objects.get().session == last


@pytest.mark.parametrize("note", ["", " \n", "x" * 201])
def test_empty_or_overlong_note_is_refused(operator: Client, stream: Stream, note: str) -> None:
    make_session(stream)
    assert post(operator, f"{API}/notes", {"note": note}).status_code in (409, 422)
    assert events() == []


@pytest.mark.both_forms
def test_an_acknowledgement_is_of_one_opening_and_no_worse_level(operator: Client, stream: Stream) -> None:
    session = make_session(stream)

    def acknowledge(check: str = "starving") -> int:
        status: int = post(operator, f"{API}/acknowledge", {"check": check, "note": "On it"}).status_code
        return status

    judged(stream, session)
    assert acknowledge() == 409
    judged(stream, session, issue(level="warning"))
    assert acknowledge("gop_long") == 409
    assert [acknowledge(), acknowledge()] == [201, 201]
    assert StatusEvent.objects.count() == 1
    judged(stream, session, issue(level="bad"))
    assert acknowledge() == 201
    judged(stream, session, issue(level="warning"))  # It got better: whoever knew of the worse knows of this.
    assert acknowledge() == 201
    assert StatusEvent.objects.count() == 2
    judged(stream, session, issue(level="warning", since=SINCE + 60))
    assert acknowledge() == 201
    found = StatusEvent.objects.order_by("sequence").values_list("code", "description", "detail")
    assert [(code, text, detail["level"], detail["since"]) for code, text, detail in found] == [
        ("starving", "On it", "warning", SINCE),
        ("starving", "On it", "bad", SINCE),
        ("starving", "On it", "warning", SINCE + 60),
    ]
    assert audited("actor", "action", "target") == [("omar", "issue.acknowledge", "live/cam-1")] * 3


@pytest.mark.both_forms
def test_a_silence_holds_for_its_time_or_until_it_is_lifted(operator: Client, stream: Stream) -> None:
    make_session(stream)
    assert post(operator, f"{API}/mute", {"check": "starving", "hours": 8, "note": "Rehearsal"}).status_code == 201
    assert post(operator, f"{API}/mute", {"check": "starving", "hours": 1}).json()["note"] == ""
    held = silences.in_force().get()
    assert held.until is not None
    assert 3590 < (held.until - timezone.now()).total_seconds() <= 3600
    assert is_silenced(stream.pk, "starving")
    assert not is_silenced(stream.pk, "gop_long")
    assert not is_silenced(stream.pk, "starving", held.until)
    assert operator.post(f"{PAGE}/mute", {"check": "", "length": "lifted"}, headers=AS_JSON).status_code == 201
    assert is_silenced(stream.pk, "gop_long")
    assert not is_silenced(make_stream("cam-2").pk, "gop_long")
    found = operator.get(f"{API}/mute").json()
    assert [(row["check"], row["by"], row["until"] is None) for row in found["items"]] == [
        ("", "omar", True),
        ("starving", "omar", False),
    ]
    assert operator.post(f"{PAGE}/unmute", {"check": ""}, headers=AS_JSON).status_code == 200
    assert operator.delete(f"{API}/mute?check=gop_long").status_code == 404
    assert operator.delete(f"{API}/mute").status_code == 204
    assert not silences.in_force().exists()
    assert Mute.objects.count() == 3
    assert [kind for _, kind, _, _ in events()] == ["operator.mute"] * 3 + ["operator.unmute"] * 2
    assert audited("action") == ["stream.mute"] * 3 + ["stream.unmute"] * 2


@pytest.mark.parametrize(
    ("length", "at", "ends"),
    [
        ("30", "", "2026-07-01T21:30:00Z"),
        ("120", "", "2026-07-01T23:00:00Z"),
        ("morning", "", "2026-07-02T06:00:00Z"),
        ("at", "2026-07-03T12:00", "2026-07-03T10:00:00Z"),
        ("lifted", "", None),
    ],
)
def test_silence_form_lengths_give_their_end_times(
    operator: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch, length: str, at: str, ends: str | None
) -> None:
    """By the clocks of the page, in Berlin at 23:00."""
    now = datetime.fromisoformat("2026-07-01T21:00:00Z")
    monkeypatch.setattr(timezone, "now", lambda: now)
    with timezone.override(ZoneInfo("Europe/Berlin")):
        until = silences.end_of_form(length, at, now)
    assert until == (datetime.fromisoformat(ends) if ends else None)


def test_silence_until_morning_after_midnight_ends_the_same_day() -> None:
    with timezone.override(ZoneInfo("Europe/Berlin")):
        morning = silences.next_morning(datetime.fromisoformat("2026-07-02T00:00:00Z"))
    assert morning == datetime.fromisoformat("2026-07-02T06:00:00Z")


@pytest.mark.parametrize("body", [{"hours": 0}, {"hours": 9000}, {"check": "x; drop"}, {"note": "x" * 201}])
def test_a_silence_that_makes_no_sense_is_refused(operator: Client, stream: Stream, body: dict[str, Any]) -> None:
    assert post(operator, f"{API}/mute", body).status_code == 422
    for length, at in (("99", ""), ("at", ""), ("at", "2001-01-01T00:00"), ("at", "2999-01-01T00:00")):
        form = {"length": length, "at": at}
        assert operator.post(f"{PAGE}/mute", form, headers=AS_JSON).status_code == 409
    assert post(operator, f"{API}/mute", {"until": "2001-01-01T00:00:00Z"}).status_code == 409
    assert not Mute.objects.exists()


@pytest.mark.both_forms
def test_active_silences_are_listed_and_lifted_on_the_alerts_page_and_api(operator: Client, stream: Stream) -> None:
    form = {"length": "30", "note": "Encoder swap"}
    assert operator.post("/alerts/silences/create", form | {"of": "*"}).status_code == 302
    assert operator.post("/alerts/silences/create", form | {"of": "live", "check": "drift"}).status_code == 302
    assert operator.post("/alerts/silences/create", form | {"of": "nowhere"}, headers=AS_JSON).status_code == 409
    assert operator.post(f"{PAGE}/mute", form, headers=AS_JSON).status_code == 201
    page = text_of(operator, "/alerts/")
    assert lacks(page, "Everything", "live/*", "live/cam-1", "by omar: Encoder swap") == []
    rows = operator.get("/api/v1/silences").json()["items"]
    assert [(row["of"], row["check"]) for row in rows] == [
        ("live/cam-1", ""),
        ("live/*", "drift"),
        ("everything", ""),
    ]
    held = silences.payloads(stream.pk)
    assert [each["of"] for each in held] == ["", "live/*", "everything"]
    assert operator.post(f"/alerts/silences/{rows[2]['id']}/lift").status_code == 302
    assert operator.delete(f"/api/v1/silences/{rows[1]['id']}").status_code == 204
    assert operator.delete(f"/api/v1/silences/{rows[1]['id']}").status_code == 404
    assert post(operator, "/api/v1/silences", {"app": "live", "hours": 2}).json()["of"] == "live/*"
    assert audited("action", "target") == [
        ("alerts.mute", "everything"),
        ("application.mute", "live/*"),
        ("stream.mute", "live/cam-1"),
        ("alerts.unmute", "everything"),
        ("application.unmute", "live/*"),
        ("application.mute", "live/*"),
    ]


def test_stream_without_sessions_can_be_silenced(operator: Client, stream: Stream) -> None:
    assert post(operator, f"{API}/mute", {}).status_code == 201
    assert (events(), audited("actor", "action", "target")) == ([], [("omar", "stream.mute", "live/cam-1")])


@pytest.mark.both_forms
@pytest.mark.django_db(transaction=True)
async def test_open_pages_hear_of_an_act_at_once() -> None:
    def make() -> tuple[Stream, list[Client]]:
        stream = make_stream("cam-1")
        judged(stream, make_session(stream), issue(level="warning"))
        return stream, [client_of(make_user("operator", name=name)) for name in ("omar", "olga")]

    stream, (omar, olga) = await sync_to_async(make)()
    async with opened(f"/ws/streams/{stream.pk}/", omar) as one, opened(f"/ws/streams/{stream.pk}/", olga) as other:
        for page in (one, other):
            whole = await said(page)
            assert (whole["acks"], whole["mutes"]) == ([], [])
        await sync_to_async(post)(omar, f"{API}/acknowledge", {"check": "starving"})
        for page in (one, other):
            heard = await said(page)
            assert heard["kind"] == "event"
            assert heard["event"]["kind"] == "operator.ack"
            known = {"by": "omar", "since": SINCE, "level": "warning", "name": "Nothing received"}
            assert heard["event"]["detail"] == known
        await sync_to_async(post)(olga, f"{API}/mute", {"note": "Rehearsal"})
        for page in (one, other):
            kinds = {(message := await said(page))["kind"]: message for _ in range(2)}
            assert kinds["event"]["event"]["kind"] == "operator.mute"
            (held,) = kinds["mutes"]["mutes"]
            assert (held["check"], held["until"], held["note"], held["by"]) == ("", None, "Rehearsal", "olga")
    async with opened(f"/ws/streams/{stream.pk}/", omar) as again:
        whole = await said(again)
        assert [ack["code"] for ack in whole["acks"]] == ["starving"]
        assert [held["by"] for held in whole["mutes"]] == ["olga"]


@pytest.mark.stores
def test_events_of_two_operators_get_distinct_sequence_numbers(stream: Stream) -> None:
    session = make_session(stream)
    for name in ("omar", "olga"):
        streams_actions.put_event(session, "operator.note", Actor(name), description="Seen.")
    assert [sequence for sequence, *_ in events()] == [
        streams_actions.FIRST_SEQUENCE,
        streams_actions.FIRST_SEQUENCE + 1,
    ]


def test_event_code_longer_than_its_column_is_cut(stream: Stream) -> None:
    event = streams_actions.put_event(make_session(stream), "operator.note", Actor("omar"), code="x" * 65)
    assert event.code == "x" * 64


def test_a_kick_by_form_is_an_event_and_comes_back_to_the_page(operator: Client, stream: Stream) -> None:
    session = make_session(stream)
    answer = operator.post(f"{PAGE}/kick", {"note": "Wrong scene.", "session_id": str(session.pk)}, follow=True)
    assert answer.redirect_chain == [(f"{PAGE}/", 302)]
    assert "The encoder of live/cam-1 is being disconnected." in answer.content.decode()
    assert events() == [(streams_actions.FIRST_SEQUENCE, "operator.kick", "", "Wrong scene.")]
    session.refresh_from_db()
    assert (session.stop_requested, session.stop_note) == ("kicked", "Ended by omar: Wrong scene.")
    assert audited("actor", "action", "target") == [("omar", "session.kick", "live/cam-1")]


def test_kick_by_api_ends_the_current_publisher_only(stream: Stream) -> None:
    make_session(stream, age_s=900, ended_ago_s=600)
    player, publisher = make_session(stream, kind="play"), make_session(stream)
    script = Client(enforce_csrf_checks=True, headers=api_token("operator"))
    answer = post(script, f"{API}/kick", {"note": "wrong scene"})
    assert (answer.status_code, answer.json()["session_id"]) == (202, str(publisher.pk))
    publisher.refresh_from_db()
    player.refresh_from_db()
    assert publisher.stop_note == "Ended by token operator-script: wrong scene."
    assert (publisher.stop_requested, player.stop_requested) == ("kicked", "")


def test_a_kick_may_be_for_one_session_only(operator: Client, stream: Stream) -> None:
    before, now = make_session(stream, age_s=90, ended_ago_s=30), make_session(stream, age_s=10)
    other = {"session_id": str(before.pk)}
    assert operator.post(f"{PAGE}/kick", other, headers=AS_JSON).status_code == 409
    assert post(operator, f"{API}/kick", other).status_code == 409
    now.refresh_from_db()
    assert now.stop_requested == ""
    assert post(operator, f"{API}/kick", {"session_id": str(now.pk)}).status_code == 202


def test_kick_of_offline_stream_is_409_and_of_unknown_stream_404(operator: Client, stream: Stream) -> None:
    make_session(stream, ended_ago_s=5)
    assert operator.generic("POST", f"{API}/kick").status_code == 409
    assert operator.generic("POST", "/api/v1/streams/live/none/kick").status_code == 404


def test_a_pages_script_kicks_with_the_csrf_token(stream: Stream) -> None:
    make_session(stream)
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_user("operator"))
    assert f"{PAGE}/kick" in browser.get(f"{PAGE}/").content.decode()
    headers = {"X-CSRFToken": browser.cookies["csrftoken"].value}
    assert browser.generic("POST", f"{API}/kick").status_code == 403
    assert browser.generic("POST", f"{API}/kick", headers=headers).status_code == 202


def test_kick_without_permission_is_neither_offered_nor_allowed(viewer: Client, client: Client, stream: Stream) -> None:
    session = make_session(stream)
    assert f"{PAGE}/kick" not in viewer.get(f"{PAGE}/").content.decode()
    assert viewer.post(f"{PAGE}/kick", headers=AS_JSON).status_code == 403
    assert client.post(f"{PAGE}/kick", headers=AS_JSON).status_code == 401, "a script would take the log-in for success"
    session.refresh_from_db()
    assert session.stop_requested == ""


def test_a_play_token_is_valid_for_the_stream_and_as_long_as_asked(operator: Client, stream: Stream) -> None:
    answer = operator.generic("POST", f"{API}/token")
    assert answer.status_code == 201
    made = answer.json()
    assert play_tokens.PLAY.verify(made["token"], stream.pk) == "valid"
    for name, scheme in (("play_url", "rtmp://"), ("flv_url", "http://"), ("ws_url", "ws://")):
        assert made[name].startswith(scheme)
        assert made[name].endswith(f"?token={made['token']}")
    hour = operator.post(f"{API}/token", {"hours": 1}, content_type="application/json").json()
    assert 3500 < (datetime.fromisoformat(hour["expires_at"]) - timezone.now()).total_seconds() <= 3600
    assert operator.post(f"{API}/token", {"hours": 0}, content_type="application/json").status_code == 422


def test_a_play_token_needs_a_stream_and_an_application_that_is_played(stream: Stream) -> None:
    script = Client(headers=api_token("key manager"))
    assert script.generic("POST", "/api/v1/streams/live/none/token").status_code == 404
    assert script.generic("POST", f"{API}/token").status_code == 201
    Application.objects.update(play_policy=Application.PlayPolicy.NONE)
    assert script.generic("POST", f"{API}/token").status_code == 409
