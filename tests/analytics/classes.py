"""An archive of Spark's classes, from which the Javas of a run start in a third of the processor's time.

`python -m tests.analytics.classes FILE` makes it as an installation makes its own (analytics.class_archive), which the
tests do without. Until it is there, and for a Java that it is not of, everything works without it.
"""

import os
import sys
from pathlib import Path

import django
from django.conf import settings

from tests.background import Background
from tests.tools import find_tool

PAYS_FROM = 20
"""Tests with Spark in one run: to make it takes as long as half a dozen cold starts of Java."""


def begin(tests: int) -> Background | None:
    """Has another process make the archive beside these tests, in a run that has so many with Spark."""
    from tests.settings import JAVA_CLASSES  # The module begins a run, if nothing has imported it before.

    if tests < PAYS_FROM or JAVA_CLASSES.exists() or find_tool("java") is None:
        return None
    maker = Background(
        "java-classes",
        [sys.executable, "-m", __name__, str(JAVA_CLASSES)],
        folder=JAVA_CLASSES.parent,
        environment={"RTMPWEB_DATA_DIR": str(JAVA_CLASSES.parent / "java-classes"), "SPARK_MASTER": "local[1]"},
        ready=JAVA_CLASSES.exists,
    )
    maker.launch()
    return maker


def make(file: Path) -> None:
    """Renamed to its name when it is whole."""
    options = os.environ["JDK_JAVA_OPTIONS"].split()
    os.environ["JDK_JAVA_OPTIONS"] = " ".join(option for option in options if "SharedArchiveFile" not in option)
    django.setup()
    from analytics import runner, spark

    spark.warm_up_spark()
    runner.stop()
    for made in (Path(settings.DATA_DIR) / "spark" / "classes").glob("*.jsa"):
        made.rename(file)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
