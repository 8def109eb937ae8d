"""The pytest plugin of the tiers that use Django: their database, and what one test must not leave to the next.

A test can leave threads that still query the database, rows that wait to be written, and emptied tables. PostgreSQL
reports a deadlock if tables are emptied meanwhile, and late rows turn up in the next test.

Where Django can't roll back, it empties all tables, including rows that migrations made (roles, scheduled tasks). It
runs such tests last, which is impossible if a file stays on one parallel worker, so we put those rows back. We do the
same with the permissions, which Django would make anew after each such test: that takes longer than most of the tests.
"""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
import redis
from _pytest.config import apply_warning_filters
from asgiref.sync import SyncToAsync
from django.apps import apps
from django.conf import settings
from django.contrib.auth.management import create_permissions
from django.contrib.contenttypes.management import create_contenttypes
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import RunPython
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import StateApps
from django.db.models.signals import post_migrate
from pytest_django.plugin import blocking_manager_key

from dashboard import consumers as pages
from ingest.consumers import decisions
from ingest.services import history_writer
from tests.server_process import copy_tables
from tests.settings import MISSING_STORES

WITHIN_S = 20

POOLS: tuple[tuple[ThreadPoolExecutor, int], ...] = (
    (decisions.READ, decisions.READ_THREADS),
    (decisions.WRITE, 1),
    (pages.READ, pages.READ_THREADS),
    (SyncToAsync.single_thread_executor, 1),
)
"""The product's thread pools, each with its number of threads."""


def pytest_configure(config: pytest.Config) -> None:
    if settings.REDIS_URL:  # A Redis client stays open until its test's event loop is closed, and goes with it.
        filters = ["ignore::ResourceWarning", "ignore:.*StreamWriter.__del__:pytest.PytestUnraisableExceptionWarning"]
        for line in filters:
            config.addinivalue_line("filterwarnings", line)
        # pytest has set its own filters for what is collected as garbage after the last test by now.
        apply_warning_filters(filters, [])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("TESTS_FORM") == "production" and MISSING_STORES:
        for item in items:
            item.add_marker(pytest.mark.skip(f"needs {', '.join(MISSING_STORES)} (Debian packages)"))


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Keep the database: PostgreSQL ends with the run, so nobody has to drop a database that threads still use.

    SQLite's file has its tables from `copy_tables`, and is removed with the run's folder.
    """
    return True


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """Copy SQLite's tables, which take long to make, once each parallel worker has a database name of its own."""
    if connection.vendor == "sqlite":
        copy_tables(Path(connection.settings_dict["TEST"]["NAME"]))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> None:
    """Stop Django from making the permissions again each time it empties the tables; we put them back when needed."""
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    post_migrate.disconnect(create_contenttypes)


@pytest.fixture(autouse=True)
def empty_redis() -> None:
    """Empty this worker's Redis database, in the production form."""
    if settings.REDIS_URL:
        with redis.Redis.from_url(settings.REDIS_URL) as client:
            client.flushdb()


@pytest.fixture(autouse=True)
def settle_after_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Wait for the end of what a test and its fixtures began before their tables are emptied."""
    empties = empties_database(request.node)
    if empties:
        request.getfixturevalue("transactional_db")
    yield
    if empties:
        settle()


def settle() -> None:
    """Wait until the product's threads are idle, and close the history writer: each test has its own."""
    for pool, threads in POOLS:
        together = threading.Barrier(threads + 1)
        for _ in range(threads):
            pool.submit(together.wait, WITHIN_S)
        together.wait(WITHIN_S)
    writer, history_writer._writer = history_writer._writer, None
    if writer is not None:
        assert writer.close(WITHIN_S), "the test's history can't be written"


_tables_are_empty = False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Put back the rows that migrations made if the tests before this one have emptied all tables."""
    global _tables_are_empty
    if empties_database(item):
        _tables_are_empty = True
        ContentType.objects.clear_cache()  # The test before may have emptied the table.
    elif _tables_are_empty and ("db" in getattr(item, "fixturenames", ()) or item.get_closest_marker("django_db")):
        with item.config.stash[blocking_manager_key].unblock():
            put_back_migrated_rows()
        _tables_are_empty = False


def empties_database(item: pytest.Item) -> bool:
    """True if Django empties the tables after this test rather than rolling back."""
    mark = item.get_closest_marker("django_db")
    return "transactional_db" in getattr(item, "fixturenames", ()) or bool(mark and mark.kwargs.get("transaction"))


def put_back_migrated_rows() -> None:
    """Run the migrations' Python operations again: each makes only the rows that are missing."""
    for config in apps.get_app_configs():
        create_permissions(config, verbosity=0)
    for (application, _), migration in sorted(MigrationLoader(None).disk_migrations.items()):
        if application in {"ingest", "dashboard", "analytics"}:
            for operation in migration.operations:
                if isinstance(operation, RunPython):
                    operation.code(cast(StateApps, apps), cast(BaseDatabaseSchemaEditor, None))
