"""The Spark session and its life: started when first needed, kept warm in its process, replaced when its JVM is lost.

Where Spark runs is a setting: SPARK_REMOTE (Spark Connect) before SPARK_MASTER (a standalone cluster) before this
machine's cores less one. The jobs use the DataFrame API only, so that all three work. A cluster that can't give a
worker says nothing, and a job waits for it for ever: so it is asked. A session must not be made before a fork."""

import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from analytics import class_archive
from analytics.java import launching
from analytics.soft_limit import outside_thread_starts


class SparkLost(Exception):  # noqa: N818
    """Spark is not there (any more): its JVM died, or the cluster is away. The next session is a new one."""


AWAY = "Spark does not answer at {address}. Check that it runs there, and what {setting} says."
NO_WORKER = (
    "The Spark cluster at {address} gave no worker within {seconds:.0f} s. Check that its workers run, and that one "
    "has {memory} of memory (RTMPWEB_SPARK_MEMORY) and a core free."
)

ANSWER_S = 5.0
WORKER_S = 60.0
CONNECT_PORT = 15002


def is_standalone() -> bool:
    return bool(not settings.SPARK_REMOTE and settings.SPARK_MASTER.startswith("spark://"))


def answers() -> bool:
    """Whether something listens where the cluster should be."""
    for address in _addresses():
        host, _, port = address.rpartition(":")
        where = (host.strip("[]"), int(port)) if host else (port, CONNECT_PORT)
        with suppress(OSError), socket.create_connection(where, ANSWER_S):
            return True
    return False


def require_answer() -> None:
    """Raises SparkLost, where starting a session would only fail after a minute or ten."""
    if not answers():
        setting = "SPARK_REMOTE" if settings.SPARK_REMOTE else "SPARK_MASTER"
        raise SparkLost(AWAY.format(address=_addresses()[0], setting=setting))


