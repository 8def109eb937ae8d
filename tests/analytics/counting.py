"""A task for an analytics worker of tests: all that it does is use Spark."""

from pathlib import Path

from analytics import runner
from rtmpweb.celery import app


@app.task(name="tests.count")
def count(file: str) -> None:
    with runner.spark() as session:
        Path(file).write_text(str(session.range(5).count()))
