"""One session's page: its answers at night, what is measured, what people say of it, two side by side."""

import csv
import io
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from django.utils import timezone

from ingest.live_store import get_livestore
from ingest.models import Attempt, AuditEntry, Node, Session, StatusEvent, Stream, StreamKey
from ingest.telemetry import Rotation, TelemetryWriter
from tests.dashboard.conftest import (
    api_token,
    client_of,
    figures,
    file_text,
    make_session,
    make_stream,
    make_user,
    snapshot,
)
from tests.ingest.telemetry.records import sample

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]

Measure = Callable[..., None]


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, settings: Any) -> Path:
    settings.LAKE_DIR = tmp_path / "lake"
    return tmp_path / "lake"


@pytest.fixture
def measured(lake: Path) -> Measure:
    """Writes a sample a second of a session, as its node does. `fields`: by the second."""

    def write(session: Session, seconds: int, fields: Callable[[int], dict[str, Any]] = lambda second: {}) -> None:
        writer = TelemetryWriter(lake, session.node.name if session.node else "n1", rotation=Rotation(flush_s=0.01))
        writer.start()
        begin = int(session.started_at.timestamp() * 1_000_000)
        writer.samples(
            [
                sample(
                    second,
                    session=str(session.pk),
                    stream=session.stream_id,
                    at_us=begin + second * 10**6,
                    node=session.node.name if session.node else "n1",
                    **fields(second),
                )
                for second in range(seconds)
            ]
        )
        writer.close()

    return write


def answers(client: Client, session: Session) -> dict[int, tuple[str, str]]:
    """By their number: (what it says, its detail)."""
    page = client.get(f"/sessions/{session.pk}/")
    assert page.status_code == 200
    return {number: (one.says, one.detail) for number, one in enumerate(page.context["answers"], 1)}


def up(name: str = "n1") -> None:
    Node.objects.filter(name=name).update(seen_at=timezone.now(), state="up")


def lost(stream: Stream, **fields: Any) -> Session:
    return make_session(
        stream, age_s=120, ended_ago_s=0.0, end_reason="tcp_reset",
        end_description="The encoder's side closed TCP.", **fields,
    )  # fmt: skip


def test_why_it_ended_and_its_last_minute(viewer: Client, stream: Stream, measured: Measure) -> None:
    session = lost(stream)
    measured(session, 120, lambda second: {"video_kbps": 3800.0 if second < 100 else 1220.0, "audio_kbps": 100.0,
                                           "rtt_ms": 480.0 if second > 110 else 40.0})  # fmt: skip
    said = answers(viewer, session)
    assert said[2] == (
        "Connection reset",
        "The encoder's side closed TCP. In the last 60\u00a0s the bitrate fell from 3,900 to 1,320\u00a0kbit/s and the "
        "round trip rose to 480\u00a0ms.",
    )
    assert said[6][0] == "Lower the bitrate, or use a cable"


@pytest.mark.both_forms
def test_it_is_back_with_the_same_key_and_address(viewer: Client, stream: Stream) -> None:
    key = StreamKey.objects.create(stream=stream, label="Main OBS", digest="d", max_kbps=8000)
    session = make_session(stream, age_s=600, ended_ago_s=338, key=key, end_reason="tcp_reset")
    later = make_session(stream, age_s=300, key=key)
    async_to_sync(get_livestore().put_node)(figures(), [snapshot(stream, session_id=str(later.pk), health="bad")])
    said = answers(viewer, session)
    assert said[1][0] == f"Yes, since {later.started_at:%H:%M:%S}, but bad"
    assert said[1][1] == "Off for 38\u00a0s, then the same key and the same address."
    assert said[4] == ("None of these", "Main OBS is enabled, has no expiry, and stayed under its 8,000 kbit/s.")
    assert said[5][1].endswith("was accepted.")
    assert said[6][0] == "Look at the stream"


