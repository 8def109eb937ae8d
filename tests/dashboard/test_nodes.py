"""Media nodes on their page and in the API: their states, what is left of a drain, and who may ask for one."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ingest.models import AuditEntry, Node, Stream
from tests.dashboard.conftest import api_token, audited, lacks, make_session, put_node, snapshot
from tests.snapshots import issue

NOW_FIELDS = {"in_kbps", "out_kbps", "cpu_percent", "disk_free_percent", "loop_delay_ms", "connections", "issues"}


def make_node(name: str = "n1", *, seen_ago_s: float = 1, **fields: Any) -> Node:
    now = timezone.now()
    seen_at = now - timedelta(seconds=seen_ago_s)
    given = {"address": "0.0.0.0:1935", **fields}
    return Node.objects.create(name=name, started_at=now, seen_at=seen_at, **given)


def tell(*streams: Any, **fields: Any) -> None:
    records = {"history_waiting": 7, "history_dropped": 0, "telemetry_dropped": 2, "telemetry_failing_since": None}
    put_node(*streams, records=records, **fields)


def api_nodes(client: Client) -> dict[str, dict[str, Any]]:
    answer = client.get("/api/v1/nodes").json()
    assert answer["count"] == len(answer["items"])
    return {node["name"]: node for node in answer["items"]}


def test_node_states_are_shown_on_page_and_api(viewer: Client) -> None:
    now = timezone.now()
    make_node("up")
    make_node("asked", drain_requested_at=now, drain_grace_s=60)
    make_node("draining", state="draining", drain_requested_at=now, drain_grace_s=60)
    make_node("silent", seen_ago_s=20)
    make_node("dead", seen_ago_s=60, state="down")
    make_node("ended", seen_ago_s=60, state="down", stopped_at=now)
    page = viewer.get("/nodes/").content.decode()
    assert {name: node["state"] for name, node in api_nodes(viewer).items()} == {
        "up": "up",
        "asked": "draining",
        "draining": "draining",
        "silent": "missing",
        "dead": "down",
        "ended": "stopped",
    }
    assert list(api_nodes(viewer))[:2] == ["silent", "dead"]
    answer = viewer.get("/api/v1/nodes?limit=1&offset=1").json()
    assert ([node["name"] for node in answer["items"]], answer["count"]) == (["dead"], 6)
    for word in ("Up", "Draining", "Missing", "Down", "Stopped"):
        assert f"</svg>{word}</span>" in page


def test_running_node_shows_its_figures_and_issues(viewer: Client, stream: Stream) -> None:
    make_node()
    tell(issues=[issue("node_cpu", "warning", advice="Move streams to another node.")])
    node = api_nodes(viewer)["n1"]
    assert node.keys() >= NOW_FIELDS
    assert (node["in_kbps"], node["connections"], node["history_waiting"], node["telemetry_dropped"]) == (2600, 4, 7, 2)
    assert node["issues"][0]["advice"] == "Move streams to another node."
    assert node["issues"][0]["since"].endswith("Z")


def test_a_node_that_tells_nothing_has_no_figures(viewer: Client) -> None:
    make_node(state="down")
    node = viewer.get("/api/v1/nodes/n1").json()
    assert {node[name] for name in NOW_FIELDS - {"issues"}} == {None}
    assert viewer.get("/api/v1/nodes/n2").status_code == 404
    assert viewer.get("/nodes/n2/").status_code == 404


def test_packager_is_listed_with_its_hls_viewers_and_no_node_figures(viewer: Client) -> None:
    make_node("vm-hls", role=Node.Role.PACKAGER)
    text = viewer.get("/nodes/").content.decode()
    assert "Serves browsers by HLS: 0 viewers now." in text
    assert 'data-node="vm-hls"' not in text, "no figures that nobody tells"


def test_a_drain_says_how_many_are_left_and_is_written_down(admin: Client, stream: Stream) -> None:
    node = make_node()
    make_session(stream)
    for _ in range(2):
        make_session(stream, kind="play")
    answer = admin.post("/nodes/n1/drain", {"grace_s": "300"}, follow=True)
    page = " ".join(answer.content.decode().split())
    assert "takes no new connections; what is still live there is disconnected after 300 s" in page
    assert "1 encoder and 2 players are left." in page
    node.refresh_from_db()
    assert (node.drain_grace_s, node.drain_requested_at is not None) == (300, True)
    told = api_nodes(admin)["n1"]
    assert (told["publishers"], told["players"], told["drain_grace_s"]) == (1, 2, 300)
    assert 290 < told["drain_left_s"] <= 300
    admin.post("/nodes/n1/resume")
    node.refresh_from_db()
    assert node.drain_requested_at is None
    assert audited("actor", "action", "target") == [("ada", "node.drain", "n1"), ("ada", "node.resume", "n1")]


@pytest.mark.parametrize("given", ["", "-5", "soon", "1e9", "9" * 30])
def test_drain_with_invalid_grace_uses_the_default(admin: Client, given: str) -> None:
    node = make_node()
    admin.post("/nodes/n1/drain", {"grace_s": given})
    node.refresh_from_db()
    assert node.drain_grace_s == 60


def test_a_script_drains_and_resumes(client: Client, db: None) -> None:
    make_node()
    headers = api_token("admin")
    answer = client.post("/api/v1/nodes/n1/drain", {"grace_s": 5}, content_type="application/json", headers=headers)
    assert (answer.status_code, answer.json()["drain_grace_s"]) == (202, 5)
    assert client.post("/api/v1/nodes/n1/resume", headers=headers).json()["drain_requested_at"] is None
    too_long = client.post("/api/v1/nodes/n1/drain", {"grace_s": 1e6}, content_type="application/json", headers=headers)
    assert too_long.status_code == 422
    assert AuditEntry.objects.get(action="node.drain").actor == "token admin-script"


def test_drain_of_a_down_node_is_refused_with_a_reason(admin: Client) -> None:
    make_node(state="down", seen_ago_s=60)
    for way in (
        admin.post("/nodes/n1/drain", headers={"Accept": "application/json"}),
        admin.generic("POST", "/api/v1/nodes/n1/drain"),
    ):
        assert (way.status_code, "is down" in way.json()["detail"]) == (409, True)
    assert admin.post("/nodes/n1/forget", follow=True).status_code == 200
    assert api_nodes(admin)["n1"]["state"] == "stopped"
    assert audited("action") == ["node.forget"]


def test_only_who_may_drain_is_offered_it(viewer: Client, admin: Client) -> None:
    make_node()
    make_node("n2", state="down", seen_ago_s=60)
    assert "data-ask" not in viewer.get("/nodes/").content.decode()
    page = admin.get("/nodes/").content.decode()
    assert lacks(page, 'data-ask="drain"', 'data-ask="forget"') == []


def test_node_page_shows_current_streams_and_ended_sessions(viewer: Client, stream: Stream) -> None:
    make_node()
    tell(snapshot(stream))
    make_session(stream, ended_ago_s=5, end_reason="tcp_reset", end_description="The encoder closed TCP.")
    page = viewer.get("/nodes/n1/").content.decode()
    assert lacks(page, 'href="/streams/live/cam-1/"', "Connection reset", "The encoder closed TCP.") == []
    tell(snapshot(stream, state="offline", health="none", session_id=None))
    assert "Nothing is published here" in viewer.get("/nodes/n1/").content.decode()
