"""What our workers have beside Celery's parts: the schedule as a thread, an end for want of work, a bound on memory,
and Spark that is warm.

`celery worker --schedule-thread` keeps the schedule (beat) in the worker's process, where `--beat` would fork another.
`--rest-after SECONDS` ends a worker that has had nothing to do for so long: whoever starts it knows when there is work.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Any

from celery import bootsteps
from celery.beat import Service
from celery.platforms import EX_FAILURE, EX_OK
from celery.worker import state as worker_state

log = logging.getLogger(__name__)

state: Any = worker_state
"""Celery's own of this worker; its stub lacks what is used here."""

POLL_S = 1.0
"""How often a worker checks whether it has anything to do."""

MEASURE_S = 2.0
"""How often one measures how large it is."""

WARM_UP = "analytics.tasks.warm_up"
WARM_UP_S = 60

WITHIN = ("celery.concurrency.solo", "celery.concurrency.thread")
"""Pools whose tasks run in the worker's own process. Celery does not replace it, however large it has grown."""


class ScheduleThread(bootsteps.StartStopStep):
    """The schedule. A worker whose schedule has ended, ends too: whoever keeps it running starts both again."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, schedule_thread: bool = False, **options: Any) -> None:
        super().__init__(worker, **options)
        self.enabled = schedule_thread

    def start(self, worker: Any) -> None:
        # A daemon: what is due is taken in the table before it is sent, so that a sudden end repeats nothing.
        threading.Thread(target=_keep_schedule, args=(worker.app,), name="schedule", daemon=True).start()


def _keep_schedule(app: Any) -> None:
    app.set_current()
    service: Any = Service  # Its stub lacks an argument.
    try:
        service(app, scheduler_cls=app.conf.beat_scheduler, remote_control=False).start()
        log.error("The schedule has ended: its worker ends too, to be started again.")
    except SystemExit as error:  # A sentence for the operator.
        log.error("%s", error)
    except Exception:
        log.exception("The schedule failed: its worker ends too, to be started again.")
    state.should_stop = EX_FAILURE


class EndWhenIdle(bootsteps.StartStopStep):
    """Ends a worker that has had no task for a while. One that comes in that moment waits for the next worker."""

    requires = ("celery.worker.components:Timer",)

    def __init__(self, worker: Any, rest_after: float | None = None, **options: Any) -> None:
        super().__init__(worker, **options)
        self.enabled = rest_after is not None
        self._after_s = rest_after or 0.0
        self._busy_at = time.monotonic()

    def start(self, worker: Any) -> None:
        worker.timer.call_repeatedly(POLL_S, self._check)

    def _check(self) -> None:
        if state.reserved_requests or state.active_requests or state.scheduled_requests:
            self._busy_at = time.monotonic()
        elif time.monotonic() - self._busy_at > self._after_s:
            _end()


class MemoryLimit(bootsteps.StartStopStep):
    """Ends a worker that does its tasks itself and has grown over what a pool's process may have."""

    requires = ("celery.worker.components:Pool", "celery.worker.components:Timer")

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self.enabled = worker.pool_cls.__module__ in WITHIN
        self._max_kib: int = worker.max_memory_per_child

    def start(self, worker: Any) -> None:
        worker.timer.call_repeatedly(MEASURE_S, self._check)

    def _check(self) -> None:
        size_kib = _resident_kib()
        if size_kib > self._max_kib:
            log.warning("The worker has grown to %d MiB: it ends, to be started again.", size_kib // 1024)
            _end()


class WarmSpark(bootsteps.StartStopStep):
    """Has the analytics' worker warm Spark up before its first job. Where it rests, each job has a process of its own,
    and with it end Java and all that was loaded for it.
    """

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, rest_after: float | None = None, **options: Any) -> None:
        super().__init__(worker, **options)
        self.enabled = "analytics" in worker.app.amqp.queues.consume_from and rest_after is None

    def start(self, worker: Any) -> None:
        # Not what waits for a worker that comes much later: by then it has had something to do.
        worker.app.send_task(WARM_UP, expires=WARM_UP_S)

    def stop(self, worker: Any) -> None:
        """What nobody has asked for does not hold the worker's end up."""
        for request in tuple(state.active_requests):
            if request.name == WARM_UP:
                request.terminate(worker.pool, signal="USR1")  # In it this is SoftTimeLimitExceeded.


def _end() -> None:
    """In order, unless it ends already."""
    if state.should_stop is None:
        state.should_stop = EX_OK


def _resident_kib() -> int:
    """This process's memory; 0 where there is no /proc."""
    try:
        return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])
    except (OSError, IndexError):
        return 0
