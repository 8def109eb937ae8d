"""How records are written, as text and as JSON; and what is not: secrets, what goes on all day, more than a line."""

import asyncio
import json
import logging
import logging.config
import os
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.template import Context, Template
from django.test import Client

from ingest import log_records
from ingest.log_records import Bound, about
from rtmpweb import logs
from rtmpweb.celery import app
from rtmpweb.logs import ROUTINE_TASKS, WARNINGS_ONLY, configuration, process_name
from rtmpweb.middleware import AccessLog
from tests.background import Background
from tests.dashboard.conftest import client_of, make_user
from tests.receivers import http_receiver
from tests.rtmpweb.processes import CELERY, MANAGE, run
from tests.server_process import Installation, wait_for


@pytest.fixture
def lines(request: pytest.FixtureRequest) -> Iterator[StringIO]:
    """What a logger named `seen` writes in the format that the test names."""
    written = StringIO()
    settings = configuration(form=request.param, level="INFO", node="n7", access=True)
    settings["root"] = {}
    settings["handlers"]["console"]["stream"] = written
    settings["loggers"] = {"seen": {"handlers": ["console"], "level": "DEBUG", "propagate": False}}
    logging.config.dictConfig(settings)
    yield written
    logging.getLogger("seen").handlers.clear()


as_json = pytest.mark.parametrize("lines", ["json"], indirect=True)
as_text = pytest.mark.parametrize("lines", ["text"], indirect=True)


def records(written: StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


@as_json
def test_a_json_record_has_its_fields(lines: StringIO) -> None:
    with about(connection="c1", client="192.0.2.7"), about(session_id="s1", stream="live/cam"):
        logging.getLogger("seen").warning("Late by %d ms", 7, extra={"reason": "slow"})
    (record,) = records(lines)
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "WARNING",
        "logger": "seen",
        "message": "Late by 7 ms",
        "node": "n7",
        "process": process_name(sys.argv),
        "pid": os.getpid(),
        "connection": "c1",
        "client": "192.0.2.7",
        "session_id": "s1",
        "stream": "live/cam",
        "reason": "slow",
    }


@as_json
def test_a_traceback_is_a_field_of_its_one_line(lines: StringIO) -> None:
    try:
        raise ValueError("no\nnumber")
    except ValueError:
        logging.getLogger("seen").exception("It failed")
    (record,) = records(lines)
    assert "Traceback" in record["traceback"]
    assert record["traceback"].endswith("ValueError: no\nnumber")


@as_json
def test_asyncio_task_inherits_the_log_context_of_its_creator(lines: StringIO) -> None:
    async def work() -> None:
        await asyncio.to_thread(logging.getLogger("seen").info, "from a thread")

    async def run() -> None:
        with about(connection="c2"):
            task = asyncio.create_task(work())
        logging.getLogger("seen").info("outside")
        await task

    asyncio.run(run())
    outside, inside = records(lines)
    assert "connection" not in outside
    assert inside["connection"] == "c2"


@as_text
def test_text_log_line_ends_with_its_context_and_can_not_be_forged(lines: StringIO) -> None:
    with about(client="192.0.2.7", session_id="s1"):
        logging.getLogger("seen").info("Publishing %s", "live/cam\n2026-01-01 ERROR forged")
    (line,) = lines.getvalue().splitlines()
    time, rest = line.split(" ", 1)
    assert time.endswith("Z")
    assert rest == "INFO seen: Publishing live/cam\ufffd2026-01-01 ERROR forged (session_id=s1 client=192.0.2.7)"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["manage.py", "serve"], "serve"),
        (["/app/manage.py", "runrtmp", "--grace", "3"], "runrtmp"),
        (["/app/manage.py", "runweb"], "web"),
        (["/usr/bin/daphne", "-p", "8000", "rtmpweb.asgi:application"], "web"),
        (["/usr/bin/celery", "-A", "rtmpweb", "worker", "-Q", "analytics", "-c", "1"], "worker analytics"),
        (
            ["/lib/celery/__main__.py", "--quiet", "-A", "rtmpweb", "worker", "-Q", "default", "--beat"],
            "worker default",
        ),
        (["/usr/bin/celery", "-A", "rtmpweb", "beat", "--pidfile="], "beat"),
        ([], ""),
    ],
)
def test_a_process_is_named_by_its_command(command: list[str], name: str) -> None:
    assert process_name(command) == name


