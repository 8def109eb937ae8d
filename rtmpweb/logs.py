"""How log records are written: as lines of text, or as one JSON object a line (RTMPWEB_LOG_FORMAT).

Both have the time in UTC to the millisecond, and what the record is about (`ingest.logcontext`). Celery's processes and
Daphne write through the same handler: see `rtmpweb.celery` and `rtmpweb.access`.
"""

import logging
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from ingest import logcontext

FORMATS = ("text", "json")

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class AddContext(logging.Filter):
    """Notes on each record what it is about, as attributes; what the call itself gave (`extra`) stays."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in logcontext.current().items():
            record.__dict__.setdefault(name, value)
        return True


class TextLines(logging.Formatter):
    """`time level logger: message (session_id=..., ...)`, then a traceback if there is one."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name.
        # A peer's text never begins a line of its own.
        message = UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", record.message)
        fields = [f"{name}={record.__dict__[name]}" for name in logcontext.FIELDS if name in record.__dict__]
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
    if form == "json":
        formatter = {"()": "rtmpweb.logs.JsonLines", "node": node, "process": process_name(sys.argv)}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"context": {"()": "rtmpweb.logs.AddContext"}},
        "formatters": {"line": formatter},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["context"]}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            "daphne": {"level": "WARNING"},
            "django": {"handlers": [], "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            "rtmpweb.access": {"level": "INFO" if access else "WARNING"},
        },
    }