def test_it_is_not_back(viewer: Client, stream: Stream) -> None:
    session = make_session(stream, age_s=600, ended_ago_s=240, end_reason="idle_timeout")
    assert answers(viewer, session)[1][0] == "No, off air for 4\u00a0min 0\u00a0s"
    again = make_session(stream, age_s=200, ended_ago_s=100, end_reason="tcp_reset", address="192.0.2.99")
    assert answers(viewer, session)[1] == (
        "No, it was and ended again",
        f"It came back at {again.started_at:%H:%M:%S} with another address, 192.0.2.99, and ended again.",
    )


@pytest.mark.both_forms
def test_one_key_or_the_whole_node(viewer: Client, stream: Stream) -> None:
    session = lost(stream)
    up()
    make_session(make_stream("other"), age_s=500)
    make_session(make_stream("third"), age_s=500)
    async_to_sync(get_livestore().put_node)(figures(), [])
    said = answers(viewer, session)[3]
    assert said == ("Only this one", "2 other publishers on n1 kept running. It is up; CPU 12 %, disk 60 % free.")
    Session.objects.filter(name="other").update(ended_at=timezone.now() - timedelta(seconds=10))
    said = answers(viewer, session)[3]
    assert said[0] == "Several at once"
    assert said[1].startswith("1 other publisher on n1 ended within 30 s of it. 1 other publisher on n1 kept running.")
    Node.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    assert answers(viewer, session)[3][0] == "Several at once", "it tells its figures: it can't write that it lives"
    get_livestore().remove_node("n1")
    assert answers(viewer, session)[3][0] == "The node is down"
    assert answers(viewer, session)[6][0] == "Bring the node back"


@pytest.mark.parametrize(
    ("fields", "says", "act"),
    [
        ({"revoked_at": datetime.fromisoformat("2026-01-02T03:04+00:00")}, "It is revoked", "Give out another key"),
        ({"enabled": False}, "It is disabled", "Enable the key"),
        ({"expires_at": datetime.fromisoformat("2026-01-02T03:04+00:00")}, "It has expired", "Move the key's expiry"),
        ({"max_kbps": 1000}, "Over its limit", "Set the bitrate below the key's limit"),
    ],
)
def test_a_key_that_can_t_be_used(
    viewer: Client, stream: Stream, measured: Measure, fields: dict[str, Any], says: str, act: str
) -> None:
    session = lost(stream, key=StreamKey.objects.create(stream=stream, label="Main OBS", digest="d", **fields))
    up()
    measured(session, 120)
    said = answers(viewer, session)
    assert (said[4][0], said[6][0]) == (says, act)


def test_rejected_attempts_since(viewer: Client, stream: Stream) -> None:
    session = lost(stream)
    up()
    Attempt.objects.create(
        action="publish", app="live", name="cam-1", stream=stream, address="192.0.2.7", reason="busy", count=3,
        at=timezone.now(), description="Another encoder is live with this key.",
    )  # fmt: skip
    Attempt.objects.create(action="play", app="live", name="cam-1", stream=stream, address="192.0.2.8", reason="x")
    said = answers(viewer, session)
    assert said[5][0] == "3: Busy"
    assert said[6] == (
        "Let it in again",
        "It tries, and is refused: busy. Stop the other encoder, or let newer publishers take the stream over.",
    )


def test_one_on_air_says_its_worst_issue(viewer: Client, stream: Stream) -> None:
    session = make_session(stream, age_s=60)
    issue = {
        "check": "gop_long", "level": "warning", "since": 1.0, "actual": "8.0 s", "expected": "4 s",
        "title": "A keyframe every 8.0 s (4 s at most)", "advice": "Set the keyframe interval to 2 s.",
    }  # fmt: skip
    late = issue | {"check": "drift", "since": 0.5, "title": "Media is late"}
    snap = snapshot(stream, session_id=str(session.pk), health="warning", issues=[late, issue])
    async_to_sync(get_livestore().put_node)(figures(), [snap])
    said = answers(viewer, session)
    assert said[1][0] == "It is on air: warning"
    assert said[2][0] == "2 open issues"
    assert said[2][1].startswith("Media is late. A keyframe every 8.0 s (4 s at most). ")
    assert said[6] == ("Lower the bitrate", "Media is late. Set the keyframe interval to 2 s.")


