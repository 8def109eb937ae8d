"""What is kept for clients: recordings, and shared objects."""

from django.db import models
from django.utils import timezone

from ingest.models.access import Application, Stream, instance_column
from ingest.models.activity import Node, Session
from ingest.models.names import validate_stream_name


class Recording(models.Model):
    """A file of a recorded or imported stream, FLV, in the folder of recordings. Players ask for it by `name`.

    A name may have several while one replaces another: the newest that is complete counts.
    """

    class State(models.TextChoices):
        RECORDING = "recording", "Being recorded"
        COMPLETE = "complete", "Complete"
        FAILED = "failed", "Failed: it ends before its stream did"

    application = models.ForeignKey(Application, on_delete=models.CASCADE, related_name="recordings")
    stream = models.ForeignKey(
        Stream,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="recordings",
        help_text="What was recorded; who may play it may play this.",
    )
    session = models.ForeignKey(
        Session, on_delete=models.SET_NULL, null=True, blank=True, related_name="recordings", editable=False
    )
    node = models.ForeignKey(
        Node, on_delete=models.SET_NULL, null=True, blank=True, related_name="recordings", editable=False
    )
    name = models.CharField(max_length=255, validators=[validate_stream_name])
    instance = instance_column()
    file = models.CharField(max_length=1024, editable=False, help_text="Its path in the folder of recordings.")
    state = models.CharField(max_length=16, choices=State, default=State.RECORDING)
    description = models.CharField(max_length=255, blank=True, help_text="Why it failed, or where it came from.")
    started_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    duration_ms = models.PositiveBigIntegerField(default=0)
    size_bytes = models.PositiveBigIntegerField(default=0)
    replaces = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Older ones of its name go when it is complete.",
    )
    keep = models.BooleanField(default=False, help_text="Never deleted because of its age or of the room it takes.")

    class Meta:
        ordering = ["-started_at"]
        constraints = [models.UniqueConstraint(fields=["file"], name="recording_file_unique")]
        indexes = [
            models.Index(fields=["application", "name", "-started_at"], name="recording_name_started"),
            models.Index(fields=["-started_at"], name="recording_started"),
            models.Index(fields=["application", "instance"], name="recording_instance"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.started_at:%Y-%m-%d %H:%M:%S}"


class SharedObject(models.Model):
    """A persistent shared object, as its clients last changed it: each node has the ones in use in memory.

    `data`: see `ingest.services.shared_objects.pack`.
    """

    NAME_LENGTH = 255

    application = models.ForeignKey(Application, on_delete=models.CASCADE, related_name="kept_objects")
    instance = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="Of the application; each has objects of its own.",
    )
    name = models.CharField(max_length=NAME_LENGTH, blank=True)
    version = models.BigIntegerField(default=0)
    data = models.BinaryField(default=b"{}")
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["application__name", "instance", "name"]
        constraints = [
            models.UniqueConstraint(fields=["application", "instance", "name"], name="shared_object_name_unique")
        ]

    @property
    def app(self) -> str:
        """As clients connect to it."""
        return f"{self.application.name}/{self.instance}" if self.instance else self.application.name

    def __str__(self) -> str:
        return f"{self.app}: {self.name}"