def test_each_request_is_a_record_without_its_query(caplog: pytest.LogCaptureFixture) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"gone"})

    async def ignore(message: Any) -> None:
        """The server's side."""

    scope = {"type": "http", "method": "GET", "path": "/x", "query_string": b"token=tell-nobody"}
    scope["client"] = ("192.0.2.7", 5)
    with caplog.at_level(logging.INFO, "rtmpweb.access"):
        asyncio.run(AccessLog(application)(scope, ignore, ignore))
    (record,) = caplog.records
    assert record.getMessage().startswith("GET /x 404 ")
    assert (record.__dict__["client"], record.__dict__["bytes"]) == ("192.0.2.7", 4)
    assert "tell-nobody" not in str(record.__dict__)


PAST_ALL_LOGGING = "worker: Warm shutdown"
"""Celery writes this from its signal handler."""


@pytest.mark.matrix
@pytest.mark.serve
def test_celerys_processes_write_the_same_json(tmp_path: Path) -> None:
    """A worker with its pool and its schedule, from the first line to the last."""
    Installation(tmp_path).put_tables()
    environment = {"RTMPWEB_DATA_DIR": str(tmp_path), "RTMPWEB_LOG_FORMAT": "json"}
    command = [*CELERY, "worker", "-Q", "default", "-c", "1", "--beat"]
    worker = Background("worker", command, folder=tmp_path, environment=environment, ready=" ready.")
    try:
        worker.start()
        wait_for(lambda: "beat: Starting" in worker.log, timeout_s=40, what="so is its schedule")
    finally:
        worker.stop()
    written = [line for line in worker.log.splitlines() if line and not line.startswith(PAST_ALL_LOGGING)]
    found = [json.loads(line) for line in written]
    assert {record["process"] for record in found} == {"worker default"}
    assert len({record["pid"] for record in found}) > 1, "the schedule is a process of its own"


def test_invalid_log_format_is_named(tmp_path: Path) -> None:
    done = run(*MANAGE, "check", environment={"RTMPWEB_DATA_DIR": str(tmp_path), "RTMPWEB_LOG_FORMAT": "xml"})
    assert done.stderr == f"RTMPWEB_LOG_FORMAT is 'xml': expected one of {', '.join(logs.FORMATS)}.\n"


ROOTS = ("django", "celery", "daphne", "httpx", "httpcore")
"""Loggers that write by the configuration under test: the real root has pytest's handlers."""

SECRET = "tell-this-to-nobody"


@pytest.fixture
def level() -> str:
    return "INFO"


