from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class IngestConfig(AppConfig):
    name = "ingest"

    def ready(self) -> None:
        from ingest import checks  # noqa: F401 - registers them.
        from ingest.services import recordings  # noqa: F401 - takes the files of rows that go with their application.

        autodiscover_modules("procedures")