def test_what_the_encoder_claimed_is_the_target_where_the_stream_has_none(viewer: Client, stream: Stream) -> None:
    session = make_session(stream, summary={"metadata": {"videodatarate": 1200}})
    assert viewer.get(f"/sessions/{session.pk}/").context["boot"]["target"] == 1200
    stream.target_kbps = 900
    stream.save()
    assert viewer.get(f"/sessions/{session.pk}/").context["boot"]["target"] == 900


def test_data_of_the_timeline(viewer: Client, stream: Stream, measured: Measure) -> None:
    session = lost(stream)
    begin = session.started_at
    silent = {"video_bytes": 0, "audio_bytes": 0, "video_kbps": 0.0, "audio_kbps": 0.0}
    measured(session, 118, lambda second: silent if 30 < second < 50 else {})
    for sequence, (after, kind, level, code) in enumerate(
        [
            (0, "onstatus", "status", "NetStream.Publish.Start"),
            (20, "health.opened", "warning", "bitrate_low"),
            (40, "health.opened", "bad", "starving"),
            (60, "health.cleared", "status", "starving"),
            (70, "health.cleared", "status", "bitrate_low"),
            (90, "operator.note", "", ""),
        ]
    ):
        StatusEvent.objects.create(
            session=session, sequence=sequence, at=begin + timedelta(seconds=after), kind=kind, level=level, code=code
        )
    data = viewer.get(f"/sessions/{session.pk}/data").json()
    lanes, start = data["lanes"], begin.timestamp()
    spans = [(round(span["from"] - start), round(span["to"] - start), span["level"]) for span in lanes["health"]]
    assert spans == [(0, 20, "good"), (20, 40, "warning"), (40, 60, "bad"), (60, 70, "warning"), (70, 120, "good")]
    assert [span["level"] for span in lanes["state"]] == ["live", "off", "live"]
    assert [event["code"] for event in lanes["status"]] == ["NetStream.Publish.Start"]
    assert [event["kind"] for event in lanes["operator"]] == ["operator.note"]
    assert len(data["at"]) == len(data["values"]["video_kbps"]) == 118
    assert (data["step_s"], data["problems"], len(data["gaps"])) == (0, [], 1)
    gathered = viewer.get(f"/sessions/{session.pk}/data", {"points": 12}).json()
    assert len(gathered["at"]) <= 12
    assert min(gathered["low"]["video_kbps"]) == 0


@pytest.mark.both_forms
def test_samples_and_events_come_as_files(viewer: Client, stream: Stream, measured: Measure) -> None:
    session = lost(stream)
    measured(session, 30)
    StatusEvent.objects.create(session=session, sequence=1, kind="onstatus", detail={"a": 1}, description="=x")
    text = file_text(viewer.get(f"/sessions/{session.pk}/samples.csv"))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert (len(rows), rows[0]["video_kbps"], rows[0]["health"]) == (30, "2000.0", "good")
    assert "video_kbps_min" not in rows[0]
    token = api_token()
    listing = Client().get(f"/api/v1/sessions/{session.pk}/samples", {"points": 10}, headers=token).json()
    assert 2 <= len(listing["at"]) <= 10
    assert listing["totals"]["samples"] == 30
    answer = Client().get(f"/api/v1/sessions/{session.pk}/samples", {"format": "csv"}, headers=token)
    assert answer["Content-Type"].startswith("text/csv")
    query = f"/api/v1/sessions/{session.pk}/samples?format=csv&points=10"
    gathered = file_text(Client().get(query, headers=token))
    row, *others = csv.DictReader(io.StringIO(gathered))
    assert len(others) == len(listing["at"]) - 1
    assert [row[f"video_kbps{end}"] for end in ("", "_min", "_max")] == ["2000.0"] * 3
    assert [name for name in row if name.startswith("players")] == ["players", "players_min", "players_max"]
    events = Client().get(f"/api/v1/sessions/{session.pk}/events", {"format": "csv"}, headers=token)
    (row,) = csv.DictReader(io.StringIO(file_text(events)))
    assert (row["kind"], row["description"], json.loads(row["detail"])) == ("onstatus", "'=x", {"a": 1})
    assert Client().get(f"/api/v1/sessions/{session.pk}/samples").status_code == 401
    assert viewer.get(f"/api/v1/sessions/{session.pk}/samples", {"points": 1}).status_code == 422


