"""The installation's parts: who is down since when, as the page, the API, the banner and a refused request tell it."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import AsyncClient, Client
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from pytest_django import Settings

from analytics.models import AnalyticsRun
from dashboard.models import Heartbeat
from dashboard.system.heartbeats import HeartbeatThread
from dashboard.system.probes import Probe
from dashboard.system.unavailable import WatchMiddleware
from dashboard.system.watch import Watch
from ingest import live_store
from ingest.models import Node, Stream
from ingest.services import nodes
from tests.dashboard.conftest import PASSWORD, api_token, lacks, make_stream, make_user, put_node, snapshot
from tests.ingest.faults import HangingDisk
from tests.server_process import wait_for
from tests.snapshots import issue

DEFAULT, ANALYTICS, BEAT = Heartbeat.Kind.WORKER_DEFAULT, Heartbeat.Kind.WORKER_ANALYTICS, Heartbeat.Kind.BEAT


@pytest.fixture
def settled(settings: Settings) -> None:
    """A web process that has run for long enough to have heard of everybody."""
    settings.STARTING_S = settings.HEARING_S = 0.0


def alive(kind: Heartbeat.Kind, *, name: str = "w@a", seen_s: float = 1, **fields: Any) -> Heartbeat:
    now = timezone.now()
    seen = now - timedelta(seconds=seen_s)
    return Heartbeat.objects.create(kind=kind, name=name, started_at=seen - timedelta(hours=1), seen_at=seen, **fields)


def parts(client: Client, role: str = "viewer") -> dict[str, dict[str, Any]]:
    answer = client.get("/api/v1/system", headers=api_token(role))
    assert answer.status_code == 200
    body = answer.json()
    assert body["count"] == len(body["items"])
    return {part["kind"]: part for part in body["items"]}


def since(part: dict[str, Any]) -> Any:
    return parse_datetime(part["since"])


def is_since(part: dict[str, Any], moment: Any) -> bool:
    """The API tells milliseconds."""
    return bool(abs(since(part) - moment) < timedelta(milliseconds=2))


@pytest.mark.both_forms
def test_a_process_is_up_since_its_start_and_down_since_it_was_heard_of(
    client: Client, settled: None, db: None
) -> None:
    running, silent = alive(DEFAULT), alive(BEAT, seen_s=60)
    stopped = alive(ANALYTICS, stopped_at=timezone.now() - timedelta(seconds=3))
    found = parts(client)
    default, beat, analytics = (found[kind] for kind in (DEFAULT, BEAT, ANALYTICS))
    assert (default["state"], default["what"], default["detail"]) == ("ok", "", "w@a")
    assert (beat["state"], beat["what"], bool(beat["advice"])) == ("down", "The scheduler is not running", True)
    assert analytics["state"] == "down"
    assert is_since(default, running.started_at)
    assert is_since(beat, silent.seen_at)
    assert is_since(analytics, stopped.stopped_at)


def test_silent_process_is_unknown_right_after_the_web_start(client: Client, db: None) -> None:
    alive(DEFAULT, seen_s=3600)
    alive(BEAT)
    found = parts(client)
    assert (found[DEFAULT]["state"], found[BEAT]["state"]) == ("unknown", "ok")


def test_part_with_one_of_two_processes_missing_is_degraded(client: Client, settled: None, db: None) -> None:
    alive(DEFAULT, name="a@a")
    late = alive(DEFAULT, name="b@b", seen_s=60)
    alive(DEFAULT, name="c@c", seen_s=60, stopped_at=timezone.now())
    found = parts(client)[DEFAULT]
    assert (found["state"], found["detail"]) == ("degraded", "b@b")
    assert is_since(found, late.seen_at)


def test_heartbeat_thread_writes_until_it_is_stopped(transactional_db: None) -> None:
    pulse = HeartbeatThread([DEFAULT, ANALYTICS], "w@a", lambda: {"java": "none"})
    pulse.start()
    wait_for(lambda: Heartbeat.objects.count() == 2, timeout_s=5, what="both queues are beaten for")
    assert Heartbeat.objects.get(kind=ANALYTICS).detail == {"java": "none"}
    pulse.stop()
    assert Heartbeat.objects.exclude(stopped_at=None).count() == 2


def node(name: str, *, seen_s: float = 1, **fields: Any) -> Node:
    return Node.objects.create(name=name, seen_at=timezone.now() - timedelta(seconds=seen_s), **fields)


def test_media_listener_part_follows_the_nodes_addresses(
    client: Client, settled: None, db: None, settings: Any
) -> None:
    assert parts(client)["media"]["state"] == "unknown"
    node("a", address="0.0.0.0:1935")
    found = parts(client, "operator")["media"]
    assert (found["state"], found["what"], found["alarm"]) == ("degraded", "No media node sends FLV", False)
    for worker in ("b-1", "b-2"):
        node(worker, address="0.0.0.0:1935, 0.0.0.0:1936 (TLS), 0.0.0.0:8001 (media)")
    found = parts(client, "analyst")["media"]
    assert (found["state"], found["detail"]) == ("ok", "0.0.0.0:8001")
    settings.MEDIA_ADDRESS = None
    found = parts(client, "admin")["media"]
    assert (found["state"], "RTMPWEB_MEDIA" in found["detail"]) == ("ok", True)


@pytest.mark.both_forms
def test_media_nodes_part_reports_down_draining_and_missing_nodes(client: Client, settled: None, db: None) -> None:
    node("a-hls", role=Node.Role.PACKAGER)
    assert parts(client)["nodes"]["state"] == "down", "nobody can publish to a packager"
    node("a", state=Node.State.DRAINING)
    node("stopped", seen_s=60, stopped_at=timezone.now())
    found = parts(client, "operator")["nodes"]
    assert (found["state"], found["what"], found["detail"]) == (
        "degraded",
        "Every media node is draining",
        "a (draining)",
    )
    drains = found["since"]
    lost = node("lost", seen_s=60, state=Node.State.DOWN)
    found = parts(client, "analyst")["nodes"]
    assert (found["state"], found["what"]) == ("degraded", "1 of 2 media nodes is missing")
    assert found["detail"] == "lost; a (draining)"
    assert is_since(found, lost.seen_at)
    nodes.forget(name="lost")
    found = parts(client, "admin")["nodes"]
    assert (found["state"], found["detail"], found["since"] >= drains) == ("degraded", "a (draining)", True)
    nodes.seen(name="lost", now=timezone.now())
    found = parts(client, "key manager")["nodes"]
    assert (found["state"], found["detail"]) == ("ok", "a (draining), lost")


@pytest.mark.both_forms
def test_packagers_part_reports_missing_packagers_separately_from_nodes(
    client: Client, settled: None, db: None
) -> None:
    """What becomes of one is told of viewers by HLS, and not as of a node to which encoders come."""
    node("a")
    stopped = node("a-hls", role=Node.Role.PACKAGER, stopped_at=timezone.now())
    found = parts(client)["packagers"]
    assert (found["state"], found["what"], "runhls" in found["detail"]) == ("ok", "", True)
    stopped.delete()
    lost = node("b-hls", role=Node.Role.PACKAGER, seen_s=60)
    found = parts(client, "operator")
    assert (found["nodes"]["state"], found["nodes"]["detail"]) == ("ok", "a")
    assert (found["packagers"]["state"], found["packagers"]["what"]) == ("down", "No packager is running")
    assert "HLS" in found["packagers"]["effect"]
    assert is_since(found["packagers"], lost.seen_at)
    node("c-hls", role=Node.Role.PACKAGER)
    found = parts(client, "analyst")["packagers"]
    assert (found["state"], found["what"], found["detail"]) == ("degraded", "1 of 2 packagers is missing", "b-hls")
    assert "ncoder" not in found["effect"] + found["advice"]
    nodes.seen(name="b-hls", now=timezone.now())
    found = parts(client, "admin")["packagers"]
    assert (found["state"], found["detail"]) == ("ok", "b-hls, c-hls")


def test_packagers_part_is_ok_with_hls_off(client: Client, settled: None, db: None, settings: Settings) -> None:
    node("a-hls", role=Node.Role.PACKAGER, seen_s=60)
    settings.HLS_ADDRESS = None
    assert parts(client)["packagers"]["state"] == "ok"


def test_a_packager_at_its_limit_is_no_media_node(client: Client, db: None) -> None:
    node("n3")
    node("n3-hls", role=Node.Role.PACKAGER)
    put_node(node="n3")
    put_node(node="n3-hls", issues=[BUSY])
    found = parts(client)
    assert (found["nodes"]["state"], found["nodes"]["detail"]) == ("ok", "n3")
    assert found["packagers"]["what"] == "1 of 1 packagers is at the limit"
    assert found["packagers"]["detail"] == "n3-hls: 97 % of a processor"


@pytest.mark.parametrize("leap", [timedelta(hours=1), timedelta(hours=-1)])
def test_clock_leap_reports_no_process_as_down(
    db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch, leap: timedelta
) -> None:
    """What was written before it says nothing: all are heard anew."""
    settings.STARTING_S = 0.0
    watch = Watch()
    node("a")
    alive(DEFAULT)
    assert {watch.report().state(kind) for kind in ("nodes", "worker_default")} == {"ok"}
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + leap)
    found = watch.report()
    assert {found.state(kind) for kind in ("nodes", "worker_default")} <= {"ok", "unknown"}
    nodes.seen(name="a", now=timezone.now())
    assert watch.report().state("nodes") == "ok"


def test_failed_analytics_run_is_reported_until_the_next_succeeds(client: Client, db: None) -> None:
    now = timezone.now()
    AnalyticsRun.objects.create(
        trigger="page", state="failed", error_code="lost", error="The process was lost.", ended_at=now
    )
    found = parts(client)["analytics"]
    assert (found["state"], found["what"], found["alarm"]) == ("degraded", "Analytics is failing", True)
    assert found["detail"] == "The process was lost."
    assert is_since(found, now)
    AnalyticsRun.objects.create(trigger="page", state="done", ended_at=now + timedelta(seconds=1))
    assert parts(client, "operator")["analytics"]["state"] == "ok"


def test_a_machine_without_java_is_no_alarm(client: Client, viewer: Client) -> None:
    alive(ANALYTICS, detail={"java": "Analytics needs Java 17 or newer."})
    found = parts(client)["analytics"]
    assert (found["state"], found["advice"], found["alarm"]) == ("degraded", "Analytics needs Java 17 or newer.", False)
    assert viewer.get("/system/alarms").json()["items"] == []


RECORDS = {"history_waiting": 0, "history_dropped": 0, "telemetry_dropped": 0, "telemetry_failing_since": 1.7e9}
BUSY = issue("node_cpu", "warning", since=1.7e9, actual="97 % of a processor")


@pytest.mark.parametrize(
    ("figures", "kind", "state", "what", "detail", "at"),
    [
        ({"records": RECORDS}, "disk", "down", "Telemetry can't be written", "n3", 1.7e9),
        ({"recordings_failing": 2}, "disk", "degraded", "Recordings can't be written", "n3: 2 streams", None),
        ({"disk_free_percent": 2.5}, "disk", "degraded", "", "n3: 2.5 % free", None),
        (
            {"disk_free_percent": None, "disk_hangs_s": 12.0},
            "disk",
            "degraded",
            "A data folder's disk does not answer",
            "n3",
            None,
        ),
        (
            {"issues": [BUSY]},
            "nodes",
            "degraded",
            "1 of 1 media nodes is at the limit",
            "n3: 97 % of a processor",
            1.7e9,
        ),
    ],
    ids=["telemetry", "recordings", "full", "hanging", "busy"],
)
def test_part_state_follows_the_figures_of_its_nodes(
    client: Client, db: None, figures: Any, kind: str, state: str, what: str, detail: str, at: float | None
) -> None:
    Node.objects.create(name="n3", state="up", seen_at=timezone.now())
    put_node(node="n3", **figures)
    found = parts(client)[kind]
    assert (found["state"], found["detail"]) == (state, detail)
    assert what in found["what"]
    assert at is None or since(found).timestamp() == at
    assert parts(client, "operator")[kind]["since"] == found["since"], "it keeps it"
    put_node(node="n3")
    assert parts(client, "analyst")[kind]["state"] == "ok"


def test_advice_for_failing_recordings_names_the_folder_setting(client: Client, db: None) -> None:
    put_node(node="n3", recordings_failing=2)
    assert "RTMPWEB_RECORDINGS" in parts(client)["disk"]["advice"]


def test_draining_nodes_are_listed_with_a_node_at_its_limit(client: Client, db: None) -> None:
    for name, state in (("n3", "up"), ("n4", "draining")):
        Node.objects.create(name=name, state=state, seen_at=timezone.now())
    put_node(node="n3", issues=[BUSY])
    assert parts(client)["nodes"]["detail"] == "n3: 97 % of a processor; n4 (draining)"


def test_hanging_disk_of_the_web_process_is_reported_without_blocking(
    client: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = HangingDisk(monkeypatch)
    monkeypatch.setattr("dashboard.system.watch.DISK_S", 0.0)
    monkeypatch.setattr("dashboard.system.watch.OLD_S", 1e-9)
    try:
        assert parts(client)["disk"]["detail"] == ""
        assert parts(client, "operator")["disk"]["detail"] == "this web process"
    finally:
        disk.let_go()


def test_part_times_count_from_the_web_process_start(client: Client, db: None) -> None:
    WatchMiddleware(None)
    ready = timezone.now()
    found = parts(client)
    assert since(found["web"]) <= ready
    assert since(found["database"]) <= ready


def test_the_page_lists_every_part(viewer: Client, settled: None) -> None:
    page = viewer.get("/system/").content.decode()
    workers = ("worker_default", "worker_analytics")
    for kind in ("database", "nodes", "media", "packagers", *workers, "beat", "analytics", "disk", "web"):
        assert f'data-kind="{kind}"' in page
    assert "No media node is running" in page
    assert 'class="banner' not in page, "the table says it"
    assert '<div class="banner down" data-kind="nodes"' in viewer.get("/attempts/").content.decode()


@pytest.mark.both_forms
def test_every_page_counts_the_streams_in_bad_health(viewer: Client, stream: Stream) -> None:
    assert viewer.get("/system/alarms").json()["bad_streams"] == 0
    assert "data-bad-count hidden" in viewer.get("/sessions/").content.decode()
    put_node(snapshot(stream, health="bad"), snapshot(make_stream("cam-2"), health="warning"))
    assert viewer.get("/system/alarms").json()["bad_streams"] == 1
    badge = viewer.get("/sessions/").content.decode().partition("data-bad-count>")[2].partition("bad streams")[0]
    assert "<span>1</span>" in badge


@contextmanager
def database_gone(name: str) -> Iterator[None]:
    """The database's connections lead nowhere."""
    real = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = name
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = real


