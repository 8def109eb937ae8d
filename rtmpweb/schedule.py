"""The schedule that beat keeps, from the database."""

from django.db import DatabaseError
from django_celery_beat.schedulers import DatabaseScheduler

from rtmpweb.database import explain


class Schedule(DatabaseScheduler):  # type: ignore[misc]
    def setup_schedule(self) -> None:
        """As beat starts. One that can't be read ends it with a sentence."""
        try:
            super().setup_schedule()
        except DatabaseError as error:
            raise SystemExit(explain(error)) from None
