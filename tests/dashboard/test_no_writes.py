"""A database that answers and takes no writes: it is told of with its cause, and not those who can't write to it."""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from analytics.models import AnalyticsRun
from dashboard.models import Heartbeat
from dashboard.system import watch
from ingest.models import Node
from tests.dashboard.conftest import (
    PASSWORD,
    api_token,
    client_of,
    lacks,
    make_session,
    make_stream,
    make_user,
    put_node,
)

READ_ONLY = {"sqlite": "PRAGMA query_only = ON", "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"}
WHY = {"sqlite": "Its file, its folder or their disk is read-only.", "postgresql": "Its transactions are read-only."}

PROCESSES = (Heartbeat.Kind.WORKER_DEFAULT, Heartbeat.Kind.WORKER_ANALYTICS, Heartbeat.Kind.BEAT)

pytestmark = pytest.mark.both_forms


@contextmanager
def each_connection(statement: str) -> Iterator[None]:
    """While the block runs each connection begins with the statement."""

    def begin(connection: BaseDatabaseWrapper, **_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    connection_created.connect(begin)
    connection.close()
    try:
        yield
    finally:
        connection_created.disconnect(begin)
        connection.close()


def read_only() -> AbstractContextManager[None]:
    return each_connection(READ_ONLY[connection.vendor])


@pytest.fixture
def installation(transactional_db: None, settings: Settings) -> dict[str, str]:
    """It has run for long, and its rows say that all of it has stood still for a minute; a node shows its figures.
    The headers of a script that may view.
    """
    settings.STARTING_S = settings.HEARING_S = 0.0
    seen = timezone.now() - timedelta(seconds=60)
    for kind in PROCESSES:
        Heartbeat.objects.create(kind=kind, name="w@a", started_at=seen, seen_at=seen)
    Node.objects.create(name="n1", seen_at=seen)
    put_node(node="n1")
    return api_token()


def parts(client: Client, headers: dict[str, str]) -> dict[str, dict[str, Any]]:
    answer = client.get("/api/v1/system", headers=headers)
    assert answer.status_code == 200
    return {part["kind"]: part for part in answer.json()["items"]}


def test_read_only_database_is_degraded_with_cause_and_processes_unknown(
    client: Client, installation: dict[str, str]
) -> None:
    with read_only():
        found = parts(client, installation)
    database = found["database"]
    assert (database["state"], database["alarm"]) == ("degraded", True)
    assert database["what"] == "The database takes no writes"
    assert database["effect"].startswith(f"{WHY[connection.vendor]} Live streams go on")
    assert "Restart nothing" in database["advice"]
    assert "read" in database["detail"], "the error itself, for who may view"
    assert (found["nodes"]["state"], found["nodes"]["detail"]) == ("ok", "n1")
    assert {found[kind]["state"] for kind in PROCESSES} == {"unknown"}
    assert not [part["advice"] for part in found.values() if "Start" in part["advice"]]


def test_processes_stay_unknown_for_a_time_after_writes_work_again(
    client: Client, installation: dict[str, str], settings: Settings
) -> None:
    with read_only():
        parts(client, installation)
    settings.HEARING_S = 60.0
    found = parts(client, installation)
    assert found["database"]["state"] == "ok"
    assert (found["nodes"]["state"], found["nodes"]["detail"]) == ("ok", "n1")
    assert {found[kind]["state"] for kind in PROCESSES} == {"unknown"}
    settings.HEARING_S = 0.0
    assert {parts(client, installation)[kind]["state"] for kind in PROCESSES} == {"down"}


def test_a_web_process_is_healthy_and_says_which_part_is_not(client: Client, installation: dict[str, str]) -> None:
    with read_only():
        answer = client.get("/healthz")
    health = answer.json()
    assert (answer.status_code, health["status"], health["database"]) == (200, "ok", "no writes")
    assert (health["parts"]["database"], health["parts"]["nodes"]) == ("degraded", "ok")


def test_healthz_just_started_without_nodes_is_503_with_nodes_unknown(client: Client, transactional_db: None) -> None:
    answer = client.get("/healthz")  # Just started: no node was heard of.
    assert (answer.status_code, answer.json()["parts"]["nodes"]) == (503, "unknown")


def test_pages_with_read_only_database_are_shown_with_a_banner(
    installation: dict[str, str], settings: Settings
) -> None:
    viewer = client_of(make_user("viewer", name="vera"))
    session = make_session(make_stream("cam-1"), ended_ago_s=5)
    now = timezone.now()
    lost = AnalyticsRun.objects.create(
        trigger="page", state="running", started_at=now, heartbeat_at=now - timedelta(hours=1)
    )
    with read_only():
        for path in ("/", "/attempts/", "/sessions/", f"/jobs/{lost.pk}/"):
            page = viewer.get(path).content.decode()
            assert "The database takes no writes since" in page, path
            assert "Restart nothing" in page
        assert "is unknown while the database is read-only" in viewer.get("/jobs/").content.decode()
        assert "No media node is running" not in viewer.get("/system/").content.decode()
        nodes = viewer.get("/api/v1/nodes").json()["items"]
        assert [node["state"] for node in nodes] == ["up"]
        assert "The node is down" not in viewer.get(f"/sessions/{session.pk}/").content.decode()


def test_login_and_api_write_with_read_only_database_are_503_with_cause(
    client: Client, installation: dict[str, str]
) -> None:
    make_user("admin")
    script = api_token("admin")
    stream = make_stream("cam-1")
    with read_only():
        answer = client.post("/login/", {"username": "mira", "password": PASSWORD})
        assert answer.status_code == 503
        page = answer.content.decode()
        assert lacks(page, "The database takes no writes since", WHY[connection.vendor], "Restart nothing") == []
        answer = client.post(
            f"/api/v1/streams/live/{stream.name}/mute", headers=script, content_type="application/json"
        )
        assert answer.status_code == 503
        assert answer.json()["detail"].startswith("The database takes no writes since")
        assert "detail" not in answer.json()["items"][0], "anybody may see this answer: no error's text"


def test_a_node_that_alone_can_not_write_is_not_missing(client: Client, installation: dict[str, str]) -> None:
    """Nor is its operator told to start one."""
    Node.objects.create(name="n2", seen_at=timezone.now())
    found = parts(client, installation)["nodes"]
    assert (found["state"], found["detail"]) == ("degraded", "n1")
    assert found["what"] == "1 of 2 media nodes is cut off from the database"
    assert found["advice"].startswith("Restart nothing")
    Node.objects.create(name="n3", seen_at=timezone.now() - timedelta(seconds=60))
    found = parts(client, installation)["nodes"]
    assert (found["what"], found["detail"]) == ("1 of 3 media nodes is missing", "n3")
    put_node(node="n3")
    assert parts(client, installation)["nodes"]["what"] == "2 of 3 media nodes are cut off from the database"


def test_database_lock_of_another_process_is_reported_once_it_lasts(
    client: Client, installation: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL lets several write")
    with (
        closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other,
        each_connection("PRAGMA busy_timeout = 0"),
    ):
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(watch, "LOCKED", timedelta(hours=1))
        assert parts(client, installation)["database"]["state"] == "ok"
        monkeypatch.setattr(watch, "LOCKED", timedelta())
        database = parts(client, installation)["database"]
        assert (database["state"], database["effect"].startswith("Something keeps it locked.")) == ("degraded", True)
        other.execute("ROLLBACK")