@pytest.fixture
def written(level: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[StringIO]:
    monkeypatch.setattr(logs, "REFUSALS", Bound(20, 60.0))
    stream = StringIO()
    settings = configuration(form="text", level=level, node="n7", access=False)
    settings["root"] = {}
    settings["handlers"]["console"]["stream"] = stream
    ours = settings["loggers"]
    names = {*ROOTS, *ours}
    before = {name: logging.getLogger(name).level for name in names}
    for name in ROOTS:
        ours[name] = {"level": level, **ours.get(name, {}), "handlers": ["console"], "propagate": False}
    logging.config.dictConfig(settings)
    yield stream
    for name, former in before.items():
        logger = logging.getLogger(name)
        logger.setLevel(former)
        logger.propagate = True
        logger.handlers.clear()


# --- Secrets ---


@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
def test_urls_of_outgoing_requests_are_not_logged(written: StringIO) -> None:
    with http_receiver() as receiver:
        httpx.post(f"{receiver.url}/{SECRET}?x={SECRET}", headers={"X-Signature": SECRET}, trust_env=False)
        assert SECRET in receiver.got[0].path
    assert SECRET not in written.getvalue()


@pytest.mark.parametrize("level", ["DEBUG"])
def test_missing_template_variable_does_not_log_its_context(written: StringIO) -> None:
    assert Template("{{ made.name }}").render(Context({"made": {"key": SECRET}})) == ""
    assert SECRET not in written.getvalue()


@pytest.mark.parametrize("name", WARNINGS_ONLY)
def test_libraries_limited_to_warnings_still_log_errors_at_every_level(name: str) -> None:
    levels = {
        level: configuration(form="text", level=level, node="", access=False)["loggers"][name]["level"]
        for level in logs.LEVELS
    }
    assert levels == {"DEBUG": "WARNING", "INFO": "WARNING", "WARNING": "WARNING", "ERROR": "ERROR"}


# --- What goes on all day ---


def do(task: str, *, fails: bool = False) -> None:
    """What Celery 5.7 tells of a task that beat sends."""
    about = {"id": "4711", "name": task, "args": "()", "kwargs": "{}"}
    logging.getLogger("celery.beat").info("Scheduler: Sending due task %s (%s)", "its name", task)
    logging.getLogger("celery.worker.strategy").info("Task %(name)s[%(id)s] received", about | {"eta": None})
    if fails:
        about |= {"exc": "the database is away", "description": "raised expected"}
        logging.getLogger("celery.app.trace").info("Task %(name)s[%(id)s] %(description)s: %(exc)s", about)
    else:
        about |= {"return_value": "None", "runtime": "0.1"}
        logging.getLogger("celery.app.trace").info("Task %(name)s[%(id)s] succeeded in %(runtime)ss", about)


def test_routine_tasks_are_logged_only_when_they_fail(written: StringIO) -> None:
    for task in ROUTINE_TASKS:
        do(task)
    assert written.getvalue() == ""
    do("dashboard.tasks.take_outbox", fails=True)
    (line,) = written.getvalue().splitlines()
    assert "the database is away" in line


def test_occasional_task_is_logged(written: StringIO) -> None:
    do("analytics.tasks.scheduled_run")
    assert len(written.getvalue().splitlines()) == 3


def test_routine_tasks_are_registered() -> None:
    app.loader.import_default_modules()
    assert set(app.tasks) >= ROUTINE_TASKS


# --- Refusals ---


def test_a_wrong_host_is_one_line_that_says_what_to_set(written: StringIO) -> None:
    assert Client().get("/", headers={"host": f"evil.example.org{'x' * 300}"}).status_code == 400
    (line,) = written.getvalue().splitlines()
    assert "WARNING django.security.DisallowedHost" in line
    assert "'evil.example.org" in line
    assert "RTMPWEB_ALLOWED_HOSTS" in line
    assert len(line) < 300


@pytest.mark.django_db
def test_a_forbidden_page_is_one_line(written: StringIO) -> None:
    assert client_of(make_user()).get("/").status_code == 403
    (line,) = [line for line in written.getvalue().splitlines() if "django.request" in line]
    assert "Forbidden" in line
    assert "Traceback" not in written.getvalue()


def test_long_path_of_a_404_is_shortened_in_the_log(written: StringIO) -> None:
    logging.getLogger("django.request").warning("Not Found: %s", "/" + 5000 * "x", extra={"status_code": 404})
    assert len(written.getvalue()) < 300


def test_requests_killed_after_client_left_are_logged_in_few_lines(
    written: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "KILLED", Bound(6, 60.0))
    for _ in range(500):  # As Daphne's server has it.
        logging.getLogger("daphne.server").warning(
            "Application instance %r for connection %s took too long to shut down and was killed.",
            asyncio.Future,
            f"<WebRequest at 0x7f method=GET uri=/x?{SECRET}>",
        )
    lines = written.getvalue().splitlines()
    assert len(lines) == 6
    assert "after its client had gone" in lines[0]
    assert SECRET not in written.getvalue()


def test_a_fault_of_our_own_keeps_its_traceback(written: StringIO) -> None:
    try:
        raise ValueError("a fault of ours")
    except ValueError as fault:
        logging.getLogger("django.request").error(
            "Internal Server Error: %s", "/x", exc_info=fault, extra={"status_code": 500}
        )
    assert "Traceback" in written.getvalue()
    assert "a fault of ours" in written.getvalue()


def test_a_flood_of_refusals_has_few_lines_and_is_counted(written: StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(log_records, "time", SimpleNamespace(monotonic=lambda: now_s))
    client = Client()
    for _ in range(100):
        client.get("/", headers={"host": "evil.example.org"})
    assert len(written.getvalue().splitlines()) == 20
    now_s = 60.0
    client.get("/", headers={"host": "evil.example.org"})
    *_, last = written.getvalue().splitlines()
    assert "(and 80 more since this was logged last)" in last
