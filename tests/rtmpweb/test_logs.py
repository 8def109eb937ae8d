"""How records are written: as text and as JSON, with what they are about, from every kind of process."""

import asyncio
import json
import logging
import logging.config
import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from ingest.log_records import about
from rtmpweb import logs
from rtmpweb.logs import configuration, process_name
from rtmpweb.middleware import AccessLog
from tests.server_process import ROOT, wait_for


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
def test_a_task_knows_what_its_maker_was_about(lines: StringIO) -> None:
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
def test_a_text_line_ends_with_what_it_is_about(lines: StringIO) -> None:
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

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/x",
        "query_string": b"token=tell-nobody",
        "client": ("192.0.2.7", 5),
    }
    with caplog.at_level(logging.INFO, "rtmpweb.access"):
        asyncio.run(AccessLog(application)(scope, ignore, ignore))
    (record,) = caplog.records
    assert record.getMessage().startswith("GET /x 404 ")
    assert (record.__dict__["client"], record.__dict__["bytes"]) == ("192.0.2.7", 4)
    assert "tell-nobody" not in str(record.__dict__)


PAST_ALL_LOGGING = "worker: Warm shutdown"
"""Celery writes this from its signal handler."""


def environment(folder: Path, **settings: str) -> dict[str, str]:
    return {**os.environ, "RTMPWEB_DATA_DIR": str(folder), "PYTHONUNBUFFERED": "1", **settings}


@pytest.mark.slow("the whole server starts, or ends, as processes")
@pytest.mark.serve
def test_celerys_processes_write_the_same_json(tmp_path: Path) -> None:
    """A worker with its pool and its schedule, from the first line to the last."""
    settings = environment(tmp_path, RTMPWEB_LOG_FORMAT="json")
    subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], cwd=ROOT, env=settings, check=True, timeout=60)
    log = tmp_path / "log"
    with log.open("w") as output:
        worker = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "celery",
                "--quiet",
                "-A",
                "rtmpweb",
                "worker",
                "-Q",
                "default",
                "-c",
                "1",
                "--beat",
            ],
            cwd=ROOT,
            env=settings,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: " ready." in log.read_text(), timeout_s=40, what="the worker is ready")
        wait_for(lambda: "beat: Starting" in log.read_text(), timeout_s=40, what="so is its schedule")
    finally:
        worker.terminate()
        worker.wait(30)
    written = [line for line in log.read_text().splitlines() if line and not line.startswith(PAST_ALL_LOGGING)]
    found = [json.loads(line) for line in written]
    assert {record["process"] for record in found} == {"worker default"}
    assert len({record["pid"] for record in found}) > 1, "the schedule is a process of its own"


def test_a_wrong_format_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env=environment(tmp_path, RTMPWEB_LOG_FORMAT="xml"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == f"RTMPWEB_LOG_FORMAT is 'xml': expected one of {', '.join(logs.FORMATS)}.\n"
