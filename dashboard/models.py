"""What the dashboard keeps: rules of alerts, and alerts; API tokens, of which only an HMAC is stored; heartbeats of
processes; muted alerts; what accounts chose for their pages."""

from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, validate_email
from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from ingest.models import Application, Service, Session, Stream, Webhook
from ingest.models.deliveries import MAX_ADDRESS, Scope, keep_scoped
from ingest.services.roles import ROLES

LEVELS = ("warning", "bad")
"""Of issues, least first."""

ADDRESSED = {"email": "emails"}
"""By a channel that tells addresses, the field of a rule that has them."""

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def validate_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValidationError(f"{name!r} is no time zone: expected one such as Europe/Berlin or UTC.") from None


def validate_addresses(text: str) -> None:
    for address in addresses(text):
        validate_email(address)
        if len(address) > MAX_ADDRESS:
            raise ValidationError(f"{address[:40]}... is too long: {len(address)} characters, {MAX_ADDRESS} at most.")


def addresses(text: str) -> list[str]:
    """E-mail addresses that stand apart by commas, semicolons, blanks or lines; each once."""
    return list(dict.fromkeys(text.replace(",", " ").replace(";", " ").split()))


def waking_kinds() -> list[str]:
    """What would wake somebody: what a new rule alerts on, by codes of `dashboard.alerts.kinds`."""
    return ["health", "ended"]


