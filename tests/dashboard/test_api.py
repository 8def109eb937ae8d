"""The API: shapes, filters, pages, errors. Field names are a contract with scripts, so they are written out here."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from django.utils import timezone

from ingest import live_store
from ingest.live_store import get_livestore
from ingest.models import Application, Attempt, StatusEvent, Stream
from ingest.services import play_tokens
from tests.dashboard.conftest import api_token, figures, make_session, make_stream, make_user, snapshot

STREAM = {"app", "name", "state", "health", "players", "session_id"}
METRICS = {
    *("video_kbps", "audio_kbps", "wire_kbps", "out_kbps", "fps", "fps_media", "keyframe_interval", "open_gop_age"),
    *("drift", "drift_dev", "av_skew", "ts_gap", "ts_regress", "missing_frames_est", "media_faults"),
    *("timestamp_repairs", "idle_ms", "rtt_ms", "retrans"),
}
SESSION = {
    *("id", "kind", "app", "name", "address", "encoder", "started_at", "ended_at", "end_reason", "video_codec"),
    *("audio_codec", "width", "height", "bytes_in", "bytes_out", "video_frames", "audio_frames", "keyframes"),
}
EVENT = {"sequence", "at", "kind", "level", "code", "description", "detail"}
ATTEMPT = {"at", "action", "app", "name", "address", "reason", "description"}


def get(client: Client, path: str, **query: Any) -> Any:
    answer = client.get(f"/api/v1{path}", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def ids(listing: Any) -> list[str]:
    return [item["id"] for item in listing["items"]]


def put(*snapshots: Any) -> None:
    async_to_sync(get_livestore().put_node)(figures(), snapshots)


# --- Streams ---


def test_all_streams_are_listed_and_the_live_ones_have_metrics(viewer: Client, stream: Stream) -> None:
    make_stream("cam-2")
    put(snapshot(stream))
    listing = get(viewer, "/streams")
    assert listing["count"] == 2
    idle, live = listing["items"]
    assert (idle["name"], idle["state"], idle["health"], idle["players"]) == ("cam-2", "offline", "none", 0)
    assert idle["session_id"] is None
    assert all(idle[name] is None for name in METRICS)
    assert live.keys() >= STREAM | METRICS
    assert live["session_id"] == "5ffb6b56-4c9a-4f7e-93a1-0f6c3a1f6f01"
    assert (live["state"], live["video_kbps"], live["fps"], live["players"]) == ("live", 2480.5, 29.97, 3)
    assert (live["video_codec"], live["width"]) == ("H.264", 1280)
    assert live["since"] == "2023-11-14T22:13:20Z"


def test_a_live_stream_says_what_its_headers_tell(viewer: Client, stream: Stream) -> None:
    media = {
        "video_codec": "H.265",
        "video_codec_string": "hvc1.2.4.L93.B0",
        "width": 1280,
        "height": 720,
        "profile": "Main 10",
        "level": "3.1",
        "bit_depth": 10,
        "frame_rate": 29.97,
        "audio_codec": "Opus",
        "audio_codec_string": "opus",
        "sample_rate": 48000,
        "channels": 2,
        "tracks": [{"kind": "audio", "track": 1, "codec": "AAC"}],
    }
    put(snapshot(stream, media=media, media_faults=3, timestamp_repairs=2))
    found = get(viewer, f"/streams/{stream.path}")
    assert {name: found[name] for name in media} == media
    assert (found["media_faults"], found["timestamp_repairs"]) == (3, 2)
    newer = ("media_faults", "timestamp_repairs")
    put({name: value for name, value in snapshot(stream).items() if name not in newer})
    found = get(viewer, f"/streams/{stream.path}")
    assert (found["tracks"], found["level"], found["media_faults"]) == ([], None, None), "a node before this version"


def test_a_stream_says_its_issues(viewer: Client, stream: Stream) -> None:
    issue = {
        "check": "starving",
        "level": "bad",
        "since": 1_700_000_100.5,
        "actual": "7 s",
        "expected": "5 s at most",
        "title": "Nothing has arrived for 7 s",
        "advice": "Check that the encoder is running.",
    }
    figures = {"value": 7.0, "limit": 5.0, "unit": "s"}
    put(snapshot(stream, health="bad", issues=[issue | figures]))
    body = get(viewer, "/streams/live/cam-1")
    assert body["health"] == "bad"
    assert body["issues"] == [issue | figures | {"since": "2023-11-14T22:15:00.500Z"}]
    put(snapshot(stream, health="bad", issues=[issue]))
    (found,) = get(viewer, "/streams/live/cam-1")["issues"]
    assert (found["value"], found["limit"], found["unit"]) == (None, None, ""), "a node before this version"


def test_a_node_that_went_silent_shows_nothing_live(viewer: Client, stream: Stream) -> None:

    now = [100.0]
    live_store._store = live_store.MemoryLiveStore(clock=lambda: now[0])
    put(snapshot(stream))
    assert get(viewer, "/streams/live/cam-1")["state"] == "live"
    now[0] += 5.1
    assert get(viewer, "/streams/live/cam-1")["state"] == "offline"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["d", "c", "b", "a"]),
        ({"app": "other"}, ["d"]),
        ({"name": "b"}, ["b"]),
        ({"state": "live"}, ["b", "a"]),
        ({"state": "waiting"}, ["c"]),
        ({"state": "offline"}, ["d"]),
        ({"health": "bad"}, ["b"]),
        ({"health": "none"}, ["d", "c"]),
        ({"state": "live", "health": "good"}, ["a"]),
        ({"state": "offline", "health": "good"}, []),
        ({"limit": 2}, ["d", "c"]),
        ({"limit": 2, "offset": 1}, ["c", "b"]),
        ({"offset": 9}, []),
    ],
)
def test_streams_are_filtered_and_paged(viewer: Client, query: dict[str, Any], names: list[str]) -> None:
    rows = {name: make_stream(name, "other" if name == "d" else "live") for name in "abcd"}
    put(
        snapshot(rows["a"]),
        snapshot(rows["b"], health="bad"),
        snapshot(rows["c"], state="waiting", health="none"),
    )
    listing = get(viewer, "/streams", **query)
    assert [item["name"] for item in listing["items"]] == names
    unpaged = {key: value for key, value in query.items() if key not in ("limit", "offset")}
    assert listing["count"] == len(get(viewer, "/streams", **unpaged)["items"])


@pytest.mark.parametrize("name", ["cam.1", "a-b_c", "mira@home", "名前", "a+b", "semi;colon", "it's", "a:b,c=d"])
def test_a_name_may_hold_what_urls_and_people_hold(viewer: Client, name: str) -> None:
    make_stream(name)
    path = f"/live/{quote(name)}"
    assert get(viewer, f"/streams{path}")["name"] == name
    assert viewer.get(f"/streams{path}/").status_code == 200


def test_an_unknown_stream_or_session_is_404(viewer: Client, stream: Stream) -> None:
    nobody = "00000000-0000-0000-0000-000000000000"
    for path in ("/streams/live/none", "/streams/none/cam-1", f"/sessions/{nobody}", f"/sessions/{nobody}/events"):
        answer = viewer.get(f"/api/v1{path}")
        assert answer.status_code == 404
        assert answer.json().keys() == {"detail"}


# --- Sessions and events ---


def test_a_session_has_its_fields(viewer: Client, stream: Stream) -> None:
    row = make_session(
        stream,
        started_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
        ended_at=datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
        end_reason="kicked",
        video_codec="H.264",
        audio_codec="AAC",
        width=1920,
        height=1080,
        bytes_in=5_000_000_000,
        video_frames=54000,
        audio_frames=84000,
        keyframes=900,
    )
    body = get(viewer, f"/sessions/{row.pk}")
    assert body.keys() >= SESSION
    assert {name: body[name] for name in SESSION} == {
        "id": str(row.pk),
        "kind": "publish",
        "app": "live",
        "name": "cam-1",
        "address": "192.0.2.7",
        "encoder": "OBS 30",
        "started_at": "2026-03-01T12:00:00Z",
        "ended_at": "2026-03-01T12:30:00Z",
        "end_reason": "kicked",
        "video_codec": "H.264",
        "audio_codec": "AAC",
        "width": 1920,
        "height": 1080,
        "bytes_in": 5_000_000_000,
        "bytes_out": 0,
        "video_frames": 54000,
        "audio_frames": 84000,
        "keyframes": 900,
    }
    assert get(viewer, "/sessions") == {"items": [body], "count": 1}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [3, 2, 1, 0]),
        ({"kind": "play"}, [2]),
        ({"kind": "publish"}, [3, 1, 0]),
        ({"open": "true"}, [3, 2]),
        ({"open": "false"}, [1, 0]),
        ({"app": "live", "name": "cam-2"}, [3]),
        ({"name": "cam-1"}, [2, 1, 0]),
        ({"address": "198.51.100.1"}, [1]),
        ({"ended_within": 900}, [1]),
        ({"limit": 1}, [3]),
        ({"limit": 2, "offset": 1}, [2, 1]),
        ({"kind": "publish", "open": "true"}, [3]),
    ],
)
def test_sessions_are_newest_first_filtered_and_paged(
    viewer: Client, stream: Stream, query: dict[str, Any], expected: list[int]
) -> None:
    rows = [
        make_session(stream, age_s=7200, ended_ago_s=3600),
        make_session(stream, age_s=3000, ended_ago_s=600, address="198.51.100.1"),
        make_session(stream, age_s=120, kind="play"),
        make_session(make_stream("cam-2"), age_s=60),
    ]
    assert ids(get(viewer, "/sessions", **query)) == [str(rows[index].pk) for index in expected]


@pytest.mark.both_forms
def test_since_is_included_until_is_not_and_a_time_without_a_zone_is_utc(viewer: Client, stream: Stream) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rows = [make_session(stream, started_at=noon + timedelta(hours=hours)) for hours in range(3)]
    for since in ("2026-03-01T13:00:00Z", "2026-03-01T13:00", "2026-03-01T14:00:00+01:00"):
        assert ids(get(viewer, "/sessions", since=since, until="2026-03-01T14:00:00Z")) == [str(rows[1].pk)]


def test_events_of_a_session(viewer: Client, stream: Stream) -> None:
    row, other = make_session(stream), make_session(stream)
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for sequence in (1, 2, 3):
        StatusEvent.objects.create(session=row, sequence=sequence, at=at, kind="onstatus", detail={"n": sequence})
    StatusEvent.objects.create(session=other, sequence=1, kind="onstatus")
    listing = get(viewer, f"/sessions/{row.pk}/events", limit=2)
    assert listing["count"] == 3
    assert [event["sequence"] for event in listing["items"]] == [3, 2]
    assert listing["items"][0].keys() == EVENT
    assert listing["items"][0]["at"] == "2026-03-01T12:00:00Z"
    assert listing["items"][0]["detail"] == {"n": 3}


# --- Attempts ---


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
def test_attempts(viewer: Client, query: dict[str, Any], expected: list[str]) -> None:
    day = datetime(2026, 2, 28, 12, tzinfo=UTC)
    rows = [
        ("key_expired", "publish", "live", "cam-1", "192.0.2.7"),
        ("unknown_app", "connect", "nope", "", "198.51.100.1"),
        ("bad_key", "publish", "live", "rk_7Qd4…", "192.0.2.7"),
    ]
    for days, (reason, action, app, name, address) in enumerate(rows):
        Attempt.objects.create(
            at=day + timedelta(days=days), reason=reason, action=action, app=app, name=name, address=address
        )
    listing = get(viewer, "/attempts", **query)
    assert [item["reason"] for item in listing["items"]] == expected
    assert all((item["count"], item["last_at"]) == (1, item["at"]) for item in listing["items"])
    assert all(item.keys() >= ATTEMPT for item in listing["items"])


@pytest.mark.both_forms
def test_an_attempt_that_came_again(viewer: Client) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    Attempt.objects.create(
        at=noon, last_at=noon + timedelta(minutes=30), count=180, reason="key_unknown", action="publish", address="x"
    )
    (item,) = get(viewer, "/attempts", since="2026-03-01T12:29:00Z")["items"]
    assert (item["at"], item["last_at"], item["count"]) == ("2026-03-01T12:00:00Z", "2026-03-01T12:30:00Z", 180)
    assert get(viewer, "/attempts", since="2026-03-01T12:31:00Z")["items"] == []


# --- Bad input ---


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 1001},
        {"limit": "many"},
        {"offset": -1},
        {"offset": 10**30},
        {"since": "yesterday"},
        {"open": "perhaps"},
        {"kind": "watch"},
        {"name": "a" * 256},
        {"name": "nul\0"},
        {"ended_within": 10**12},
    ],
)
def test_what_can_not_be_understood_is_422_and_says_where(viewer: Client, query: dict[str, Any]) -> None:
    answer = viewer.get("/api/v1/sessions", query)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"][-1] == next(iter(query))


def test_a_session_id_that_is_none_is_422(viewer: Client) -> None:
    assert viewer.get("/api/v1/sessions/1").status_code == 422


# --- Kick ---

KICK = "/api/v1/streams/live/cam-1/kick"


def test_a_kick_asks_for_the_end_of_the_publisher_and_keeps_the_note(stream: Stream) -> None:
    make_session(stream, age_s=900, ended_ago_s=600)
    player, publisher = make_session(stream, kind="play"), make_session(stream)
    answer = Client().post(
        KICK, {"note": "wrong scene"}, content_type="application/json", headers=api_token("operator")
    )
    assert answer.status_code == 202
    assert answer.json()["session_id"] == str(publisher.pk)
    publisher.refresh_from_db()
    assert (publisher.stop_requested, publisher.stop_note) == (
        "kicked",
        "Ended by token operator-script: wrong scene.",
    )
    player.refresh_from_db()
    assert player.stop_requested == ""


def test_a_kick_may_be_for_one_session_only(operator: Client, stream: Stream) -> None:
    publisher = make_session(stream)
    other = json.dumps({"session_id": "00000000-0000-0000-0000-000000000000"})
    assert operator.post(KICK, other, content_type="application/json").status_code == 409
    publisher.refresh_from_db()
    assert publisher.stop_requested == ""
    same = json.dumps({"session_id": str(publisher.pk)})
    assert operator.post(KICK, same, content_type="application/json").status_code == 202


def test_a_kick_of_nobody_is_409_and_of_nothing_404(operator: Client, stream: Stream) -> None:
    make_session(stream, ended_ago_s=5)
    assert operator.generic("POST", KICK).status_code == 409
    assert operator.generic("POST", "/api/v1/streams/live/none/kick").status_code == 404
    assert operator.get(KICK).status_code == 405


def test_a_kick_by_session_needs_the_csrf_token_and_by_token_not(stream: Stream) -> None:
    make_session(stream)
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_user("operator"))
    assert browser.generic("POST", KICK).status_code == 403
    browser.get("/streams/live/cam-1/")
    headers = {"X-CSRFToken": browser.cookies["csrftoken"].value}
    assert browser.generic("POST", KICK, headers=headers).status_code == 202
    script = Client(enforce_csrf_checks=True)
    assert script.generic("POST", KICK, headers=api_token("operator")).status_code == 202


# --- Play tokens ---

TOKEN = "/api/v1/streams/live/cam-1/token"


def test_a_play_token_is_valid_for_the_stream_and_as_long_as_asked(operator: Client, stream: Stream) -> None:
    answer = operator.generic("POST", TOKEN)
    assert answer.status_code == 201
    made = answer.json()
    assert play_tokens.verify(token=made["token"], stream=stream.pk) == "valid"
    for name, scheme in (("play_url", "rtmp://"), ("flv_url", "http://"), ("ws_url", "ws://")):
        assert made[name].startswith(scheme)
        assert made[name].endswith(f"?token={made['token']}")
    hour = operator.post(TOKEN, {"hours": 1}, content_type="application/json").json()
    assert 3500 < (datetime.fromisoformat(hour["expires_at"]) - timezone.now()).total_seconds() <= 3600
    assert operator.post(TOKEN, {"hours": 0}, content_type="application/json").status_code == 422


def test_a_play_token_needs_a_role_a_stream_and_an_application_that_is_played(viewer: Client, stream: Stream) -> None:
    assert viewer.generic("POST", TOKEN).status_code == 403
    script = Client(headers=api_token("key manager"))
    assert script.generic("POST", "/api/v1/streams/live/none/token").status_code == 404
    assert script.generic("POST", TOKEN).status_code == 201
    Application.objects.update(play_policy=Application.PlayPolicy.NONE)
    assert script.generic("POST", TOKEN).status_code == 409


def test_times_are_utc_whatever_the_row_came_from(viewer: Client, stream: Stream) -> None:
    make_session(stream)
    started = get(viewer, "/sessions")["items"][0]["started_at"]
    assert started.endswith("Z")
    assert abs(datetime.fromisoformat(started) - timezone.now()) < timedelta(minutes=2)
