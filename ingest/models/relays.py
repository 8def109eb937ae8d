"""What is published elsewhere as well (push targets), and what is fetched from elsewhere (pull sources). Keys and
credentials are sealed (`ingest.services.sealing`), used by nodes alone, and never shown again."""

from django.db import models
from django.utils import timezone

from ingest.models.access import Stream

MAX_URL = 500
MAX_KEY = 512
MAX_LABEL = 64

STATES = [("connecting", "Connecting"), ("live", "Live"), ("retrying", "Waits to try again"), ("stopped", "Stopped")]
"""As `ingest.contracts.relays.PushState` has them."""


class RelayState(models.Model):
    """What the node that does it told last. `state` is "" until it did."""

    state = models.CharField(max_length=10, choices=STATES, blank=True, default="", editable=False)
    state_since = models.DateTimeField(null=True, blank=True, editable=False)
    failure = models.CharField(max_length=10, blank=True, default="", editable=False, help_text="A PushFailure.")
    code = models.CharField(max_length=64, blank=True, default="", editable=False)
    description = models.CharField(
        max_length=512, blank=True, default="", editable=False, help_text="What the other server said, masked."
    )

    class Meta:
        abstract = True


class PushTarget(RelayState):
    """A server that a stream is published on as well, for as long as it is live here."""

    class Starts(models.TextChoices):
        STREAM = "stream", "With the stream"
        HAND = "hand", "By hand"

    class Asked(models.TextChoices):
        START = "start", "Start"
        STOP = "stop", "Stop"

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="push_targets")
    label = models.CharField(max_length=MAX_LABEL, help_text="As pages and alerts name it, such as YouTube.")
    url = models.CharField(
        "server", max_length=MAX_URL, help_text="rtmp:// or rtmps://, as the platform gives it, without the key."
    )
    sealed = models.TextField(editable=False)
    starts = models.CharField(max_length=6, choices=Starts, default=Starts.STREAM)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    asked = models.CharField(
        max_length=5, choices=Asked, blank=True, default="", editable=False, help_text="What somebody pressed,"
    )
    asked_for = models.UUIDField(null=True, blank=True, editable=False, help_text="for which publisher's session,")
    asked_at = models.DateTimeField(null=True, blank=True, editable=False, help_text="and when.")
    state_session = models.UUIDField(
        null=True, blank=True, editable=False, help_text="The publisher's session that the state is of."
    )
    failing_since = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Since when it should be live, and is not. Empty: it is."
    )

    class Meta:
        ordering = ["label", "pk"]
        constraints = [models.UniqueConstraint(fields=["stream", "label"], name="push_target_label_once")]
        indexes = [
            models.Index(fields=["failing_since"], name="push_failing", condition=models.Q(failing_since__isnull=False))
        ]

    def __str__(self) -> str:
        return self.label


class PullSource(RelayState):
    """A server that a stream is fetched from, and published here by a node: one for a stream."""

    class When(models.TextChoices):
        ALWAYS = "always", "Always"
        DEMAND = "demand", "While somebody plays it"

    stream = models.OneToOneField(Stream, on_delete=models.CASCADE, related_name="pull_source")
    shown = models.CharField("source", max_length=MAX_URL, editable=False, help_text="Its URL without what is secret.")
    sealed = models.TextField(editable=False)
    when = models.CharField(max_length=6, choices=When, default=When.ALWAYS)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    node = models.CharField(max_length=128, blank=True, default="", editable=False, help_text="That told the state.")
    wanted_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="So long somebody waits for it who has no session yet."
    )

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.shown
