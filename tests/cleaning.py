"""What a test leaves behind: threads that still ask the database, what waits to be written to it, and emptied tables.

PostgreSQL resolves it as a deadlock when a test's tables are emptied meanwhile, and what is written later stands among
the next test's rows. Django rolls back what a test did where it can, and else empties all tables, also of what
migrations put into them (roles, scheduled tasks). Its own answer is to run the latter tests last, which files that
stay on one parallel worker can't do.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
from asgiref.sync import SyncToAsync
from django.apps import apps
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import RunPython
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import StateApps
from pytest_django.plugin import blocking_manager_key

from dashboard import consumers as pages
from ingest.consumers import decisions
from ingest.services import history_writer

WITHIN_S = 20

POOLS: tuple[tuple[ThreadPoolExecutor, int], ...] = (
    (decisions.READ, decisions.READ_THREADS),
    (decisions.WRITE, 1),
    (pages.READ, pages.READ_THREADS),
    (SyncToAsync.single_thread_executor, 1),
)
"""With as many threads."""


def settle() -> None:
    """Waits until all of it is over. The next test has a history of its own: what this one's remembers is gone."""
    for pool, threads in POOLS:
        _wait_for(pool, threads)
    writer, history_writer._writer = history_writer._writer, None
    if writer is not None:
        assert writer.close(WITHIN_S), "the test's history can't be written"


def _wait_for(pool: ThreadPoolExecutor, threads: int) -> None:
    together = threading.Barrier(threads + 1)
    for _ in range(threads):
        pool.submit(together.wait, WITHIN_S)
    together.wait(WITHIN_S)


APPLICATIONS = {"ingest", "dashboard", "analytics"}


class Migrated:
    """Told of each test that is about to begin; once a process."""

    def __init__(self) -> None:
        self._is_emptied = False

    def prepare(self, item: pytest.Item) -> None:
        """Before its fixtures are made."""
        if empties_database(item):
            self._is_emptied = True
        elif self._is_emptied and asks_database(item):
            with item.config.stash[blocking_manager_key].unblock():
                _put_back()
            self._is_emptied = False


def empties_database(item: pytest.Item) -> bool:
    """Rather than to roll back what it did."""
    mark = item.get_closest_marker("django_db")
    return "transactional_db" in getattr(item, "fixturenames", ()) or bool(mark and mark.kwargs.get("transaction"))


def asks_database(item: pytest.Item) -> bool:
    fixtures = {"db", "transactional_db"} & set(getattr(item, "fixturenames", ()))
    return bool(fixtures or item.get_closest_marker("django_db"))


def _put_back() -> None:
    """They all make only what is missing."""
    for (application, _), migration in sorted(MigrationLoader(None).disk_migrations.items()):
        if application in APPLICATIONS:
            for operation in migration.operations:
                if isinstance(operation, RunPython):
                    operation.code(cast(StateApps, apps), cast(BaseDatabaseSchemaEditor, None))
