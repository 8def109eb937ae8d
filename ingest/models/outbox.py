"""What others are to be told: written in the transaction of what happened, delivered later."""

import uuid

from django.db import models
from django.utils import timezone

from ingest.models.access import Stream
from ingest.models.sessions import Session


class OutboxEvent(models.Model):
    """Something that webhooks and alerts are told. `once` makes it exactly one, whoever writes it how often.

    `payload` is what receivers get, whole, without any secret. Within a stream `at` never goes back, whatever clocks
    say.
    """

    class Kind(models.TextChoices):
        PUBLISH = "publish", "A publisher began"
        UNPUBLISH = "unpublish", "A publisher ended"
        HEALTH_OPENED = "health.opened", "A health issue opened, or changed its level"
        HEALTH_CLEARED = "health.cleared", "A health issue cleared"
        RECORDING_DONE = "recording.done", "A recording is complete, or failed"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=32, choices=Kind)
    once = models.CharField(max_length=128, unique=True, help_text="Tells the event from all others of its kind.")
    stream = models.ForeignKey(Stream, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    sequence = models.BigIntegerField(
        null=True, blank=True, help_text="Grows with each event of the stream. Empty: of none, or for alerts alone."
    )
    session = models.ForeignKey(Session, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    payload = models.JSONField(default=dict)
    taken_at = models.DateTimeField(
        null=True, blank=True, help_text="When its deliveries and alerts were made. Empty: not yet."
    )

    class Meta:
        ordering = ["at"]
        indexes = [
            models.Index(fields=["at"], name="outbox_waiting", condition=models.Q(taken_at__isnull=True)),
            models.Index(fields=["-at"], name="outbox_at"),
            models.Index(
                fields=["stream", "sequence"],
                name="outbox_waiting_of_stream",
                condition=models.Q(taken_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.once}"


class StreamTold(models.Model):
    """The latest event of a stream. Whoever writes the next one holds this row, and no other that admissions need."""

    stream = models.OneToOneField(Stream, on_delete=models.CASCADE, primary_key=True, related_name="+")
    sequence = models.BigIntegerField(default=0)
    at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.stream_id}: {self.sequence}"
