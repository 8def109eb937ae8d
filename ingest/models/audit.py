"""What people did: who, what, to what, when and from where."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from ingest.models.access import Stream
from ingest.models.sessions import Session


class AuditEntry(models.Model):
    """One act of an operator, of a script with a token, or of a command. It is written once and never changed.

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
