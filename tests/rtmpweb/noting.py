"""A task for workers of tests: all that it does is say in which process."""

import os
from pathlib import Path

from rtmpweb.celery import app


@app.task(name="tests.note")
def note(file: str) -> None:
    Path(file).write_text(str(os.getpid()))
