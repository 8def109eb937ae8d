"""What the dashboard itself keeps: API tokens, of which only an HMAC is stored, signs of life of processes, muted
alerts, and what accounts chose for their pages.
"""

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone

from dashboard.alerting.models import (  # noqa: F401 - Django looks for them here.
    Alert,
    AlertRule,
    Delivery,
    DeliveryCount,
    Webhook,
)
from ingest.models import Stream
from ingest.roles import ROLES


class ApiToken(models.Model):
    """Lets a script use the API with the abilities of one role. `digest` is the HMAC of the secret, shown once."""

    name = models.CharField(max_length=128)
    role = models.CharField(max_length=32, choices=[(role, role) for role in ROLES])
    digest = models.CharField(max_length=64, unique=True, editable=False)
    prefix = models.CharField(max_length=12, editable=False, help_text="The secret's first characters, to know it by.")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, editable=False, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Empty: never.")
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False, help_text="To the minute.")
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = "API token"
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"],
                condition=Q(revoked_at__isnull=True),
                name="api_token_name_unique_unless_revoked",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.role})"

    def clean(self) -> None:
        """What the constraint says, for forms: Django leaves out a constraint on fields that a form doesn't have."""
        if ApiToken.objects.filter(name=self.name, revoked_at__isnull=True).exclude(pk=self.pk).exists():
            raise ValidationError({"name": "A token of this name exists: revoke it first, or take another name."})


class Heartbeat(models.Model):
    """A process of a kind, by its last sign of life. `detail` is what it tells of itself, in few words."""

    class Kind(models.TextChoices):
        WORKER_DEFAULT = "worker_default", "worker of the queue default"
        WORKER_ANALYTICS = "worker_analytics", "worker of the queue analytics"
        BEAT = "beat", "schedule"
        WEB = "web", "web process"  # Which tries by it whether the database takes writes.

    kind = models.CharField(max_length=32, choices=Kind)
    name = models.CharField(max_length=255)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True, blank=True, help_text="When it stopped in order.")
    detail = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["kind", "name"]
        constraints = [models.UniqueConstraint(fields=["kind", "name"], name="heartbeat_one_of_a_process")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Mute(models.Model):
    """No alerts of a stream for a while, at an operator's wish. Its issues open and clear on the pages as ever."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="mutes")
    check_code = models.CharField("check", max_length=32, blank=True, help_text="Empty: every check.")
    until = models.DateTimeField(null=True, blank=True, help_text="Empty: until it is lifted.")
    note = models.CharField(max_length=200, blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    lifted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-at"]

    def __str__(self) -> str:
        return f"{self.stream}: {self.check_code or 'all'}"


class Preferences(models.Model):
    """What an account chose for its pages, whatever browser it uses."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+")
    zone = models.CharField(max_length=64, blank=True, help_text="Empty: as the browser has it.")
    shows_utc = models.BooleanField("UTC beside each time", default=False)

    class Meta:
        default_permissions = ()
        verbose_name = verbose_name_plural = "preferences"

    def __str__(self) -> str:
        return f"{self.user}: {self.zone or 'as the browser has it'}"