@pytest.fixture
def broken_database(transactional_db: None, tmp_path: Any) -> Iterator[None]:
    if connection.vendor != "sqlite":
        pytest.skip("the database of this run is a server: its outage is tested in tests/production")
    with database_gone(str(tmp_path / "nowhere" / "gone.sqlite3")):
        yield


def test_a_page_without_the_database_says_since_when(client: Client, broken_database: None) -> None:
    client.cookies["sessionid"] = "a-session-of-a-logged-in-operator"
    for path in ("/", "/system/", "/admin/", "/attempts/"):
        answer = client.get(path)
        assert answer.status_code == 503, path
        assert answer["Retry-After"] == "5"
        page = answer.content.decode()
        assert lacks(page, "The database does not answer since", 'http-equiv="refresh"') == []
        assert "Traceback" not in page


def test_a_script_without_the_database_gets_the_same_as_json(client: Client, broken_database: None) -> None:
    for path in ("/api/v1/system", "/api/v1/streams", "/metrics"):
        answer = client.get(path, headers={"Authorization": "Bearer rt_x"})
        assert answer.status_code == 503, path
        (part,) = answer.json()["items"]
        assert (part["kind"], part["state"]) == ("database", "down")
        assert parse_datetime(part["since"]) is not None
        assert "detail" not in part, "anybody may see this answer: no names"


