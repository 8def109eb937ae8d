"""Tasks for workers of tests: one says in which process, one uses Spark. Such workers look at themselves often."""

import os
from pathlib import Path

from rtmpweb import bootsteps
from rtmpweb.celery import app

bootsteps.POLL_S = bootsteps.MEASURE_S = 0.1


@app.task(name="tests.note")
def note(file: str) -> None:
    Path(file).write_text(str(os.getpid()))


@app.task(name="tests.count")
def count(file: str) -> None:
    from analytics import runner

    with runner.spark() as session:
        Path(file).write_text(str(session.range(5).count()))
