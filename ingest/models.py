"""What the database keeps: who may publish and play, who does now (leases), and what happened (history).

Keys and tokens are kept as HMAC-SHA-256 under the installation's pepper; a secret itself is never stored.
Rows of history (Session, StatusEvent, Attempt) copy the public names they speak of, and so outlive what they name.
"""

import uuid

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from ingest.contracts import END_REASONS
from ingest.validators import validate_app_name, validate_networks, validate_stream_name


class Application(models.Model):
    """An RTMP application: the first part of the URL, such as `live`."""

    class PublishPolicy(models.TextChoices):
        KEY = "key", "With a stream key"
        OPEN = "open", "Open: anyone (trusted network only)"

    class PlayPolicy(models.TextChoices):
        PUBLIC = "public", "Anyone"
        TOKEN = "token", "With a signed token"
        NONE = "none", "Nobody"

    class StartUnit(models.TextChoices):
        MILLISECONDS = "ms", "Milliseconds, as clients send"
        SECONDS = "s", "Seconds, as the specification says"

    name = models.CharField(max_length=128, unique=True, validators=[validate_app_name])
    enabled = models.BooleanField(default=True)
    publish_policy = models.CharField(max_length=8, choices=PublishPolicy, default=PublishPolicy.KEY)
    play_policy = models.CharField(max_length=8, choices=PlayPolicy, default=PlayPolicy.PUBLIC)
    record = models.BooleanField(default=False)
    play_start_unit = models.CharField(max_length=2, choices=StartUnit, default=StartUnit.MILLISECONDS)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Stream(models.Model):
    """A stream by its public name, under which players ask for it."""

    class Takeover(models.TextChoices):
        REJECT = "reject", "Refuse the second publisher"
        REPLACE = "replace", "The newer publisher replaces the older"
        SAME_ADDRESS = "same_address", "Replace only from the same address"

    application = models.ForeignKey(Application, on_delete=models.CASCADE, related_name="streams")
    name = models.CharField(max_length=255, validators=[validate_stream_name])
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="streams"
    )
    enabled = models.BooleanField(default=True)
    target_kbps = models.PositiveIntegerField(null=True, blank=True, help_text="Expected video bitrate, kbit/s.")
    takeover = models.CharField(max_length=16, choices=Takeover, default=Takeover.REJECT)
    expect_audio = models.BooleanField(default=True)
    expect_video = models.BooleanField(default=True)
    idle_timeout_s = models.PositiveIntegerField(
        default=10, validators=[MinValueValidator(1)], help_text="Seconds without media that end a publisher."
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["application__name", "name"]
        constraints = [
            models.UniqueConstraint(fields=["application", "name"], name="stream_name_unique_in_application")
        ]

    def __str__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        """The public path: application/name."""
        return f"{self.application.name}/{self.name}"


class StreamKey(models.Model):
    """Lets an encoder publish to one stream. `digest` is the HMAC of the secret; the secret is shown once."""

    class OverLimit(models.TextChoices):
        WARN = "warn", "Warn"
        CLOSE = "close", "Warn, then end the session"

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="keys")
    label = models.CharField(max_length=128, blank=True)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    prefix = models.CharField(max_length=12, blank=True, editable=False)
    enabled = models.BooleanField(default=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    grace_until = models.DateTimeField(
        null=True, blank=True, help_text="A rotated key's predecessor works until then.", editable=False
    )
    allowed_networks = models.JSONField(
        default=list,
        blank=True,
        validators=[validate_networks],
        help_text='CIDR, such as ["192.0.2.0/24"]; empty: any.',
    )
    max_kbps = models.PositiveIntegerField(
        "bitrate limit",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Of everything that the encoder sends, kbit/s.",
    )
    over_limit = models.CharField(
        "over the limit",
        max_length=8,
        choices=OverLimit,
        default=OverLimit.WARN,
        db_default=OverLimit.WARN,
        help_text="What follows a higher one.",
    )
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.label or (f"{self.prefix}…" if self.prefix else f"key {self.pk}")


class Node(models.Model):
    """A media node: a process that listens for RTMP."""

    class State(models.TextChoices):
        UP = "up"
        DRAINING = "draining"
        DOWN = "down"

    name = models.CharField(max_length=128, unique=True)
    state = models.CharField(max_length=8, choices=State, default=State.UP)
    address = models.CharField(max_length=255, blank=True)
    started_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(default=timezone.now)
    stopped_at = models.DateTimeField(
        null=True, blank=True, help_text="When it stopped in order, or was last seen before it was forgotten."
    )
    drain_requested_at = models.DateTimeField(null=True, blank=True)
    drain_grace_s = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Seconds from the request until what is still live there is ended."
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Session(models.Model):
    """One publishing or playing of a stream, from its acceptance to its end."""

    class Kind(models.TextChoices):
        PUBLISH = "publish"
        PLAY = "play"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=8, choices=Kind)
    app = models.CharField(max_length=128)
    name = models.CharField(max_length=255)
    stream = models.ForeignKey(Stream, on_delete=models.SET_NULL, null=True, related_name="sessions")
    key = models.ForeignKey(StreamKey, on_delete=models.SET_NULL, null=True, blank=True, related_name="sessions")
    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True, related_name="sessions")
    channel = models.CharField(max_length=255, blank=True, help_text="Channel layer name of its connection's consumer.")
    address = models.CharField(max_length=64)
    encoder = models.CharField(max_length=255, blank=True)
    started_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    end_reason = models.CharField(max_length=32, blank=True, choices=[(reason, reason) for reason in END_REASONS])
    end_description = models.CharField(max_length=255, blank=True)
    stop_requested = models.CharField(
        max_length=32, blank=True, help_text="Set to end the session: its node reads it within a second."
    )
    stop_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    stop_note = models.CharField(max_length=255, blank=True, help_text="Why an operator ended it, and who: a sentence.")
    video_codec = models.CharField(max_length=32, blank=True)
    audio_codec = models.CharField(max_length=32, blank=True)
    width = models.PositiveIntegerField(null=True, blank=True)
    height = models.PositiveIntegerField(null=True, blank=True)
    bytes_in = models.BigIntegerField(default=0)
    bytes_out = models.BigIntegerField(default=0)
    video_frames = models.BigIntegerField(default=0)
    audio_frames = models.BigIntegerField(default=0)
    keyframes = models.BigIntegerField(default=0)
    summary = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-started_at"]
        permissions = [("kick_session", "Can end a live session")]
        indexes = [
            models.Index(fields=["-started_at"], name="session_started"),
            models.Index(fields=["app", "name", "-started_at"], name="session_path_started"),
            models.Index(fields=["node"], name="session_open_by_node", condition=Q(ended_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.app}/{self.name} {self.started_at:%Y-%m-%d %H:%M:%S}"


class Lease(models.Model):
    """Who publishes a stream now: one row per stream that was ever live, taken and replaced by compare-and-swap.

    `fencing` grows by one with each taking, for as long as the stream exists; a node that finds another session or
    number than its own has lost the lease. A free lease has no session; one past `expires_at` may be taken by anyone.
    `silent_since`: no media has arrived since then, as its node says within a second or two; null while media arrive.
    """

    stream = models.OneToOneField(Stream, on_delete=models.CASCADE, primary_key=True, related_name="lease")
    session = models.ForeignKey(Session, on_delete=models.SET_NULL, null=True, related_name="+")
    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True, related_name="leases")
    fencing = models.BigIntegerField(default=1)
    expires_at = models.DateTimeField()
    silent_since = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["node", "expires_at"], name="lease_node_expires")]

    def __str__(self) -> str:
        if self.session_id is None:
            return f"{self.stream_id}: free"
        return f"{self.stream_id} held by {self.session_id} until {self.expires_at:%H:%M:%S}"


