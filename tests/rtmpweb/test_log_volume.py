"""What is not written: secrets that libraries tell of, what goes on all day, and more than a line for a refusal."""

import asyncio
import logging
import logging.config
from collections.abc import Iterator
from io import StringIO
from types import SimpleNamespace

import httpx
import pytest
from django.template import Context, Template
from django.test import Client

from ingest import log_records
from ingest.log_records import Bound
from rtmpweb import logs
from rtmpweb.celery import app
from rtmpweb.logs import ROUTINE_TASKS, WARNINGS_ONLY, configuration
from tests.dashboard.conftest import client_of, make_user
from tests.receivers import http_receiver

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
def test_no_url_is_told_that_something_is_posted_to(written: StringIO) -> None:
    with http_receiver() as receiver:
        httpx.post(f"{receiver.url}/{SECRET}?x={SECRET}", headers={"X-Signature": SECRET}, trust_env=False)
        assert SECRET in receiver.got[0].path
    assert SECRET not in written.getvalue()


@pytest.mark.parametrize("level", ["DEBUG"])
def test_what_a_template_lacks_does_not_tell_what_it_was_given(written: StringIO) -> None:
    assert Template("{{ made.name }}").render(Context({"made": {"key": SECRET}})) == ""
    assert SECRET not in written.getvalue()


@pytest.mark.parametrize("name", WARNINGS_ONLY)
def test_errors_of_these_libraries_are_told_at_every_level(name: str) -> None:
    levels = {
        level: configuration(form="text", level=level, node="", access=False)["loggers"][name]["level"]
        for level in logs.LEVELS
    }
    assert levels == {"DEBUG": "WARNING", "INFO": "WARNING", "WARNING": "WARNING", "ERROR": "ERROR"}


# --- What goes on all day ---


def run(task: str, *, fails: bool = False) -> None:
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


def test_what_is_done_again_and_again_is_told_only_when_it_fails(written: StringIO) -> None:
    for task in ROUTINE_TASKS:
        run(task)
    assert written.getvalue() == ""
    run("dashboard.tasks.take_outbox", fails=True)
    (line,) = written.getvalue().splitlines()
    assert "the database is away" in line


def test_what_is_done_now_and_then_is_told(written: StringIO) -> None:
    run("analytics.tasks.scheduled_run")
    assert len(written.getvalue().splitlines()) == 3


def test_these_tasks_are_there() -> None:
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


def test_the_path_of_nothing_is_not_told_whole(written: StringIO) -> None:
    logging.getLogger("django.request").warning("Not Found: %s", "/" + 5000 * "x", extra={"status_code": 404})
    assert len(written.getvalue()) < 300


def test_what_is_killed_for_those_who_left_is_told_in_few_short_lines(
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
