"""The Spark session and its life: started when first needed, kept warm in its process, replaced when its JVM is lost.

Where Spark runs is a setting: SPARK_REMOTE (Spark Connect) before SPARK_MASTER before this machine's cores less one.
The jobs use the DataFrame API only, so that all three work. A session must not be made before a fork.
"""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from analytics.java import find_java

log = logging.getLogger(__name__)
logging.getLogger("py4j").setLevel(logging.ERROR)  # Else it tells of each connection that it closes.

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

COMMON = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""Any Spark: settings of a session."""

DRIVER = {
    "spark.app.name": "rtmpweb",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""A driver of our own (not Spark Connect): settings of its JVM."""

LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""All in one process: nothing listens on the network."""


class SparkLost(Exception):  # noqa: N818
    """Spark's JVM died; the next session starts another."""


LOST = "Spark's Java process was lost."
LOST_AT_START = "Spark's Java process ended as it started. The analytics worker's log says why."

ENDING_S = 5.0

_doubtful = False
"""Whether the session, on a cluster, has failed: the next one is a new one."""


@contextmanager
def spark() -> Iterator[SparkSession]:
    """The process's session. Raises JavaMissing, and SparkLost when the JVM dies while the session is in use."""
    global _doubtful
    if _lost():
        _forget()
    if _doubtful:
        stop()
        _doubtful = False
    try:
        yield _session()
    except Exception as error:
        # The lost connection may be noticed before the end of the process that it led to.
        if _lost(ENDING_S if isinstance(error, (ConnectionError, Py4JNetworkError)) else 0.0):
            _forget()
            raise SparkLost(LOST) from error
        if isinstance(error, PySparkRuntimeError) and error.getCondition() == "JAVA_GATEWAY_EXITED":
            raise SparkLost(LOST_AT_START) from error
        # If it was the cluster that failed, this session would fail for ever. Not ended yet: the JVM tells the error.
        _doubtful = bool(settings.SPARK_REMOTE or settings.SPARK_MASTER)
        raise


def stop() -> None:
    """Ends the session and its JVM."""
    session = SparkSession.getActiveSession()
    if session is not None and not _lost():
        try:
            session.stop()
        except Exception as error:  # Of a server or a JVM that does not answer any more.
            log.warning("Spark's session did not end in order: %s", type(error).__name__)
    discard()


def discard() -> None:
    """Ends the JVM at once, whatever it is doing."""
    _disconnect()
    process = _process()
    if process is not None:
        process.kill()
    _forget()


def _session() -> SparkSession:
    builder = SparkSession.builder
    if settings.SPARK_REMOTE:
        builder = builder.remote(settings.SPARK_REMOTE)
        chosen = COMMON
    else:
        os.environ.pop("SPARK_REMOTE", None)  # An empty one, too, makes PySpark refuse a master.
        os.environ["JAVA_HOME"] = str(find_java())
        os.environ["PYSPARK_PYTHON"] = sys.executable
        master = settings.SPARK_MASTER or f"local[{max(1, (os.cpu_count() or 2) - 1)}]"
        builder = builder.master(master)
        chosen = COMMON | DRIVER | _places()
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            chosen |= LOOPBACK
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # Signal 0 only asks.
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _places() -> dict[str, str]:
    """Where the JVM keeps its temporary files: a folder of this process's own, as a killed JVM leaves them behind.

    Folders of processes that have ended are removed.
    """
    base = settings.DATA_DIR / "spark"
    for folder in base.glob("[0-9]*"):
        if not _runs(int(folder.name)):
            shutil.rmtree(folder, ignore_errors=True)
    own = base / str(os.getpid())
    own.mkdir(parents=True, exist_ok=True)
    java = f"-XX:+UseSerialGC -Dlog4j2.configurationFile=file:{LOG_SETTINGS} -Djava.io.tmpdir={own}"
    return {
        "spark.local.dir": str(own),
        "spark.sql.warehouse.dir": str(own / "warehouse"),
        "spark.driver.extraJavaOptions": java,
    }


def _process() -> "subprocess.Popen[bytes] | None":
    """The JVM that this process started."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process


def _lost(wait_s: float = 0.0) -> bool:
    process = _process()
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(wait_s)
    return process.returncode is not None


def _disconnect() -> None:
    """Keeps py4j's thread, which tells the JVM of garbage, from calling one that is gone."""
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway._gateway_client.is_connected = False
        gateway.close()


def _forget() -> None:
    """Makes PySpark start a new JVM: its classes keep the gateway for the process's life, dead or alive."""
    _disconnect()
    process = _process()
    if process is not None:
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
