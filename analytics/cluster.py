"""A Spark that is elsewhere: a standalone cluster (SPARK_MASTER=spark://...) or Spark Connect (SPARK_REMOTE).

A cluster that can't give a worker says nothing, and a job waits for it for ever: here it is asked.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.conf import settings


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


def demand_answer() -> None:
    """Raises SparkLost, where starting a session would only fail after a minute or ten."""
    if not answers():
        setting = "SPARK_REMOTE" if settings.SPARK_REMOTE else "SPARK_MASTER"
        raise SparkLost(AWAY.format(address=_addresses()[0], setting=setting))


def workers(session: Any) -> int:
    """How many executors the session has of its cluster. The driver is counted as one."""
    return int(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def demand_worker(session: Any) -> None:
    """Waits for the first. Raises SparkLost."""
    deadline = time.monotonic() + WORKER_S
    while not workers(session):
        if time.monotonic() > deadline:
            raise SparkLost(_no_worker())
        time.sleep(0.1)


@contextmanager
def watched(session: Any) -> Iterator[None]:
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
