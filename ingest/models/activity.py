"""Who publishes and plays now (leases), and what happened (history): nodes, sessions, their events, refused attempts;
what people did (the audit log), and what others are to be told (the outbox).

Rows of history copy the public names they speak of, and so outlive what they name. A row of the outbox is written in
the transaction of what happened, and delivered later."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from ingest.contracts import END_REASONS
from ingest.models.access import EncoderLogin, Stream, StreamKey


class Node(models.Model):
    """A media node: a process that listens for RTMP."""

    class State(models.TextChoices):
        UP = "up"
        DRAINING = "draining"
        DOWN = "down"

    class Role(models.TextChoices):
        ORIGIN = "origin", "origin: encoders publish here"
        EDGE = "edge", "edge: players only"
        PACKAGER = "packager", "packager: viewers by HLS"

    name = models.CharField(max_length=128, unique=True)
    state = models.CharField(max_length=8, choices=State, default=State.UP)
    address = models.CharField(max_length=255, blank=True)
    url = models.CharField(
        max_length=255, blank=True, default="", db_default="", help_text="How nodes reach it, as rtmp://host:port."
    )
    local = models.CharField(
        max_length=255, blank=True, db_default="", editable=False, help_text="The same on its own machine: a socket."
    )
    role = models.CharField(max_length=8, choices=Role, default=Role.ORIGIN, db_default=Role.ORIGIN)
    started_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(default=timezone.now)
    stopped_at = models.DateTimeField(
        null=True, blank=True, help_text="When it stopped in order, or was last seen before it was forgotten."
    )
    process = models.CharField(
        max_length=255,
        blank=True,
        db_default="",
        editable=False,
        help_text="Which process has the name (ingest.services.nodes); empty: none, or one of a former version.",
    )
    drain_requested_at = models.DateTimeField(null=True, blank=True)
    issues = models.JSONField(
        null=True, blank=True, editable=False, help_text="Its own open issues, as it said when it was last seen."
    )
    drain_grace_s = models.PositiveIntegerField(
        "drain grace (s)",
        default=0,
        db_default=0,
        help_text="Seconds from the request until what is still live there is ended.",
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

    class Protocol(models.TextChoices):
        RTMP = "rtmp", "RTMP"
        RTMPS = "rtmps", "RTMPS"
        FLV = "flv", "FLV"
        HLS = "hls", "HLS"
        DOWNLOAD = "download", "Download"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=8, choices=Kind)
    app = models.CharField(max_length=128)
    name = models.CharField(max_length=255)
    stream = models.ForeignKey(Stream, on_delete=models.SET_NULL, null=True, related_name="sessions")
    key = models.ForeignKey(StreamKey, on_delete=models.SET_NULL, null=True, blank=True, related_name="sessions")
    login = models.ForeignKey(EncoderLogin, on_delete=models.SET_NULL, null=True, blank=True, related_name="sessions")
    node = models.ForeignKey(Node, on_delete=models.SET_NULL, null=True, related_name="sessions")
    protocol = models.CharField(
        max_length=8,
        choices=Protocol,
        blank=True,
        default="",
        db_default="",
        help_text="By which it was published or played; empty in rows of earlier versions.",
    )
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
    is_test = models.BooleanField(
        default=False, db_default=False, editable=False, help_text="Published with a key that is for tests only."
    )
    is_pull = models.BooleanField(
        default=False, db_default=False, editable=False, help_text="Fetched from another server by its node."
    )

    class Meta:
        ordering = ["-started_at"]
        permissions = [("kick_session", "Can end a live session")]
        indexes = [
            models.Index(fields=["-started_at"], name="session_started"),
            models.Index(fields=["app", "name", "-started_at"], name="session_path_started"),
            models.Index(fields=["kind", "-started_at", "-id"], name="session_kind_started"),
            models.Index(fields=["address", "-started_at"], name="session_address_started"),
            models.Index(fields=["kind", "end_reason", "-started_at"], name="session_reason_started"),
            models.Index(fields=["ended_at"], name="session_ended"),
            models.Index(fields=["node", "-started_at"], name="session_node_started"),
            models.Index(fields=["stream", "kind", "-started_at"], name="session_stream_kind_started"),
            # Of what is open: the few rows among all. `ended_at` is a column of these too since SQLite goes by how many
            # columns a search names, and otherwise reads the whole history by the indexes above.
            models.Index(
                fields=["node", "ended_at", "-started_at"],
                name="session_open_on_node",
                condition=Q(ended_at__isnull=True),
            ),
            models.Index(
                fields=["stream", "kind", "ended_at", "-started_at"],
                name="session_open_by_stream",
                condition=Q(ended_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.app}/{self.name} {self.started_at:%Y-%m-%d %H:%M:%S}"

    @property
    def is_uncounted(self) -> bool:
        """Its node died before it told what it had counted, and no samples tell it (yet)."""
        return self.end_reason == "node_lost" and "duration_ms" not in self.summary

    def total(self, name: str) -> int | None:
        """One of its totals, such as `bytes_in`; None: nobody knows it."""
        total: int = getattr(self, name)
        return None if self.is_uncounted else total


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
            models.Index(fields=["app", "name", "-at"], name="attempt_path_at"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.app}/{self.name}: {self.reason}"


class AuditEntry(models.Model):
    """One action of an operator, of a script with a token, or of a command. It is written once and never changed.

    It copies the names that it speaks of, and so outlives what they name. No secret is in it.
    """

    at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=150, help_text="A user's name, a token's or a command's.")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    address = models.CharField(max_length=64, blank=True, help_text="Empty: on the server itself.")
    action = models.CharField(max_length=64, help_text="Subject and verb, such as publisher.kick.")
    target = models.CharField(max_length=512, blank=True, help_text="What it was done to, as people call it.")
    stream = models.ForeignKey(Stream, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    session = models.ForeignKey(Session, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    detail = models.JSONField(default=dict, blank=True)

    class Meta:
        verbose_name_plural = "audit entries"
        ordering = ["-at", "-pk"]
        indexes = [
            models.Index(fields=["-at"], name="audit_at"),
            models.Index(fields=["action", "-at"], name="audit_action_at"),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor}: {self.action} {self.target}"


class OutboxEvent(models.Model):
    """Something that webhooks and alerts are told. `once` makes it exactly one, whoever writes it how often.

    `payload` is what receivers get, whole, without any secret. Within a stream `at` never goes back, whatever clocks
    say.
    """

    class Kind(models.TextChoices):
        PUBLISH = "publish", "An encoder started"
        UNPUBLISH = "unpublish", "An encoder stopped"
        HEALTH_OPENED = "health.opened", "A health issue opened, or changed its level"
        HEALTH_CLEARED = "health.cleared", "A health issue was resolved"
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