class AlertRule(Scope):
    name = models.CharField(max_length=100, unique=True)
    enabled = models.BooleanField(default=True)
    kinds = models.JSONField(default=waking_kinds, help_text="What it alerts on: codes of dashboard.alerts.kinds.")
    checks = models.JSONField(default=list, blank=True, help_text="Empty: every check.")
    level = models.CharField(
        "minimum level", max_length=8, choices=[(each, each.capitalize()) for each in LEVELS], default="bad"
    )
    days = models.JSONField(default=list, blank=True, help_text="0 is Monday. Empty: every day.")
    from_time = models.TimeField("from", null=True, blank=True)
    until_time = models.TimeField("until", null=True, blank=True)
    time_zone = models.CharField(max_length=64, default="UTC", validators=[validate_zone])
    delay_s = models.PositiveIntegerField(
        "delay (s)",
        default=30,
        validators=[MaxValueValidator(86_400)],
        help_text="How long it has to last before anybody is notified.",
    )
    repeat_min = models.PositiveIntegerField(
        "repeat every (min)",
        default=0,
        validators=[MaxValueValidator(10_080)],
        help_text="While it is open, until somebody acknowledges it. 0: notified once.",
    )
    emails = models.TextField("e-mail", blank=True, validators=[validate_addresses])
    webhooks = models.ManyToManyField(Webhook, blank=True, related_name="rules")
    services = models.ManyToManyField(Service, blank=True, related_name="rules")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    unjudged_since = models.DateTimeField(
        null=True,
        default=timezone.now,
        editable=False,
        help_text="When it was saved, until it has been held against what is so already. Empty: it has.",
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def addressees(self) -> list[tuple[str, str]]:
        """Whom it tells besides webhooks: channel and address."""
        return [(channel, each) for channel, field in ADDRESSED.items() for each in addresses(getattr(self, field))]

    def matches(self, check: str, level: str) -> bool:
        return (not self.checks or check in self.checks) and (
            level in LEVELS and LEVELS.index(level) >= LEVELS.index(self.level)
        )

    def began(self, now: datetime) -> datetime | None:
        """When the hours began that `now` is in, by the clocks of its time zone; None: it is outside of them.

        Hours from 22:00 until 6:00 belong to the day on which they begin. Without hours: the day's beginning.
        """
        here = now.astimezone(zone := self._zone())
        begin, end = self.from_time or time(), self.until_time or time()
        day = here.date()
        if begin < end:
            inside = begin <= here.time() < end
        else:  # Over midnight, or round the clock.
            inside = here.time() >= begin or here.time() < end
            if here.time() < begin:
                day -= timedelta(days=1)
        if not inside or (self.days and day.weekday() not in self.days):
            return None
        return datetime.combine(day, begin, zone)

    def _zone(self) -> tzinfo:
        """UTC, if this machine doesn't know the zone: other hours are better than none."""
        try:
            return ZoneInfo(self.time_zone)
        except (KeyError, ValueError, OSError):
            return UTC


keep_scoped(AlertRule)


class Alert(models.Model):
    """Something that a rule found, from its opening to its end."""

    class Outcome(models.TextChoices):
        """What became of it: an alert that cleared is not always something that was put right."""

        FIXED = "fixed", "Resolved"
        EASED = "eased", "Eased"
        DROPPED = "dropped", "Dropped, not fixed"  # The stream ended with it, and nobody meant that.
        ENDED = "ended", "Ended, not fixed"  # It ended with it, as somebody meant.
        WITHDRAWN = "withdrawn", "No longer watched"  # The rule, or what it watched, is another now.

    rule = models.ForeignKey(AlertRule, on_delete=models.CASCADE, related_name="alerts")
    subject = models.CharField(max_length=512, help_text="What it is about: application/name.")
    stream = models.ForeignKey(Stream, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    session = models.ForeignKey(Session, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    kind = models.CharField(max_length=16, default="health", help_text="A code of dashboard.alerts.kinds.")
    check_code = models.CharField("check", max_length=32)
    level = models.CharField(max_length=8)
    title = models.CharField(max_length=512)
    actual = models.CharField(max_length=255, blank=True)
    expected = models.CharField(max_length=255, blank=True)
    advice = models.CharField(max_length=512, blank=True)
    opened_at = models.DateTimeField()
    due_at = models.DateTimeField(help_text="From when on somebody is notified.")
    told_at = models.DateTimeField(null=True, blank=True, help_text="When the last were made. Empty: none yet.")
    told = models.PositiveIntegerField(default=0, help_text="How often messages of it were made.")
    cleared_at = models.DateTimeField(null=True, blank=True)
    cleared_why = models.CharField(max_length=512, blank=True)
    outcome = models.CharField(max_length=9, choices=Outcome, blank=True, help_text="Empty: it is open.")
    end_reason = models.CharField(
        max_length=32, blank=True, help_text="Why the stream ended, if that is what it tells of, or what it cleared by."
    )
    clear_told_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-opened_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject", "check_code"],
                condition=Q(cleared_at__isnull=True),
                name="alert_open_once",
            )
        ]
        indexes = [
            models.Index(fields=["-opened_at"], name="alert_opened"),
            models.Index(fields=["rule"], name="alert_clear_untold", condition=Q(clear_told_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.subject}: {self.title}"

    @property
    def page(self) -> str:
        if self.session_id is not None:
            return reverse("dashboard:session", args=[self.session_id])
        app, is_stream, name = self.subject.partition("/")
        if not is_stream:
            return reverse("dashboard:node", args=[self.subject])
        return reverse("dashboard:stream", args=[app, name])


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
    """A process of a kind, by its last heartbeat. `detail` is what it tells of itself, in few words."""

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
    """A silence: no alerts for a while, at an operator's wish, of a stream, of an application's streams, or, with
    neither, of anything. Issues open and clear on the pages as ever.
    """

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, null=True, blank=True, related_name="mutes")
    application = models.ForeignKey(Application, on_delete=models.CASCADE, null=True, blank=True, related_name="mutes")
    check_code = models.CharField("check", max_length=32, blank=True, help_text="Empty: every check.")
    until = models.DateTimeField(null=True, blank=True, help_text="Empty: until it is lifted.")
    note = models.CharField(max_length=200, blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    lifted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-at"]

    def __str__(self) -> str:
        return f"{self.subject}: {self.check_code or 'all'}"

    @property
    def subject(self) -> str:
        """Of what: live/cam1, live/*, or everything."""
        if self.stream is not None:
            return self.stream.path
        return f"{self.application.name}/*" if self.application is not None else "everything"

    @property
    def is_over(self) -> bool:
        return self.lifted_at is not None or (self.until is not None and self.until <= timezone.now())


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
