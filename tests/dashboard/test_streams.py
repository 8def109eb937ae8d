"""Streams as their pages and the API show them: rows joined with nodes' figures, what is live; streams of an instance,
whose names have a slash; and streams and applications that are disabled and deleted."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from dashboard.api import api
from dashboard.streams.queries import Now, by_stream
from ingest import live_store
from ingest.live_store import LiveView, get_livestore
from ingest.models import Application, Node, Recording, Session, StatusEvent, Stream
from ingest.models.names import NOT_WITHIN
from ingest.services import encoder_login, keys, play_tokens, removal
from tests.dashboard.conftest import audited, make_session, make_stream, put_node, snapshot
from tests.dashboard.sockets import sample
from tests.dashboard.test_api import METRICS, STREAM, get
from tests.dashboard.test_pages import block
from tests.ingest.removing import meanwhile
from tests.snapshots import figures, issue


@pytest.mark.both_forms
@pytest.mark.parametrize("order", [1, -1])
def test_stream_known_to_two_nodes_shows_the_publishing_node(stream: Stream, order: int) -> None:
    publisher = snapshot(stream, node="n1", state="live")
    players = snapshot(stream, node="n2", state="waiting", session_id=None)
    assert by_stream([publisher, players][::order]) == {stream.pk: publisher}


@pytest.mark.both_forms
def test_a_view_is_as_new_as_its_newest_node(stream: Stream) -> None:
    now = Now.of(LiveView([figures("n1", 100.0), figures("n2", 101.5)], []))
    assert now.at == 101.5
    assert now.of_stream(stream)["state"] == "offline"


@pytest.mark.stores
def test_while_redis_is_away_nothing_is_said_to_be_offline(viewer: Client, stream: Stream) -> None:
    live_store._store = live_store.RedisLiveStore("redis://127.0.0.1:1/0")
    answer = viewer.get("/api/v1/streams")
    assert answer.status_code == 503
    assert answer.json().keys() == {"detail", "items", "count"}


@pytest.mark.both_forms
def test_while_redis_is_away_a_web_process_is_healthy(client: Client, db: None) -> None:
    """Nobody is helped by a load balancer that takes all of them away: log-in, lists and history go on."""
    Node.objects.create(name="n1")
    live_store._store = live_store.RedisLiveStore("redis://127.0.0.1:1/0")
    answer = client.get("/healthz")
    health = answer.json()
    assert (answer.status_code, health["status"], health["nodes"]) == (200, "ok", None)


PAGE, API = "/streams/live/room/cam", "/api/v1/streams/live/room/cam"


@pytest.fixture
def inside(db: None) -> Stream:
    make_stream("room")  # Whose pages are not to be taken for the other's.
    return make_stream("room/cam")


def test_instance_stream_page_and_links_to_it_work(admin: Client, inside: Stream) -> None:
    session = make_session(inside)
    Recording.objects.create(application=inside.application, stream=inside, name="room/cam", file="a.flv")
    assert reverse("dashboard:stream", kwargs={"app": "live", "name": inside.name}) == f"{PAGE}/"
    for path in (f"{PAGE}/", "/recordings/", f"/sessions/{session.pk}/", "/sessions/?stream=live/room/cam"):
        answer = admin.get(path)
        assert answer.status_code == 200, path
        assert "live/room/cam" in answer.content.decode(), path
    assert admin.get("/streams/live/room%2Fcam/").status_code == 200, "as scripts write it"
    assert admin.get("/streams/live/room/none/").status_code == 404
    assert admin.post(f"{PAGE}/kick", {}, headers={"Accept": "application/json"}).status_code == 202
    session.refresh_from_db()
    assert session.stop_requested == "kicked"


def test_instance_stream_api_paths_work(admin: Client, inside: Stream) -> None:
    found = admin.get(API).json()
    assert (found["app"], found["name"]) == ("live", "room/cam")
    assert admin.get("/api/v1/streams/live/room").json()["name"] == "room"
    assert admin.get("/api/v1/streams?name=room/cam").json()["count"] == 1
    for path in ("samples", "mute"):
        for name in ("room/cam", "room"):
            assert admin.get(f"/api/v1/streams/live/{name}/{path}").status_code == 200
    made = admin.generic("POST", f"{API}/token").json()
    assert "/live/room/cam?token=" in made["play_url"]
    assert admin.get("/api/v1/streams/live/a/b/c").status_code == 404


def test_api_subpaths_of_a_stream_are_reserved_instance_names() -> None:
    """Else a path would have two meanings."""
    before = "/api/v1/streams/{app}/{name}/"
    behind = {
        path.removeprefix(before).partition("/")[0]
        for path in api.get_openapi_schema()["paths"]
        if path.startswith(before)
    }
    assert behind == NOT_WITHIN


def test_api_creates_a_key_for_an_instance_stream(admin: Client, inside: Stream) -> None:
    made = admin.post("/api/v1/keys", {"app": "live", "name": "hall/cam"}, content_type="application/json")
    assert made.status_code == 201
    assert made.json()["server"].endswith("/live/hall")
    found = keys.find(secret=made.json()["key"])
    assert found is not None
    assert found.stream.path == "live/hall/cam"
    for name in ("a/b/c", "-a/b", "room/kick"):
        refused = admin.post("/api/v1/keys", {"app": "live", "name": name}, content_type="application/json")
        assert refused.status_code == 422, name


def test_instance_streams_beyond_the_limit_are_refused(admin: Client, inside: Stream, admin_client: Client) -> None:
    Application.objects.update(max_instances=1)
    wish: dict[str, Any] = {"app": "live", "name": "hall/cam"}
    refused = admin.post("/api/v1/keys", wish, content_type="application/json")
    assert (refused.status_code, "--max-instances" in refused.json()["detail"]) == (422, True)
    form = {"application": inside.application.pk, "name": "hall/cam", "takeover": "reject"}
    form |= {"idle_timeout_s": 10, "first_media_timeout_s": 20}
    form |= {f"health_overrides-{name}": 0 for name in ("TOTAL_FORMS", "INITIAL_FORMS")}
    page = admin_client.post("/admin/ingest/stream/add/", form)
    assert page.status_code == 200
    assert "max-instances" in page.content.decode()
    assert not Stream.objects.filter(name="hall/cam").exists()


def test_all_streams_are_listed_and_the_live_ones_have_metrics(viewer: Client, stream: Stream) -> None:
    make_stream("cam-2")
    put_node(snapshot(stream))
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
    put_node(snapshot(stream, media=media, media_faults=3, timestamp_repairs=2))
    found = get(viewer, f"/streams/{stream.path}")
    assert {name: found[name] for name in media} == media
    assert (found["media_faults"], found["timestamp_repairs"]) == (3, 2)
    newer = ("media_faults", "timestamp_repairs")
    put_node({name: value for name, value in snapshot(stream).items() if name not in newer})
    found = get(viewer, f"/streams/{stream.path}")
    assert (found["tracks"], found["level"], found["media_faults"]) == ([], None, None), "a node before this version"


def test_a_stream_says_its_issues(viewer: Client, stream: Stream) -> None:
    starving = issue(since=1_700_000_100.5)
    put_node(snapshot(stream, health="bad", issues=[starving]))
    body = get(viewer, "/streams/live/cam-1")
    assert body["health"] == "bad"
    assert body["issues"] == [{**starving, "since": "2023-11-14T22:15:00.500Z"}]
    former = {name: value for name, value in starving.items() if name not in {"value", "limit", "unit"}}
    put_node(snapshot(stream, health="bad", issues=[former]))
    (found,) = get(viewer, "/streams/live/cam-1")["issues"]
    assert (found["value"], found["limit"], found["unit"]) == (None, None, ""), "a node before this version"


def test_a_node_that_went_silent_shows_nothing_live(viewer: Client, stream: Stream) -> None:

    now = [100.0]
    live_store._store = live_store.MemoryLiveStore(clock=lambda: now[0])
    put_node(snapshot(stream))
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
    put_node(
        snapshot(rows["a"]), snapshot(rows["b"], health="bad"), snapshot(rows["c"], state="waiting", health="none")
    )
    listing = get(viewer, "/streams", **query)
    assert [item["name"] for item in listing["items"]] == names
    unpaged = {key: value for key, value in query.items() if key not in ("limit", "offset")}
    assert listing["count"] == len(get(viewer, "/streams", **unpaged)["items"])


@pytest.mark.parametrize("name", ["cam.1", "a-b_c", "mira@home", "名前", "a+b", "semi;colon", "it's", "a:b,c=d"])
def test_stream_name_with_special_characters_is_reachable(viewer: Client, name: str) -> None:
    make_stream(name)
    path = f"/live/{quote(name)}"
    assert get(viewer, f"/streams{path}")["name"] == name
    assert viewer.get(f"/streams{path}/").status_code == 200


def test_a_streams_page_shows_the_whole_picture_at_once(viewer: Client, stream: Stream) -> None:
    session = make_session(stream)
    for sequence in range(1, 61):
        StatusEvent.objects.create(session=session, sequence=sequence, kind="onstatus", code="NetStream.Publish.Start")
    put_node(snapshot(stream, metadata={"videodatarate": float("nan")}))
    for one in (sample(1000.0), sample(1001.0, fps=None)):
        async_to_sync(get_livestore().append_samples)({stream.pk: one})
    boot = block(viewer, "/streams/live/cam-1/", "boot")
    assert boot["kind"] == "snapshot"
    assert boot["stream"]["video_kbps"] == 2480.5
    assert boot["stream"]["metadata"] == {"videodatarate": None}
    assert boot["samples"]["at"] == [1000.0, 1001.0]
    assert boot["samples"]["fps"] == [30.0, None]
    assert [event["sequence"] for event in boot["events"]] == list(range(60, 10, -1))
    assert boot["events"][0]["session_id"] == str(session.pk)


def test_session_of_an_encoder_login_shows_its_label_and_no_secret(viewer: Client, stream: Stream) -> None:
    made = encoder_login.create(stream=stream, user="bob", label="van")
    make_session(stream, login=made.login)
    page = viewer.get("/streams/live/cam-1/").content.decode()
    assert page.count("van (bob)") == 2
    for secret in (made.password, made.login.salt, made.login.adobe, made.login.llnw):
        assert secret not in page


def test_an_offline_streams_page_says_so(viewer: Client, stream: Stream) -> None:
    boot = block(viewer, "/streams/live/cam-1/", "boot")
    assert (boot["stream"]["state"], boot["stream"]["video_kbps"]) == ("offline", None)
    assert boot["events"] == []


@pytest.mark.parametrize("path", ["/streams/live/none/", "/streams/none/cam-1/", "/streams/live/cam-1/more/"])
def test_an_unknown_stream_is_404(viewer: Client, stream: Stream, path: str) -> None:
    assert viewer.get(path).status_code == 404


OF_STREAM = "/streams/live/cam-1"
OF_APPLICATION = "/applications/live"


def ask(admin: Client, method: str, path: str, **body: Any) -> Any:
    return admin.generic(method, f"/api/v1{path}", json.dumps(body) if body else "", "application/json")


@pytest.mark.parametrize(("path", "subject"), [(OF_STREAM, "stream"), (OF_APPLICATION, "application")])
def test_api_disables_and_enables_stream_and_application(
    admin: Client, stream: Stream, path: str, subject: str
) -> None:
    assert ask(admin, "GET", path).json()["enabled"] is True
    for wanted in (False, False, True):
        answer = ask(admin, "PATCH", path, enabled=wanted)
        assert (answer.status_code, answer.json()["enabled"]) == (200, wanted)
        assert ask(admin, "GET", path).json() == answer.json()
    assert audited("action") == [f"{subject}.disable", f"{subject}.enable"], "what changes nothing is no act"
    assert ask(admin, "PATCH", path, enabled="perhaps").status_code == 422


def test_an_application_tells_its_policies(admin: Client) -> None:
    Application.objects.create(name="live", play_policy="token", record="all")
    found = ask(admin, "GET", OF_APPLICATION).json()
    assert found == {
        "name": "live",
        "enabled": True,
        "publish": "key",
        "play": "token",
        "record": "all",
        "encoder_login": False,
        "play_recordings": "signed",
        "play_start_unit": "ms",
        "max_instances": 16,
        "shared_objects": "none",
        "callback": "none",
    }
    assert ask(admin, "GET", "/applications").json() == {"items": [found], "count": 1}


@pytest.mark.both_forms
@pytest.mark.parametrize("path", [OF_STREAM, OF_APPLICATION])
def test_deleting_stream_or_application_keeps_its_sessions(admin: Client, stream: Stream, path: str) -> None:
    session = make_session(stream, ended_ago_s=1)
    assert ask(admin, "DELETE", path).status_code == 204
    assert ask(admin, "GET", path).status_code == 404
    assert ask(admin, "DELETE", path).status_code == 404
    assert Session.objects.get().pk == session.pk


@pytest.mark.parametrize("path", [OF_STREAM, OF_APPLICATION])
def test_live_stream_or_application_is_deleted_only_by_force(
    admin: Client, stream: Stream, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_session(stream)
    refused = ask(admin, "DELETE", path)
    assert refused.status_code == 409
    assert "is live: 1 publishing, 0 playing." in refused.json()["detail"]
    assert Stream.objects.exists()
    with monkeypatch.context() as patched:
        patched.setattr(removal, "WAIT_S", 0.0)
        refused = ask(admin, "DELETE", f"{path}?force=true")
        assert refused.status_code == 409
        assert "it is disabled, but one session has not ended" in refused.json()["detail"]
    assert ask(admin, "GET", path).json()["enabled"] is False
    meanwhile(monkeypatch)
    assert ask(admin, "DELETE", f"{path}?force=true").status_code == 204
    assert not Stream.objects.exists()
    assert Session.objects.get().end_reason == "kicked"


@pytest.mark.parametrize("path", [OF_STREAM, OF_APPLICATION])
def test_dry_run_of_deletion_lists_the_effects_and_deletes_nothing(admin: Client, stream: Stream, path: str) -> None:
    keys.create(stream=stream)
    make_session(stream)
    answer = ask(admin, "DELETE", f"{path}?dry_run=true&force=true")
    assert answer.status_code == 200
    told = answer.json()
    assert (told["goes"]["keys"], told["stays"]["sessions"], told["publishers"], told["players"]) == (1, 1, 1, 0)
    assert Stream.objects.exists()
    assert not Session.objects.exclude(stop_requested="").exists()


@pytest.fixture
def recording(stream: Stream, settings: Any, tmp_path: Path) -> Recording:
    settings.RECORDINGS_DIR = tmp_path
    (tmp_path / "1.flv").write_bytes(b"FLV")
    about = {"application": stream.application, "stream": stream, "name": "cam-1"}
    return Recording.objects.create(file="1.flv", state="complete", **about)


@pytest.mark.parametrize("gone", [False, True])
def test_deleting_a_stream_deletes_its_recordings_only_on_request(
    admin: Client, recording: Recording, tmp_path: Path, gone: bool
) -> None:
    assert ask(admin, "DELETE", f"{OF_STREAM}?recordings={'true' if gone else 'false'}").status_code == 204
    assert Recording.objects.exists() is not gone
    assert (tmp_path / "1.flv").exists() is not gone


def test_a_recording_that_is_written_keeps_its_stream(admin: Client, recording: Recording) -> None:
    Recording.objects.update(state="recording")
    answer = ask(admin, "DELETE", f"{OF_STREAM}?recordings=true")
    assert answer.status_code == 409
    assert "It is being recorded" in answer.json()["detail"]
    assert Stream.objects.exists()


def test_api_changes_play_policy_and_replaces_play_tokens(admin: Client, stream: Stream, settings: Settings) -> None:
    settings.HLS_ADDRESS, settings.HLS_URL_BASE, settings.PUBLIC_URL = ("0.0.0.0", 8002), "", "https://tv.example.org"
    found = ask(admin, "GET", OF_STREAM).json()
    assert (found["play_policy"], found["hls_always"]) == ("", False)
    assert found["hls_url"] == "http://127.0.0.1:8002/hls/live/cam-1/index.m3u8"
    assert found["watch_url"] == "https://tv.example.org/watch/live/cam-1"
    for _ in range(2):
        found = ask(admin, "PATCH", OF_STREAM, play_policy="token", hls_always=True).json()
        assert (found["play_policy"], found["hls_always"], found["enabled"]) == ("token", True, True)
    assert audited("action") == ["stream.play_policy"], "what changes nothing is no act"
    first = ask(admin, "POST", f"{OF_STREAM}/token", lasting=True).json()
    second = ask(admin, "POST", f"{OF_STREAM}/token", replaces=True, hours=1).json()
    stream.refresh_from_db()
    verdicts = [
        play_tokens.PLAY.verify(made["token"], stream.pk, generation=stream.link_generation) for made in (first, second)
    ]
    assert verdicts == ["invalid", "valid"]
    assert second["watch_url"].endswith(f"/watch/live/cam-1?token={second['token']}")
    assert ask(admin, "PATCH", OF_STREAM, play_policy="some").status_code == 422
    ask(admin, "PATCH", OF_STREAM, play_policy="none")
    assert ask(admin, "POST", f"{OF_STREAM}/token").status_code == 409
    settings.HLS_ADDRESS = None
    found = ask(admin, "GET", OF_STREAM).json()
    assert (found["hls_url"], found["watch_url"]) == ("", "")


def test_key_manager_may_change_play_policy_but_not_disable(manager: Client, stream: Stream) -> None:
    assert ask(manager, "PATCH", OF_STREAM, play_policy="public").status_code == 200
    assert ask(manager, "PATCH", OF_STREAM, enabled=False).status_code == 403
    stream.refresh_from_db()
    assert stream.enabled
