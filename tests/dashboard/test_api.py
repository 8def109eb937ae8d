"""The API: shapes, pages, errors, its description. Field names are a contract with scripts, so they are written out."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from ingest.models import StatusEvent, Stream
from ingest.services.roles import ABILITIES
from tests.dashboard.conftest import api_token, make_session, make_stream
from tests.dashboard.test_pages import forbidden

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


def test_an_unknown_stream_or_session_is_404(viewer: Client, stream: Stream) -> None:
    nobody = "00000000-0000-0000-0000-000000000000"
    for path in ("/streams/live/none", "/streams/none/cam-1", f"/sessions/{nobody}", f"/sessions/{nobody}/events"):
        answer = viewer.get(f"/api/v1{path}")
        assert answer.status_code == 404
        assert answer.json().keys() == {"detail"}


def test_a_session_has_its_fields(viewer: Client, stream: Stream) -> None:
    known: dict[str, Any] = {
        "end_reason": "kicked",
        "video_codec": "H.264",
        "audio_codec": "AAC",
        "width": 1920,
        "height": 1080,
        "bytes_in": 5_000_000_000,
        "video_frames": 54000,
        "audio_frames": 84000,
        "keyframes": 900,
    }
    began = datetime(2026, 3, 1, 12, tzinfo=UTC)
    row = make_session(stream, started_at=began, ended_at=began + timedelta(minutes=30), **known)
    body = get(viewer, f"/sessions/{row.pk}")
    assert {name: body[name] for name in SESSION} == known | {
        "id": str(row.pk),
        "kind": "publish",
        "app": "live",
        "name": "cam-1",
        "address": "192.0.2.7",
        "encoder": "OBS 30",
        "started_at": "2026-03-01T12:00:00Z",
        "ended_at": "2026-03-01T12:30:00Z",
        "bytes_out": 0,
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


def test_session_events_are_listed_newest_first_with_all_fields(viewer: Client, stream: Stream) -> None:
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
def test_invalid_query_parameter_is_422_and_names_the_parameter(viewer: Client, query: dict[str, Any]) -> None:
    answer = viewer.get("/api/v1/sessions", query)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"][-1] == next(iter(query))
    assert viewer.get("/api/v1/sessions/1").status_code == 422


def test_openapi_schema_names_every_path_and_its_references_resolve(client: Client, db: None) -> None:
    schema = client.get("/api/v1/openapi.json", headers=api_token()).json()
    assert schema["openapi"].startswith("3.")
    of_streams = {f"/api/v1/streams{rest}" for rest in ("", "/{app}/{name}", "/{app}/{name}/kick")}
    assert schema["paths"].keys() >= of_streams | {"/api/v1/sessions/{session_id}/events", "/api/v1/attempts"}
    operations = [operation for path in schema["paths"].values() for operation in path.values()]
    assert all(operation["security"] for operation in operations)
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    for path, methods in schema["paths"].items():
        for operation in methods.values():
            named = {item["name"] for item in operation["parameters"] if item["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))
    for reference in references(schema):
        found = schema
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
    fields = schema["components"]["schemas"]
    assert fields["SessionOut"]["properties"].keys() >= SESSION
    assert fields["StreamOut"]["properties"].keys() >= STREAM | METRICS


def test_openapi_schema_states_roles_and_ability_of_each_operation(viewer: Client) -> None:
    schema = viewer.get("/api/v1/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            about = f"{method} {path}"
            assert set(operation["x-roles"]) == {
                role for role in ABILITIES if operation["x-ability"] in ABILITIES[role]
            }, about
            assert f"`{operation['x-ability']}`" in operation["description"], about
            assert not operation["description"].startswith("Needs the ability"), f"{about} has no docstring"
            assert {"401", "403", "503"} <= operation["responses"].keys(), about
    assert schema["paths"]["/api/v1/streams/{app}/{name}/kick"]["post"]["x-roles"] == ["operator", "admin"]


def test_the_docs_page_shows_every_operation_and_shape(viewer: Client) -> None:
    schema = viewer.get("/api/v1/openapi.json").json()
    page = viewer.get("/api/v1/docs").content.decode()
    for path in schema["paths"]:
        assert f"<code>{path}</code>" in page
    for shape in schema["components"]["schemas"]:
        assert f'id="shape-{shape}"' in page
    assert set(re.findall(r'href="#(shape-[^"]+)"', page)) <= set(re.findall(r'id="(shape-[^"]+)"', page))
    assert "`" not in page.partition("<main")[2].partition("</main>")[0]
    assert "<code>Authorization: Bearer" in page
    assert forbidden(page) == []


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references(value)]
    if isinstance(node, list):
        return [found for value in node for found in references(value)]
    return []
