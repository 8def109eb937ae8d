"""How a stream's health is judged where the table's own limits don't fit it."""

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models

from ingest.live.health import CHECK_CODES
from ingest.models.access import Stream


class HealthOverride(models.Model):
    """A check of one stream. What is empty stays as the table of checks says it (`ingest.live.health`)."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="health_overrides")
    check_code = models.CharField("check", max_length=32, help_text="As `ingest.live.health` names it.")
    enabled = models.BooleanField(default=True, help_text="Off: the stream is not judged by this check.")
    warning = models.FloatField(null=True, blank=True, validators=[MinValueValidator(0)])
    bad = models.FloatField("error", null=True, blank=True, validators=[MinValueValidator(0)])
    hold_s = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text="Seconds that a limit must be passed before the issue opens.",
    )

    class Meta:
        ordering = ["stream", "check_code"]
        constraints = [
            models.UniqueConstraint(fields=["stream", "check_code"], name="health_override_once_a_check"),
        ]

    def __str__(self) -> str:
        return f"{self.stream}: {self.check_code}"

    def clean(self) -> None:
        if self.check_code not in CHECK_CODES:
            raise ValidationError({"check_code": f"There is no such check. There are: {', '.join(CHECK_CODES)}."})
