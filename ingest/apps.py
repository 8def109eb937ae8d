from django.apps import AppConfig
from django.db.models.signals import pre_migrate
from django.utils.module_loading import autodiscover_modules


class IngestConfig(AppConfig):
    name = "ingest"

    def ready(self) -> None:
        from ingest import checks  # noqa: F401 - registers the checks.
        from ingest.services import (
            database,
            recordings,  # noqa: F401 - takes the files of rows that go with their application.
        )

        pre_migrate.connect(database.check_before_migrate, sender=self)
        autodiscover_modules("procedures")
