"""One session's page: its answers at night, the one act that it advises, the last minute in a sentence, what is
measured, what people say of it, two side by side."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from dashboard import zones
from dashboard.sessions.advice import CHECK_ACTIONS, OTHERWISE, RULES, Situation, advise
from dashboard.streams.measurements import LastMinute, summarize_last_minute
from ingest.contracts import END_REASONS
from ingest.live.health import CHECKS
from ingest.live_store import get_livestore
from ingest.models import Attempt, Node, Session, StatusEvent, Stream, StreamKey
from ingest.telemetry import Rotation, TelemetryWriter
from ingest.telemetry.series import GAUGES, Series, SeriesTotals
from tests.dashboard.conftest import (
    api_token,
    audited,
    csv_rows,
    make_session,
    make_stream,
    put_node,
    snapshot,
    text_of,
)
from tests.ingest.telemetry.records import sample
from tests.snapshots import issue

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still", "lake")]

Measure = Callable[..., None]


@pytest.fixture
def measured(lake: Path) -> Measure:
    """Writes a sample a second of a session, as its node does. `fields`: by the second."""

    def write(session: Session, seconds: int, fields: Callable[[int], dict[str, Any]] = lambda second: {}) -> None:
        writer = TelemetryWriter(lake, "n1", rotation=Rotation(flush_s=0.01))
        writer.start()
        begin = int(session.started_at.timestamp() * 1_000_000)
        about: dict[str, Any] = {"session": str(session.pk), "stream": session.stream_id, "node": "n1"}
        seen = range(seconds)
        writer.samples([sample(each, at_us=begin + each * 10**6, **about, **fields(each)) for each in seen])
        writer.close()

    return write


def answers(client: Client, session: Session) -> dict[int, tuple[str, str]]:
    """By their number: (what it says, its detail)."""
    page = client.get(f"/sessions/{session.pk}/")
    assert page.status_code == 200
    return {number: (one.text, one.detail) for number, one in enumerate(page.context["findings"], 1)}


def up(name: str = "n1") -> None:
    Node.objects.filter(name=name).update(seen_at=timezone.now(), state="up")


def lost(stream: Stream, **fields: Any) -> Session:
    why = {"end_reason": "tcp_reset", "end_description": "The encoder's side closed TCP."}
    return make_session(stream, age_s=120, ended_ago_s=0.0, **why, **fields)


def test_ended_session_shows_end_reason_and_last_minute(viewer: Client, stream: Stream, measured: Measure) -> None:
    session = lost(stream)
    measured(session, 120, lambda second: {"video_kbps": 3800.0 if second < 100 else 1220.0, "audio_kbps": 100.0,
                                           "rtt_ms": 480.0 if second > 110 else 40.0})  # fmt: skip
    said = answers(viewer, session)
    assert said[2] == (
        "Connection reset",
        "The encoder's side closed TCP. In the last 60\u00a0s the total bitrate fell from 3,900 to 1,320\u00a0kbit/s "
        "and the RTT rose to 480\u00a0ms.",
    )
    assert said[6][0] == "Lower the bitrate, or use wired Ethernet"


@pytest.mark.both_forms
def test_session_page_says_stream_is_back_with_same_key_and_address(viewer: Client, stream: Stream) -> None:
    key = StreamKey.objects.create(stream=stream, label="Main OBS", digest="d", max_kbps=8000)
    session = make_session(stream, age_s=600, ended_ago_s=338, key=key, end_reason="tcp_reset")
    later = make_session(stream, age_s=300, key=key)
    put_node(snapshot(stream, session_id=str(later.pk), health="bad"))
    said = answers(viewer, session)
    assert said[1][0] == f"Yes, since {later.started_at:%H:%M:%S}, but bad"
    assert said[1][1] == "Off for 38\u00a0s, then the same key and the same address."
    assert said[4] == ("None of these", "Main OBS is enabled, has no expiry, and stayed under its 8,000 kbit/s.")
    assert said[5][1].endswith("was accepted.")
    assert said[6][0] == "Open the stream"


def test_session_page_says_stream_is_off_air_or_ended_again(viewer: Client, stream: Stream) -> None:
    session = make_session(stream, age_s=600, ended_ago_s=240, end_reason="idle_timeout")
    assert answers(viewer, session)[1][0] == "No, off air for 4\u00a0min 0\u00a0s"
    again = make_session(stream, age_s=200, ended_ago_s=100, end_reason="tcp_reset", address="192.0.2.99")
    assert answers(viewer, session)[1] == (
        "No, it came back and ended again",
        f"It came back at {again.started_at:%H:%M:%S} with another address, 192.0.2.99, and ended again.",
    )


@pytest.mark.both_forms
def test_session_page_says_whether_one_encoder_several_or_the_node_failed(viewer: Client, stream: Stream) -> None:
    session = lost(stream)
    up()
    make_session(make_stream("other"), age_s=500)
    make_session(make_stream("third"), age_s=500)
    put_node()
    said = answers(viewer, session)[3]
    assert said == ("Only this one", "2 other encoders on n1 kept running. It is up; CPU 12 %, disk 60 % free.")
    Session.objects.filter(name="other").update(ended_at=timezone.now() - timedelta(seconds=10))
    said = answers(viewer, session)[3]
    assert said[0] == "Several at once"
    assert said[1].startswith("1 other encoder on n1 ended within 30 s of it. 1 other encoder on n1 kept running.")
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
        ({"expires_at": datetime.fromisoformat("2026-01-02T03:04+00:00")}, "It has expired", "Extend the key"),
        ({"max_kbps": 1000}, "Over its limit", "Set the bitrate below the key's limit"),
    ],
)
def test_session_page_explains_an_unusable_key(
    viewer: Client, stream: Stream, measured: Measure, fields: dict[str, Any], says: str, act: str
) -> None:
    session = lost(stream, key=StreamKey.objects.create(stream=stream, label="Main OBS", digest="d", **fields))
    up()
    measured(session, 120)
    said = answers(viewer, session)
    assert (said[4][0], said[6][0]) == (says, act)


def test_session_page_counts_attempts_rejected_since_the_end(viewer: Client, stream: Stream) -> None:
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
        "It tries to reconnect and is refused: busy. Stop the other encoder, or let a newer encoder replace it.",
    )


def test_live_session_advises_on_its_worst_issue(viewer: Client, stream: Stream) -> None:
    session = make_session(stream, age_s=60)
    advice = "Set the keyframe interval to 2 s."
    far = issue("gop_long", "warning", since=1.0, title="Keyframe interval 8.0 s (limit 4 s)", advice=advice)
    late = far | {"check": "drift", "since": 0.5, "title": "Media is late"}
    put_node(snapshot(stream, session_id=str(session.pk), health="warning", issues=[late, far]))
    said = answers(viewer, session)
    assert said[1][0] == "It is on air: warning"
    assert said[2][0] == "2 open issues"
    assert said[2][1].startswith("Media is late. Keyframe interval 8.0 s (limit 4 s). ")
    assert said[6] == ("Lower the bitrate", "Media is late. Set the keyframe interval to 2 s.")


def test_target_bitrate_defaults_to_encoder_metadata_if_stream_sets_none(viewer: Client, stream: Stream) -> None:
    session = make_session(stream, summary={"metadata": {"videodatarate": 1200}})
    assert viewer.get(f"/sessions/{session.pk}/").context["boot"]["target"] == 1200
    stream.target_kbps = 900
    stream.save()
    assert viewer.get(f"/sessions/{session.pk}/").context["boot"]["target"] == 900


def test_timeline_data_has_lanes_gaps_downsampling_and_ranges(
    viewer: Client, stream: Stream, measured: Measure
) -> None:
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
    part = viewer.get(f"/sessions/{session.pk}/data", {"from": str(start + 25), "until": str(start + 65)}).json()
    lanes = part["lanes"]
    assert [round(at - start) for at in lanes["range"]] == [25, 65]
    spans = [(round(span["from"] - start), round(span["to"] - start), span["level"]) for span in lanes["health"]]
    assert spans == [(25, 40, "warning"), (40, 60, "bad"), (60, 65, "warning")]
    assert [span["level"] for span in lanes["state"]] == ["live", "off", "live"]
    assert (lanes["status"], lanes["operator"]) == ([], [])
    assert (len(part["at"]), part["events"][0]["code"]) == (40, "starving")
    for first, last in (("x", "y"), (str(start + 65), str(start + 25)), ("nan", "inf")):
        whole = viewer.get(f"/sessions/{session.pk}/data", {"from": first, "until": last}).json()
        assert whole["lanes"]["range"] == data["lanes"]["range"]


@pytest.mark.both_forms
def test_a_moment_of_a_stream_leads_to_the_session_of_then(viewer: Client, stream: Stream) -> None:
    former = make_session(stream, age_s=600, ended_ago_s=500, end_reason="tcp_reset")
    latest = make_session(stream, age_s=100)
    for at, session in ((former.started_at, former), (latest.started_at, latest)):
        answer = viewer.get("/streams/live/cam-1/", {"at": zones.instant(at + timedelta(seconds=30))})
        assert answer["Location"] == f"/sessions/{session.pk}/?at={at + timedelta(seconds=30):%Y-%m-%dT%H:%M:%SZ}"
    for none in ("2020-01-01T00:00:00Z", "then"):
        assert viewer.get("/streams/live/cam-1/", {"at": none}).status_code == 200


@pytest.mark.both_forms
def test_samples_and_events_come_as_files(viewer: Client, stream: Stream, measured: Measure) -> None:
    session = lost(stream)
    measured(session, 30)
    StatusEvent.objects.create(session=session, sequence=1, kind="onstatus", detail={"a": 1}, description="=x")
    rows = csv_rows(viewer.get(f"/sessions/{session.pk}/samples.csv"))
    assert (len(rows), rows[0]["video_kbps"], rows[0]["health"]) == (30, "2000.0", "good")
    assert "video_kbps_min" not in rows[0]
    token = api_token()
    listing = Client().get(f"/api/v1/sessions/{session.pk}/samples", {"points": 10}, headers=token).json()
    assert 2 <= len(listing["at"]) <= 10
    assert listing["totals"]["samples"] == 30
    answer = Client().get(f"/api/v1/sessions/{session.pk}/samples", {"format": "csv"}, headers=token)
    assert answer["Content-Type"].startswith("text/csv")
    query = f"/api/v1/sessions/{session.pk}/samples?format=csv&points=10"
    row, *others = csv_rows(Client().get(query, headers=token))
    assert len(others) == len(listing["at"]) - 1
    assert [row[f"video_kbps{end}"] for end in ("", "_min", "_max")] == ["2000.0"] * 3
    assert [name for name in row if name.startswith("players")] == ["players", "players_min", "players_max"]
    events = Client().get(f"/api/v1/sessions/{session.pk}/events", {"format": "csv"}, headers=token)
    (row,) = csv_rows(events)
    assert (row["kind"], row["description"], json.loads(row["detail"])) == ("onstatus", "'=x", {"a": 1})
    assert viewer.get(f"/api/v1/sessions/{session.pk}/samples", {"points": 1}).status_code == 422


@pytest.mark.both_forms
def test_the_api_s_list_has_the_page_s_filters(viewer: Client, stream: Stream) -> None:
    key = StreamKey.objects.create(stream=stream, label="Main OBS", digest="d")
    about = {"end_reason": "kicked", "is_test": True, "protocol": "rtmps"}
    session = make_session(stream, age_s=500, ended_ago_s=400, key=key, **about)
    make_session(stream)
    query = {"stream": "cam", "key": "main", "node": "n1", "reason": "kicked", "encoder": "obs", "test": "true"}
    query["protocol"] = "rtmps"
    listing = viewer.get("/api/v1/sessions", query).json()
    assert [item["id"] for item in listing["items"]] == [str(session.pk)]
    for name in query:
        assert viewer.get("/api/v1/sessions", {name: query[name]}).json()["count"] >= 1
    assert viewer.get("/api/v1/sessions", {"reason": "nothing"}).status_code == 422


@pytest.mark.both_forms
def test_note_and_acknowledgement_are_stored_with_their_session(operator: Client, stream: Stream) -> None:
    session = lost(stream)
    make_session(stream, age_s=5)
    assert operator.post(f"/sessions/{session.pk}/note", {"note": "Someone uploads there."}).status_code == 302
    assert operator.post(f"/sessions/{session.pk}/acknowledge", {"note": ""}).status_code == 302
    assert operator.post(f"/sessions/{session.pk}/acknowledge", {"note": "again"}).status_code == 302
    kinds = list(StatusEvent.objects.filter(session=session).values_list("kind", "code", "detail__by"))
    assert kinds == [("operator.note", "", "omar"), ("operator.ack", "session.ended", "omar")]
    assert audited("action", "actor", "session") == [
        ("session.note", "omar", session.pk),
        ("session.acknowledge", "omar", session.pk),
    ]
    assert "Acknowledged by omar" in operator.get(f"/sessions/{session.pk}/").content.decode()
    empty = operator.post(f"/sessions/{session.pk}/note", {"note": " "}, headers={"Accept": "application/json"})
    assert (empty.status_code, empty.json()) == (409, {"detail": "The note is empty."})
    going_on = make_session(stream)
    answer = operator.post(f"/sessions/{going_on.pk}/acknowledge", headers={"Accept": "application/json"})
    assert answer.status_code == 409, "what is open is acknowledged at its stream"


def test_viewer_is_not_offered_acknowledgement(viewer: Client, stream: Stream) -> None:
    assert 'class="ack"' not in text_of(viewer, f"/sessions/{lost(stream).pk}/")
    assert viewer.get("/sessions/6ba7b810-9dad-11d1-80b4-00c04fd430c8/").status_code == 404


def test_player_session_page_shows_end_and_links_to_its_publisher(viewer: Client, stream: Stream) -> None:
    publisher = make_session(stream, age_s=600)
    about: dict[str, Any] = {"age_s": 300, "ended_ago_s": 10, "kind": "play"}
    play = make_session(stream, end_reason="too_slow", bytes_out=9_000_000, summary={"dropped_frames": 42}, **about)
    text = text_of(viewer, f"/sessions/{play.pk}/")
    assert "Too slow" in text
    left = make_session(stream, end_reason="client_unpublish", **about)
    for path in (f"/sessions/{left.pk}/", "/sessions/?kind=play", "/nodes/n1/"):
        assert "Player left" in viewer.get(path).content.decode()
    assert f"/sessions/{publisher.pk}/" in text
    assert "First questions" not in text
    assert f"/sessions/{play.pk}/" in viewer.get(f"/sessions/{publisher.pk}/").content.decode()
    assert viewer.get(f"/sessions/{play.pk}/data").json()["at"] == []


def test_hls_session_shows_join_time_and_stalls(viewer: Client, stream: Stream) -> None:
    about: dict[str, Any] = {"age_s": 300, "ended_ago_s": 10, "kind": "play", "protocol": "hls"}
    told = {"join_ms": 1240, "stalls": 3, "stalled_ms": 4200, "watched_ms": 275_800}
    page, other = make_session(stream, summary=told, **about), make_session(stream, **about)
    text = strip_tags(text_of(viewer, f"/sessions/{page.pk}/")).replace("&nbsp;", " ")
    for words in ("1.2 s", "1.5 %", "3 times, 4.2 s; played for 276 s", "HLS"):
        assert words in text
    assert "its player told nothing" in text_of(viewer, f"/sessions/{other.pk}/")
    assert "told at its end" in text_of(viewer, f"/sessions/{make_session(stream, kind='play', protocol='hls').pk}/")
    headers = api_token()
    for row, expected in ((page, told), (other, dict.fromkeys(told))):
        item = viewer.get(f"/api/v1/sessions/{row.pk}", headers=headers).json()
        assert {name: item[name] for name in ("protocol", *told)} == {"protocol": "hls"} | expected
    table = csv_rows(viewer.get("/sessions/export.csv", {"kind": "play", "protocol": "hls", "state": "ended"}))
    lines = {line["id"]: (line["protocol"], line["join_ms"], line["watched_ms"]) for line in table}
    assert lines == {str(page.pk): ("hls", "1240", "275800"), str(other.pk): ("hls", "", "")}


def test_unknown_totals_of_a_lost_node_are_null_instead_of_zero(viewer: Client, stream: Stream) -> None:
    """Its node died: until its samples have told what it counted, or for good."""
    row = make_session(stream, age_s=300, ended_ago_s=200, end_reason="node_lost")
    assert "unknown: the server went down" in viewer.get(f"/sessions/{row.pk}/").content.decode()
    headers = api_token()
    told = viewer.get(f"/api/v1/sessions/{row.pk}", headers=headers).json()
    totals = ("bytes_in", "bytes_out", "video_frames", "audio_frames", "keyframes")
    assert {name: told[name] for name in totals} == dict.fromkeys(totals)
    Session.objects.update(bytes_in=5_000_000, keyframes=30, summary={"duration_ms": 99_000, "from_samples": True})
    text = viewer.get(f"/sessions/{row.pk}/").content.decode()
    assert "not known" not in text
    assert "30 keyframes, by its samples" in text
    assert viewer.get(f"/api/v1/sessions/{row.pk}", headers=headers).json()["bytes_in"] == 5_000_000


def test_session_comparison_marks_differing_facts(viewer: Client, stream: Stream) -> None:
    a = make_session(stream, age_s=700, ended_ago_s=600, bytes_in=10**8, video_codec="H.264", encoder="OBS 30")
    b = make_session(stream, age_s=500, ended_ago_s=400, bytes_in=10**8, video_codec="H.264", encoder="FFmpeg")
    page = viewer.get("/sessions/compare/", {"a": str(a.pk), "b": str(b.pk)})
    facts = {fact.name: fact for fact in page.context["pair"].facts}
    assert facts["Encoder"].differs
    assert not facts["Video"].differs
    assert not facts["Mean bitrate, audio and video"].differs
    assert facts["Duration"].a == "1\u00a0min 40\u00a0s"
    live = make_session(stream, age_s=300, summary={"metadata": {"videodatarate": 1171.875}})
    page = viewer.get("/sessions/compare/", {"a": str(a.pk), "b": str(live.pk)})
    facts = {fact.name: fact for fact in page.context["pair"].facts}
    assert (facts["Data"].b, facts["Data"].differs) == ("known when it ends", False)
    assert facts["Video bitrate setting"].b == "1,172\u00a0kbit/s"
    for query in ({}, {"a": str(a.pk)}, {"a": "x", "b": "y"}):
        assert "Choose two sessions" in viewer.get("/sessions/compare/", query).content.decode()


def test_session_pages_show_only_the_prefix_of_a_key(viewer: Client, stream: Stream) -> None:
    key = StreamKey.objects.create(stream=stream, label="", digest="feedface" * 8, prefix="rk_7Qd4")
    session = lost(stream, key=key)
    for path in (f"/sessions/{session.pk}/", "/sessions/"):
        text = viewer.get(path).content.decode()
        assert "rk_7Qd4" in text
        assert "feedface" not in text


@pytest.mark.parametrize(
    ("known", "action"),
    [
        ({"reason": "tcp_reset", "seen": "falling"}, "Lower the bitrate, or use wired Ethernet"),
        ({"reason": "tcp_reset", "seen": "silent"}, "Check the encoder, then its uplink"),
        ({"reason": "tcp_reset", "seen": "far"}, "Check the network on the way"),
        ({"reason": "tcp_reset", "seen": "slow"}, "Reduce the encoder's load"),
        ({"reason": "tcp_reset", "seen": "steady"}, "Call the venue and restart the encoder"),
        ({"reason": "idle_timeout", "seen": "nothing"}, "Check that the encoder is running"),
        ({"reason": "tcp_reset", "seen": "falling", "back": "good"}, "Nothing"),
        ({"reason": "tcp_reset", "seen": "falling", "back": "bad"}, "Open the stream"),
        ({"reason": "tcp_reset", "seen": "falling", "back": "again_off"}, "Lower the bitrate, or use wired Ethernet"),
        ({"reason": "tcp_reset", "seen": "falling", "node": "down"}, "Bring the node back"),
        ({"reason": "node_shutdown", "node": "draining"}, "Point the encoder at another node"),
        ({"reason": "node_shutdown", "node": "up"}, "Wait a minute"),
        ({"reason": "node_lost", "node": "down", "back": "good"}, "Nothing"),
        ({"reason": "key_revoked", "key": "revoked"}, "Give out another key"),
        ({"reason": "key_revoked", "key": "fine"}, "Give the encoder another key"),
        ({"reason": "tcp_reset", "key": "disabled"}, "Enable the key"),
        ({"reason": "tcp_reset", "key": "expired", "back": "good"}, "Nothing"),
        ({"reason": "tcp_reset", "key": "expired", "refused": ""}, "Extend the key"),
        ({"reason": "tcp_reset", "key": "over_limit"}, "Set the bitrate below the key's limit"),
        ({"reason": "over_limit", "key": "fine"}, "Lower the bitrate, or raise the limit"),
        ({"reason": "tcp_reset", "refused": "busy"}, "Let it in again"),
        ({"reason": "tcp_reset", "refused": "busy", "back": "good"}, "Nothing"),
        ({"reason": "tcp_reset", "refused": "busy", "node": "down"}, "Bring the node back"),
        ({"reason": "kicked"}, "Decide whether it may come back"),
        ({"reason": "replaced", "back": "bad"}, "Open the stream"),
        ({"reason": "client_unpublish"}, "Nothing, if this was meant"),
        ({"reason": "", "back": "on"}, "Nothing"),
        ({"reason": "", "back": "on", "issue": issue("bitrate_low")}, "Lower the bitrate, or use wired Ethernet"),
        ({"reason": "", "back": "on", "issue": issue("a_new_one")}, "Open the stream"),
    ],
)
def test_session_advice_follows_reason_and_situation(known: dict[str, Any], action: str) -> None:
    assert advise(Situation(**known)).action == action


def test_every_check_has_an_action_and_every_end_an_advice() -> None:
    assert set(CHECK_ACTIONS) == {check.code for check in CHECKS}
    of_players = {"completed", "elsewhere", "too_slow", "unreadable", "unsupported_codec"}
    for reason in set(END_REASONS) - of_players:
        advice = advise(Situation(reason=reason))
        assert advice != OTHERWISE, reason
        assert advice.why.endswith("."), reason


def test_every_advice_rule_is_reachable() -> None:
    """None is hidden by one before it: it is the first that fits something that it names."""
    for rule in RULES:
        found = [
            Situation(reason=reason, seen=seen, key=key, node=node, back=back)  # type: ignore[arg-type]
            for reason in rule.reason or ("", *END_REASONS)
            for seen in rule.seen or ("nothing", "steady")
            for key in rule.key or ("fine",)
            for node in rule.node or ("up",)
            for back in rule.back or ("off",)
        ]
        assert any(advise(situation).action == rule.action for situation in found), rule.action


def minute(**columns: Any) -> Series:
    """60 samples; a column is a value, or (before, after) the 50th."""
    values: dict[str, list[float | None]] = {}
    for name in GAUGES:
        given = columns.get(name, {"video_kbps": 3800.0, "audio_kbps": 100.0, "fps": 30.0, "idle_ms": 10.0}.get(name))
        before, after = given if isinstance(given, tuple) else (given, given)
        values[name] = [before] * 50 + [after] * 10
    total = [(a or 0) + (v or 0) for a, v in zip(values["audio_kbps"], values["video_kbps"], strict=True)]
    totals = SeriesTotals(samples=60, measured_s=60.0, mean_kbps=sum(total) / 60)
    return Series(at=[float(second) for second in range(60)], values=values, health=["good"] * 60, totals=totals)


@pytest.mark.parametrize(
    ("columns", "seen", "words"),
    [
        (
            {"video_kbps": (3800.0, 1220.0), "rtt_ms": (40.0, 480.0)},
            "falling",
            "the total bitrate fell from 3,900 to 1,320 kbit/s and the RTT rose to 480 ms",
        ),
        ({}, "steady", "the total bitrate was steady at 3,900 kbit/s"),
        ({"video_kbps": (3800.0, 4400.0)}, "steady", "the total bitrate was steady at 4,000 kbit/s"),
        (
            {"video_kbps": (3000.0, 5000.0)},
            "steady",
            "the total bitrate was 3,430 on average, at the end 5,100 kbit/s",
        ),
        ({"idle_ms": (10.0, 7000.0)}, "silent", "nothing was received for the last 7 s"),
        ({"rtt_ms": 300.0}, "far", "the total bitrate was steady at 3,900 kbit/s and the RTT rose to 300 ms"),
        (
            {"fps": (30.0, 20.0)},
            "slow",
            "the total bitrate was steady at 3,900 kbit/s and the frame rate was only 20.0 fps",
        ),
        ({"video_kbps": 1000.0}, "falling", "the total bitrate was low, 1,100 kbit/s"),
    ],
)
def test_the_last_minute_in_a_sentence(columns: dict[str, Any], seen: str, words: str) -> None:
    found = summarize_last_minute(minute(**columns), target_kbps=4000, nominal_fps=30)
    assert found.seen == seen
    assert found.sentence.replace("\u00a0", " ") == f"In the last 60 s {words}."


def test_last_minute_without_samples_says_nothing_was_measured() -> None:
    assert summarize_last_minute(Series()) == LastMinute()
    assert LastMinute().sentence == "Nothing was measured of its last minute."