def workers(session: Any) -> int:
    """How many executors the session has of its cluster. The driver is counted as one."""
    return int(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def require_worker(session: Any) -> None:
    """Waits for the first. Raises SparkLost."""
    deadline = time.monotonic() + WORKER_S
    while not workers(session):
        if time.monotonic() > deadline:
            raise SparkLost(_no_worker())
        time.sleep(0.1)


@contextmanager
def watch_workers(session: Any) -> Iterator[None]:
    """Ends the session's jobs when it has had no worker for too long. Raises SparkLost then."""
    ended, is_alone = threading.Event(), threading.Event()

    def watch() -> None:
        seen = time.monotonic()
        while not ended.wait(min(WORKER_S / 10, ANSWER_S)):
            try:
                if workers(session):
                    seen = time.monotonic()
                elif time.monotonic() - seen > WORKER_S:
                    is_alone.set()
                    session.sparkContext.cancelAllJobs()
            except Exception:
                return  # Its JVM is lost, as whoever uses it sees.

    thread = threading.Thread(target=watch, name="spark-watch", daemon=True)
    thread.start()
    try:
        yield
    except Exception as error:
        if is_alone.is_set():
            raise SparkLost(_no_worker()) from error
        raise
    finally:
        ended.set()
        thread.join(ANSWER_S)


def _addresses() -> list[str]:
    """host:port of the server, or of each master. What follows them in the URL may be secret."""
    where = settings.SPARK_REMOTE or settings.SPARK_MASTER
    return str(where).partition("://")[2].partition("/")[0].split(",")


def _no_worker() -> str:
    return NO_WORKER.format(address=_addresses()[0], seconds=WORKER_S, memory=settings.SPARK_MEMORY)


log = logging.getLogger(__name__)
logging.getLogger("py4j").setLevel(logging.ERROR)  # Else it tells of each connection that it closes.

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

COMMON = {
    "spark.sql.session.timeZone": "UTC",
    # An hour has many small files: a Spark job to list them takes longer than the driver does.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # Of more groups than 128 it would sort what it gathers.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # What it merges is little: it would take longer to look at each stage before the next than to do it.
    "spark.sql.adaptive.enabled": "false",
}
"""Any Spark: settings of a session."""

DRIVER = {
    "spark.app.name": "rtmpweb",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A run has some hundred generated classes: of a hundred that are kept the first is gone when it comes again.
    "spark.sql.codegen.cache.maxEntries": "2000",
}
"""A driver of our own (not Spark Connect): settings of its JVM."""

JAVA = [
    "-XX:+UseSerialGC",
    # Most of what it does is to plan, once each: the compiler that takes its time would not earn it back. The hasty one
    # has little room when it is alone, and stops when it is full.
    *("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"),
    *("-Xlog:disable", "-Xlog:all=error:stderr"),  # It would name each class that is not for the archive.
    f"-Dlog4j2.configurationFile=file:{LOG_SETTINGS}",
]
"""Options of the driver's JVM."""

LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""All in one process: nothing listens on the network."""


LOST = "Spark's Java process was lost."
LOST_AT_START = "Spark's Java process ended as it started. The analytics worker's log says why."

ENDING_S = 5.0

CONNECT_RETRIES = 7
"""Of a call to Spark Connect: about a minute; its own default is ten."""

_current: Any = None

_doubtful = False
"""Whether the session, on a cluster, has failed: the next one is a new one."""


@contextmanager
def spark() -> Iterator[SparkSession]:
    """The process's session. Raises JavaMissing, and SparkLost when Spark can't be had, or is lost meanwhile."""
    global _doubtful
    if _lost():
        discard()
    if _doubtful:
        stop()
        _doubtful = False
    try:
        with outside_thread_starts():
            session = _session()
            with watch_workers(session) if is_standalone() else nullcontext():
                yield session
    except Exception as error:
        if _lost(ENDING_S if _unanswered(error) else 0.0):
            discard()
            raise SparkLost(LOST) from error
        if isinstance(error, PySparkRuntimeError) and error.getCondition() == "JAVA_GATEWAY_EXITED":
            raise SparkLost(LOST_AT_START) from error
        # If it was the cluster that failed, this session would fail for ever. Not ended yet: the JVM tells the error.
        local = settings.SPARK_MASTER.startswith("local")
        _doubtful = bool(settings.SPARK_REMOTE or (settings.SPARK_MASTER and not local))
        raise


def is_warm() -> bool:
    return _current is not None and not _lost()


def keep_classes() -> None:
    """Has the next Java of this machine start faster, once this one has done something."""
    if is_warm() and not settings.SPARK_REMOTE:
        class_archive.make(_current)


def stop() -> None:
    if is_warm():
        try:
            _current.stop()
        except Exception as error:  # Of a server or a JVM that does not answer any more.
            log.warning("Spark's session did not end in order: %s", type(error).__name__)
    discard()


def discard() -> None:
    """Ends the JVM at once, whatever it is doing, and makes PySpark start a new one: its classes keep the gateway for
    the process's life, dead or alive.
    """
    global _current
    _current = None
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway._gateway_client.is_connected = (
            False  # Else py4j's thread, which tells of garbage, calls one that is gone.
        )
        gateway.close()
    process = _process()
    if process is not None:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _session() -> Any:
    """The one that is warm, if it is still good for something; else a new one."""
    global _current
    if _current is not None and not _is_whole(_current):
        stop()
    if _current is None:
        _current = _connected() if settings.SPARK_REMOTE else _started()
    return _current


def _is_whole(session: Any) -> bool:
    try:
        if settings.SPARK_REMOTE:
            if not answers():
                session.release_session_on_close = False  # Else its end would wait for the server.
                return False
            return bool(session.range(1).count())  # A server that was started again knows no former session.
        # A master that was started again gives former applications nothing, and they would wait for ever.
        is_stopped = session.sparkContext._jsc.sc().isStopped()
        return not is_stopped and (not is_standalone() or workers(session) > 0)
    except Exception as error:
        log.warning("Spark's session is lost, and another is started: %s", type(error).__name__)
        return False


def _connected() -> Any:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    require_answer()
    session = SparkSession.builder.remote(settings.SPARK_REMOTE).config(map={**COMMON}).getOrCreate()
    session.client.set_retry_policies([DefaultPolicy(max_retries=CONNECT_RETRIES)])
    return session


def _started() -> SparkSession:
    os.environ.pop("SPARK_REMOTE", None)  # An empty one, too, makes PySpark refuse a master.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    master = settings.SPARK_MASTER or f"local[{max(1, (os.cpu_count() or 2) - 1)}]"
    memory = {"spark.driver.memory": settings.SPARK_MEMORY, "spark.executor.memory": settings.SPARK_MEMORY}
    chosen = COMMON | DRIVER | memory | _places()
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        chosen |= LOOPBACK
    if is_standalone():
        require_answer()
    with _environment(launching()):
        session: SparkSession = SparkSession.builder.master(master).config(map={**chosen}).getOrCreate()
    if is_standalone():
        try:
            require_worker(session)
        except SparkLost:
            session.stop()
            discard()
            raise
    return session


@contextmanager
def _environment(wanted: dict[str, str]) -> Iterator[None]:
    """Of a JVM that is started meanwhile."""
    former = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
    java = [*JAVA, f"-Djava.io.tmpdir={own}", *class_archive.options()]
    return {
        "spark.local.dir": str(own),
        "spark.sql.warehouse.dir": str(own / "warehouse"),
        "spark.driver.extraJavaOptions": " ".join(java),
    }


def _process() -> "subprocess.Popen[bytes] | None":
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process


def _unanswered(error: Exception) -> bool:
    """Whether the JVM said nothing. That may be noticed before the end of the process, which takes its time to go."""
    return isinstance(error, (ConnectionError, Py4JError)) and not isinstance(error, Py4JJavaError)


def _lost(wait_s: float = 0.0) -> bool:
    process = _process()
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(wait_s)
    return process.returncode is not None
