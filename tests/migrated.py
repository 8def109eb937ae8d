"""What migrations put into the database (roles, scheduled tasks), for the tests that come after one that emptied it.

Django rolls back what a test did where it can, and else empties all tables. Its own answer is to run the latter tests
last, which files that stay on one parallel worker can't do.
"""

from typing import cast

import pytest
from django.apps import apps
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import RunPython
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import StateApps
from pytest_django.plugin import blocking_manager_key

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
