"""The Celery application: what is told of tasks that fail."""

import logging

import pytest
from django.db import OperationalError

from rtmpweb.celery import app


@app.task
def kept_waiting() -> None:
    raise OperationalError("database is locked")


@app.task
def broken() -> None:
    raise ValueError("a fault of ours")


def test_a_busy_database_is_told_in_a_line_and_a_fault_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "celery")
    kept_waiting.apply(throw=False)
    broken.apply(throw=False)
    waited, fault = caplog.records
    assert "database is locked" in waited.getMessage()
    assert (waited.levelno, waited.exc_info) == (logging.INFO, None)
    assert "a fault of ours" in fault.getMessage()
    assert fault.levelno == logging.ERROR
    assert fault.exc_info
