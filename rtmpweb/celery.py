"""The Celery application. Tasks are short, take ids and dates as JSON, and never a secret."""

import gc
import logging
import logging.config
import os
import threading
import warnings
from pathlib import Path
from typing import Any

from celery import Celery, Task
from celery.signals import beat_init, celeryd_init, setup_logging, worker_before_create_process, worker_ready
from click import Option
from django.conf import settings
from django.db import DatabaseError, OperationalError, connections

from ingest.management.parent_death import die_with_parent
from ingest.services import data_folder
from ingest.services.database import PASSING
from rtmpweb import broker, env

logger = logging.getLogger(__name__)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rtmpweb.settings")

# Celery warns of root because of pickle, which it does not accept unless it is told to.
warnings.filterwarnings("ignore", message="You're running the worker with superuser")


_to_check = False
"""Whether the database was away when this worker started: its processes look before their first task."""


class PatientTask(Task):  # type: ignore[type-arg]
    """A database that is away, or takes no writes, is told of in one line: whatever is sent here is sent again."""

    throws = PASSING

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _to_check:
            _check()
        return super().__call__(*args, **kwargs)


def _check() -> None:
    """A database that is none to work with is, for a task, one that is away."""
    from ingest.services import installation

    try:
        installation.check_once()
    except installation.StartError as error:
        raise OperationalError(str(error)) from error


# Celery would make Django's checks and tell nobody of what they find, and for them load pages, API and admin.
os.environ["CELERY_SKIP_CHECKS"] = "true"

broker.register_transports()
app: "Celery[Task[Any, Any]]" = Celery("rtmpweb", task_cls=PatientTask)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# By their names: what they need is loaded in workers alone.
app.steps["worker"].update(
    f"rtmpweb.bootsteps:{name}" for name in ("ScheduleThread", "EndWhenIdle", "MemoryLimit", "WarmSpark")
)
app.user_options["worker"].update(
    {
        Option(["--schedule-thread"], is_flag=True, help="Keep the schedule too, in a thread."),
        Option(["--rest-after"], type=float, metavar="SECONDS", help="End after so long without a task."),
    }
)


@app.on_configure.connect
def read_settings(**_: Any) -> None:
    """Celery asks for its own among them first of all."""
    env.read_or_exit()


@app.on_after_configure.connect
def make_broker_folders(sender: Celery, **_: Any) -> None:
    """The filesystem broker expects the folders that it is told of; a Redis broker has none."""
    options = sender.conf.broker_transport_options
    for name in ("data_folder_in", "data_folder_out", "control_folder"):
        if name in options:
            Path(options[name]).mkdir(parents=True, exist_ok=True)


@setup_logging.connect
def log_as_the_others_do(**_: Any) -> None:
    """Celery leaves its loggers alone when somebody answers this signal: they write by the project's settings."""
    logging.config.dictConfig(settings.LOGGING)


@celeryd_init.connect
@beat_init.connect
def check_installation(**_: Any) -> None:
    """As every process does. A database that is away is waited for."""
    global _to_check
    from ingest.services import installation

    data_folder.restrict_new_files()
    try:
        installation.check_once()
    except installation.StartError as error:
        raise SystemExit(str(error)) from None
    except DatabaseError as error:
        logger.warning("The database does not answer yet: %s", error)
        _to_check = True
    finally:
        connections.close_all()  # The processes that are forked make their own.


@celeryd_init.connect
def end_after_a_job(conf: Any, options: dict[str, Any], **_: Any) -> None:
    """Of the analytics' worker, where it rests: with the process end Spark's Java and all that was loaded for it."""
    if "analytics" in (options.get("queues") or ()) and options.get("rest_after") is not None:
        conf.worker_max_tasks_per_child = 1


@celeryd_init.connect
def end_with_the_worker(**_: Any) -> None:
    """The schedule's and the pool's processes die with a worker that is killed, not beside its successor."""
    os.register_at_fork(after_in_child=die_with_parent)


@worker_before_create_process.connect
def share_loaded_modules(**_: Any) -> None:
    """With the process that is forked now: the collector would write to each object, and so make it a copy."""
    gc.collect()
    gc.freeze()


@worker_ready.connect
def show_that_the_worker_lives(sender: Any, **_: Any) -> None:
    """Once it takes tasks. The status of parts reads these signs. For one that rests, who starts it gives them."""
    from rtmpweb.heartbeats import worker_heartbeat

    if sender.controller.options.get("rest_after") is None:
        worker_heartbeat(sender).start()


@beat_init.connect
def show_that_the_schedule_lives(**_: Any) -> None:
    """For as long as the thread goes on that keeps it, which a process's first does."""
    from rtmpweb.heartbeats import schedule_heartbeat

    schedule_heartbeat(threading.current_thread().is_alive).start()