@pytest.mark.stores
def test_without_redis_an_operator_can_still_log_in(client: Client, db: None, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.CACHES = settings.CACHES | {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": settings.REDIS_URL}
    }
    live_store._store = live_store.RedisLiveStore(settings.REDIS_URL)
    make_user("viewer")
    assert client.post("/login/", {"username": "mira", "password": "wrong"}).status_code == 200
    assert client.post("/login/", {"username": "mira", "password": PASSWORD}).status_code == 302
    page = client.get("/attempts/").content.decode()
    assert "Redis does not answer since" in page
    assert client.get("/streams/live/none/").status_code == 404


def test_hanging_probe_is_down_since_it_was_started() -> None:
    asked = threading.Semaphore(0)
    answers = threading.Semaphore(1)

    def ask() -> str:
        asked.release()
        assert answers.acquire(timeout=10)
        return "well"

    probe = Probe("It", ask)
    assert probe.check(5)
    assert probe.found == "well"
    began = timezone.now()
    assert not probe.check(0.1)
    assert not probe.check(0.1)
    assert probe.hangs
    assert probe.since is not None
    assert began <= probe.since < timezone.now()
    answers.release(2)
    wait_for(lambda: probe.check(1), timeout_s=5, what="it answers again")
    assert probe.up
    assert asked.acquire(blocking=False)


AT_THE_END = """
import atexit, django
django.setup()
from dashboard.system.probes import Probe
atexit.register(lambda: print(Probe("It", lambda: "well").check(5)))
"""


def test_probe_still_works_at_interpreter_exit() -> None:
    """Its watch goes on until the very end, when executors take nothing any more."""
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_probe_that_failed_late_is_retried_at_the_next_check() -> None:
    """Else what is back would be down for one look more."""
    failing, asked = threading.Event(), []

    def ask() -> str:
        asked.append(1)
        if len(asked) == 1:
            assert failing.wait(10)
            raise OperationalError("It went away meanwhile.")
        return "well"

    probe = Probe("It", ask)
    assert not probe.check(0.1)
    assert probe.hangs
    failing.set()
    assert probe._pending is not None
    wait_for(probe._pending.done, timeout_s=5, what="the first question failed")
    assert probe.check(5)
    assert probe.found == "well"


def health(client: Client) -> tuple[int, dict[str, Any]]:
    """Status and body of /healthz, without what it says of each part."""
    answer = client.get("/healthz")
    body = answer.json()
    assert body.pop("parts").keys() >= {"database", "nodes", "worker_default", "worker_analytics", "beat", "disk"}
    return answer.status_code, body


def test_healthz_is_ok_while_a_node_runs(client: Client, db: None, caplog: pytest.LogCaptureFixture) -> None:
    assert health(client) == (503, {"status": "degraded", "database": "ok", "nodes": 0})
    assert not caplog.records
    Node.objects.create(name="n1")
    put_node()
    assert health(client) == (200, {"status": "ok", "database": "ok", "nodes": 1})
    answer = client.get("/healthz")
    assert set(answer.json()["parts"].values()) == {"ok"}
    assert "no-store" in answer["Cache-Control"]


async def test_healthz_is_answered_by_address_while_pages_want_an_allowed_host(
    async_client: AsyncClient, transactional_db: None, settings: Any
) -> None:
    await Node.objects.acreate(name="n1")
    settings.ALLOWED_HOSTS = ["stream.example.org"]
    by_address = {"host": "127.0.0.1:8000"}
    assert (await async_client.get("/healthz", headers=by_address)).status_code == 200
    assert (await async_client.get("/login/", headers=by_address)).status_code == 400


@pytest.mark.stores
def test_healthz_says_that_the_database_is_away(client: Client, transactional_db: None) -> None:
    put_node()
    with database_gone("/nowhere/gone"):
        found = health(client)
    assert found == (503, {"status": "degraded", "database": "unreachable", "nodes": 1})