@pytest.mark.both_forms
def test_the_api_s_list_has_the_page_s_filters(viewer: Client, stream: Stream) -> None:
    key = StreamKey.objects.create(stream=stream, label="Main OBS", digest="d")
    session = make_session(stream, age_s=500, ended_ago_s=400, key=key, end_reason="kicked", is_test=True)
    make_session(stream)
    query = {"stream": "cam", "key": "main", "node": "n1", "reason": "kicked", "encoder": "obs", "test": "true"}
    listing = viewer.get("/api/v1/sessions", query).json()
    assert [item["id"] for item in listing["items"]] == [str(session.pk)]
    for name in query:
        assert viewer.get("/api/v1/sessions", {name: query[name]}).json()["count"] >= 1
    assert viewer.get("/api/v1/sessions", {"reason": "nothing"}).status_code == 422


@pytest.mark.both_forms
def test_a_note_and_an_acknowledgement_are_the_session_s(operator: Client, stream: Stream) -> None:
    session = lost(stream)
    make_session(stream, age_s=5)
    assert operator.post(f"/sessions/{session.pk}/note", {"note": "Someone uploads there."}).status_code == 302
    assert operator.post(f"/sessions/{session.pk}/acknowledge", {"note": ""}).status_code == 302
    assert operator.post(f"/sessions/{session.pk}/acknowledge", {"note": "again"}).status_code == 302
    kinds = list(StatusEvent.objects.filter(session=session).values_list("kind", "code", "detail__by"))
    assert kinds == [("operator.note", "", "omar"), ("operator.ack", "session.ended", "omar")]
    acts = list(AuditEntry.objects.order_by("pk").values_list("action", "actor", "session"))
    assert acts == [("session.note", "omar", session.pk), ("session.acknowledge", "omar", session.pk)]
    assert "Acknowledged by omar" in operator.get(f"/sessions/{session.pk}/").content.decode()
    empty = operator.post(f"/sessions/{session.pk}/note", {"note": " "}, headers={"Accept": "application/json"})
    assert (empty.status_code, empty.json()) == (409, {"detail": "The note is empty."})


def test_what_is_open_is_acknowledged_elsewhere(operator: Client, stream: Stream) -> None:
    answer = operator.post(f"/sessions/{make_session(stream).pk}/acknowledge", headers={"Accept": "application/json"})
    assert answer.status_code == 409


def test_who_may_what(viewer: Client, stream: Stream) -> None:
    session = lost(stream)
    nobody = client_of(make_user(name="nobody"))
    for path in ("", "data", "samples.csv"):
        assert viewer.get(f"/sessions/{session.pk}/{path}").status_code == 200
        assert Client().get(f"/sessions/{session.pk}/{path}").status_code == 302
        assert nobody.get(f"/sessions/{session.pk}/{path}").status_code == 403
    for act in ("note", "acknowledge"):
        assert viewer.post(f"/sessions/{session.pk}/{act}", {"note": "x"}).status_code == 403
        assert viewer.get(f"/sessions/{session.pk}/{act}").status_code == 405
    assert 'class="ack"' not in viewer.get(f"/sessions/{session.pk}/").content.decode()
    assert viewer.get("/sessions/6ba7b810-9dad-11d1-80b4-00c04fd430c8/").status_code == 404