class StatusEvent(models.Model):
    """Something that happened to a session: every onStatus that was sent, and what the server did and saw."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="events")
    sequence = models.PositiveIntegerField()
    at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=32)
    level = models.CharField(max_length=16, blank=True)
    code = models.CharField(max_length=64, blank=True)
    description = models.CharField(max_length=512, blank=True)
    detail = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["session", "sequence"]
        constraints = [models.UniqueConstraint(fields=["session", "sequence"], name="status_event_sequence_unique")]
        indexes = [models.Index(fields=["-at"], name="status_event_at")]

    def __str__(self) -> str:
        return f"{self.sequence} {self.kind} {self.code}"


class Attempt(models.Model):
    """A refused connect, publish or play, or a connection that broke before one. Names are masked.

    One row stands for `count` of the same kind, from the same address, one soon after the other: `at` is the first.
    """

    class Action(models.TextChoices):
        CONNECT = "connect"
        PUBLISH = "publish"
        PLAY = "play"

    at = models.DateTimeField(default=timezone.now)
    last_at = models.DateTimeField(null=True, blank=True, help_text="When the last of several came.")
    count = models.PositiveIntegerField(default=1, db_default=1)
    action = models.CharField(max_length=8, choices=Action)
    app = models.CharField(max_length=128, blank=True)
    name = models.CharField(max_length=255, blank=True)
    address = models.CharField(max_length=64)
    encoder = models.CharField(max_length=255, blank=True)
    node = models.CharField(max_length=128, blank=True)
    reason = models.CharField(max_length=32)
    code = models.CharField(max_length=64, blank=True)
    description = models.CharField(max_length=512, blank=True)
    stream = models.ForeignKey(Stream, on_delete=models.SET_NULL, null=True, blank=True, related_name="attempts")
    key = models.ForeignKey(StreamKey, on_delete=models.SET_NULL, null=True, blank=True, related_name="attempts")

    class Meta:
        ordering = ["-at"]
        indexes = [
            models.Index(fields=["-at"], name="attempt_at"),
            models.Index(fields=["address", "-at"], name="attempt_address_at"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.app}/{self.name}: {self.reason}"


class Ban(models.Model):
    """An address that tried too many wrong keys or tokens: until it is over or lifted, it is refused unheard."""

    address = models.CharField(max_length=64)
    at = models.DateTimeField(default=timezone.now)
    until = models.DateTimeField()
    guesses = models.PositiveIntegerField(help_text="Different wrong secrets that it had tried.")
    node = models.CharField(max_length=128, blank=True)
    lifted_at = models.DateTimeField(null=True, blank=True)
    lifted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        ordering = ["-at"]
        indexes = [
            models.Index(fields=["until"], name="ban_until"),
            models.Index(fields=["address"], name="ban_address"),
        ]

    def __str__(self) -> str:
        return f"{self.address} until {self.until:%Y-%m-%d %H:%M:%S}"
