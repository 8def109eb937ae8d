"""How log records are written: as lines of text, or as one JSON object a line (RTMPWEB_LOG_FORMAT).

Both have the time in UTC to the millisecond, and what the record is about (`ingest.log_records`). Celery's processes
and Daphne write through the same handler: see `rtmpweb.celery` and `rtmpweb.access`. What others' libraries would write
of secrets, and of what goes on all day, is left out here, in one place."""

import logging
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from ingest import log_records
from ingest.log_records import LONGEST_PATH, Bound, more

FORMATS = ("text", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")

WARNINGS_ONLY = (
    "daphne",  # DEBUG: a line for each step of each request.
    "django.db.backends",  # DEBUG: statements with their values, such as keys of sessions.
    "django.template",  # DEBUG: all that a template was given, where it lacks something.
    "httpcore",  # DEBUG: addresses and headers of requests, such as signatures.
    "httpx",  # INFO: the whole URL of each request, as of a webhook, which is a secret.
    "py4j",  # DEBUG: what Spark is told, its settings too.
)
"""Libraries that tell too much below this level, whatever RTMPWEB_LOG_LEVEL is."""

ROUTINE_TASKS = frozenset(
    {
        "analytics.reports.tasks.due_reports",
        "analytics.tasks.take_up",
        "dashboard.tasks.take_outbox",
        "ingest.tasks.deliver",
    }
)
"""Tasks that go on all day, and tell of what they do elsewhere."""

REFUSALS = Bound(20, 60.0)
"""Lines about requests that Django refused: anybody can have any number of them written."""

KILLED = Bound(6, 60.0)
"""Lines about applications that ran on when their clients had gone."""

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters, what begins a line, and what turns one round."""


class AddContext(logging.Filter):
    """Notes on each record what it is about, as attributes; what the call itself gave (`extra`) stays."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in log_records.current().items():
            record.__dict__.setdefault(name, value)
        return True


class LeaveRoutineOut(logging.Filter):
    """Celery tells of each task at INFO that it is due, that it was received and that it is done."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.INFO or _task_in_order(record) not in ROUTINE_TASKS


def _task_in_order(record: logging.LogRecord) -> str:
    """The task that was sent, received or done; empty: the record is of something else, such as one that failed."""
    args: Any = record.args
    if record.name == "celery.beat" and isinstance(args, tuple) and len(args) == 2:
        return str(args[1])
    if record.name in ("celery.worker.strategy", "celery.app.trace") and isinstance(args, Mapping):
        return "" if "exc" in args else str(args.get("name", ""))
    return ""


class ShortenRefusals(logging.Filter):
    """Of a request that Django refused: one short line, without a traceback, as nothing of ours has failed."""

    def filter(self, record: logging.LogRecord) -> bool:
        status = record.__dict__.get("status_code", 500)
        if not record.name.startswith("django.security.") and (record.name != "django.request" or status >= 500):
            return True
        if not logging.getLogger().isEnabledFor(logging.WARNING):
            return False
        left_out = REFUSALS.take()
        if left_out is None:
            return False
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        record.exc_info = record.exc_text = None
        record.msg, record.args = _refusal(record) + more(left_out), ()
        return True


class ShortenKilled(logging.Filter):
    """Daphne tells of each application that runs on when its client has gone: at length, with the URL, each second."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != "daphne.server" or "was killed" not in str(record.msg):
            return True
        left_out = KILLED.take()
        if left_out is None:
            return False
        words = "A request or a WebSocket was still worked on long after its client had gone, and was given up"
        record.msg, record.args = words + (more(left_out) or "."), ()
        return True


def _refusal(record: logging.LogRecord) -> str:
    request = record.__dict__.get("request")
    if record.name == "django.security.DisallowedHost" and request is not None:
        host = request.META.get("HTTP_HOST", "")[:100]
        return f"A request for the host {host!r} was refused: RTMPWEB_ALLOWED_HOSTS does not name it."
    return record.getMessage()[:LONGEST_PATH]


class TextLines(logging.Formatter):
    """`time level logger: message (session_id=..., ...)`, then a traceback if there is one."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name.
        # A peer's text never begins a line of its own.
        message = UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", record.message)
        fields = [f"{name}={record.__dict__[name]}" for name in log_records.FIELDS if name in record.__dict__]
        suffix = f" ({' '.join(fields)})" if fields else ""
        return f"{iso_time(record)} {record.levelname} {record.name}: {message}{suffix}"


class JsonLines(JsonFormatter):
    """`time`, `level`, `logger`, `message`, `node`, `process`, `pid`, what it is about, and `traceback`."""

    def __init__(self, node: str, process: str) -> None:
        super().__init__(
            ["time", "levelname", "name", "message"],
            rename_fields={
                "levelname": "level",
                "name": "logger",
                "exc_info": "traceback",
                "stack_info": "stack",
                "process": "pid",
            },
            reserved_attrs=[*RESERVED_ATTRS, "request"],  # Django's, whose URL has its query.
            json_ensure_ascii=False,
        )
        self._own = {"node": node, "process": process}

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        record.__dict__["time"] = iso_time(record)
        super().add_fields(log_data, record, message_dict)
        log_data.update(self._own, pid=record.process)


def iso_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def process_name(arguments: Sequence[str]) -> str:
    """What this process is, by its command line: serve, runrtmp, web, worker default, beat, ..."""
    program, *rest = [Path(arguments[0]).name if arguments else "", *arguments[1:]]
    words = [word for word in rest if not word.startswith("-")]
    if program == "daphne" or (program == "manage.py" and words[:1] == ["runweb"]):
        return "web"
    if "celery" in (program, Path(arguments[0]).parent.name if arguments else ""):
        if "worker" in words:
            queues = [rest[index + 1] for index, word in enumerate(rest[:-1]) if word in ("-Q", "--queues")]
            return f"worker {queues[0]}" if queues else "worker"
        return "beat" if "beat" in words else "celery"
    return words[0] if program == "manage.py" and words else program


def configuration(*, form: str, level: str, node: str, access: bool) -> dict[str, Any]:
    """Django's LOGGING. `access`: whether requests are logged, one line each."""
    formatter: dict[str, Any] = {"()": "rtmpweb.logs.TextLines"}
    filters = [AddContext(), LeaveRoutineOut(), ShortenRefusals(), ShortenKilled()]
    if form == "json":
        formatter = {"()": "rtmpweb.logs.JsonLines", "node": node, "process": process_name(sys.argv)}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line", "filters": filters}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            **{name: {"level": max(level, "WARNING", key=LEVELS.index)} for name in WARNINGS_ONLY},
            "django": {"handlers": [], "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            "rtmpweb.access": {"level": "INFO" if access else "WARNING"},
        },
    }