def test_a_player_s_session_has_the_same_shell(viewer: Client, stream: Stream) -> None:
    publisher = make_session(stream, age_s=600)
    play = make_session(
        stream, age_s=300, ended_ago_s=10, kind="play", end_reason="too_slow", bytes_out=9_000_000,
        summary={"dropped_frames": 42},
    )  # fmt: skip
    text = viewer.get(f"/sessions/{play.pk}/").content.decode()
    assert "Player too slow" in text
    left = make_session(stream, age_s=300, ended_ago_s=10, kind="play", end_reason="client_unpublish")
    for path in (f"/sessions/{left.pk}/", "/sessions/?kind=play", "/nodes/n1/"):
        assert "Player left" in viewer.get(path).content.decode()
    assert f"/sessions/{publisher.pk}/" in text
    assert "First questions" not in text
    assert f"/sessions/{play.pk}/" in viewer.get(f"/sessions/{publisher.pk}/").content.decode()
    assert viewer.get(f"/sessions/{play.pk}/data").json()["at"] == []


def test_totals_that_nobody_knows_are_no_zeros(viewer: Client, stream: Stream) -> None:
    """Its node died: until its samples have told what it counted, or for good."""
    row = make_session(stream, age_s=300, ended_ago_s=200, end_reason="node_lost")
    assert "not known: its server died" in viewer.get(f"/sessions/{row.pk}/").content.decode()
    headers = api_token()
    told = viewer.get(f"/api/v1/sessions/{row.pk}", headers=headers).json()
    totals = ("bytes_in", "bytes_out", "video_frames", "audio_frames", "keyframes")
    assert {name: told[name] for name in totals} == dict.fromkeys(totals)
    Session.objects.update(bytes_in=5_000_000, keyframes=30, summary={"duration_ms": 99_000, "from_samples": True})
    text = viewer.get(f"/sessions/{row.pk}/").content.decode()
    assert "not known" not in text
    assert "30 keyframes, by its samples" in text
    assert viewer.get(f"/api/v1/sessions/{row.pk}", headers=headers).json()["bytes_in"] == 5_000_000


def test_two_side_by_side(viewer: Client, stream: Stream) -> None:
    a = make_session(stream, age_s=700, ended_ago_s=600, bytes_in=10**8, video_codec="H.264", encoder="OBS 30")
    b = make_session(stream, age_s=500, ended_ago_s=400, bytes_in=10**8, video_codec="H.264", encoder="FFmpeg")
    page = viewer.get("/sessions/compare/", {"a": str(a.pk), "b": str(b.pk)})
    facts = {fact.name: fact for fact in page.context["pair"].facts}
    assert facts["Encoder"].differs
    assert not facts["Video"].differs
    assert not facts["Mean bitrate, all that was sent"].differs
    assert facts["Lasted"].a == "1\u00a0min 40\u00a0s"
    live = make_session(stream, age_s=300, summary={"metadata": {"videodatarate": 1171.875}})
    page = viewer.get("/sessions/compare/", {"a": str(a.pk), "b": str(live.pk)})
    facts = {fact.name: fact for fact in page.context["pair"].facts}
    assert (facts["Data"].b, facts["Data"].differs) == ("known at its end", False)
    assert facts["Claimed video bitrate"].b == "1,172\u00a0kbit/s"
    for query in ({}, {"a": str(a.pk)}, {"a": "x", "b": "y"}):
        assert "Choose two sessions" in viewer.get("/sessions/compare/", query).content.decode()


def test_no_part_of_a_secret_but_its_first_characters(viewer: Client, stream: Stream) -> None:
    key = StreamKey.objects.create(stream=stream, label="", digest="feedface" * 8, prefix="rk_7Qd4")
    session = lost(stream, key=key)
    for path in (f"/sessions/{session.pk}/", "/sessions/"):
        text = viewer.get(path).content.decode()
        assert "rk_7Qd4" in text
        assert "feedface" not in text
