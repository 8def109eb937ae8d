"""What is set up: who may publish and play what (applications, streams, keys, log-ins, bans), limits of health checks
of a stream's own, and by what the installation's processes know their secrets."""

from collections.abc import Collection

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Left, Replace, StrIndex
from django.utils import timezone

from ingest.contracts.figures import STREAM_CHECKS
from ingest.models.names import validate_app_name, validate_encoder_user, validate_networks, validate_stream_name


class Application(models.Model):
    """An RTMP application: the first part of the URL, such as `live`."""

    class PublishPolicy(models.TextChoices):
        KEY = "key", "With a stream key"
        OPEN = "open", "Open: anyone (trusted network only)"

    class PlayPolicy(models.TextChoices):
        PUBLIC = "public", "Anyone"
        TOKEN = "token", "With a signed token"
        NONE = "none", "Nobody"

    class RecordPolicy(models.TextChoices):
        NONE = "none", "Nothing"
        REQUESTED = "requested", "What encoders ask to record"
        ALL = "all", "Everything"

    class PlayRecordings(models.TextChoices):
        SIGNED = "signed", "With a signed link or token"
        AS_LIVE = "as_live", "The same as live streams"

    class SharedObjects(models.TextChoices):
        NONE = "none", "None"
        TEMPORARY = "temporary", "Temporary: gone with their last client"
        PERSISTENT = "persistent", "Temporary and persistent: kept in the database"

    class Callback(models.TextChoices):
        NONE = "none", "Never"
        PUBLISH = "publish", "For encoders"
        PUBLISH_PLAY = "publish_play", "For encoders and players"
        ALL = "all", "For connections, encoders and players"

    class StartUnit(models.TextChoices):
        MILLISECONDS = "ms", "Milliseconds, as players send"
        SECONDS = "s", "Seconds, as the specification says"

    name = models.CharField(max_length=128, unique=True, validators=[validate_app_name])
    enabled = models.BooleanField(default=True)
    publish_policy = models.CharField("who may publish", max_length=8, choices=PublishPolicy, default=PublishPolicy.KEY)
    play_policy = models.CharField("who may play", max_length=8, choices=PlayPolicy, default=PlayPolicy.PUBLIC)
    record = models.CharField(
        "what is recorded",
        max_length=12,
        choices=RecordPolicy,
        default=RecordPolicy.REQUESTED,
        db_default=RecordPolicy.REQUESTED,
    )
    play_recordings = models.CharField(
        "who may play recordings",
        max_length=8,
        choices=PlayRecordings,
        default=PlayRecordings.SIGNED,
        db_default=PlayRecordings.SIGNED,
        help_text="Their names can be guessed. Where playing takes a token, recordings take one too.",
    )
    encoder_login = models.BooleanField(
        "ask encoders for a user and password",
        default=False,
        db_default=False,
        help_text="Encoders without a key in the application's URL then have to log in. Players never do.",
    )
    shared_objects = models.CharField(
        max_length=12,
        choices=SharedObjects,
        default=SharedObjects.NONE,
        db_default=SharedObjects.NONE,
        help_text="Whoever may connect may read and change all of them. Holds for new connections.",
    )
    callback = models.CharField(
        "ask the authorisation service",
        max_length=12,
        choices=Callback,
        default=Callback.NONE,
        db_default=Callback.NONE,
        help_text="The service at RTMPWEB_AUTH_URL, after our own checks. If it gives no answer, nobody gets in.",
    )
    play_start_unit = models.CharField(
        "unit of start and duration in play requests",
        max_length=2,
        choices=StartUnit,
        default=StartUnit.MILLISECONDS,
        help_text="As players send them with play and play2. A seek is always in milliseconds.",
    )
    max_instances = models.PositiveSmallIntegerField(
        "instance limit",
        default=16,
        db_default=16,
        help_text="Namespaces between the application and the stream in a URL: rtmp://host/live/INSTANCE. 0: none.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def asks(self, action: str) -> bool:
        """Whether the authorisation service is asked about connect, publish or play."""
        return self.callback == self.Callback.ALL or action in self.callback.split("_")


def instance_column() -> models.GeneratedField:
    """As `validators.instance_of` has it: what `name` begins with, or "". The database fills it in."""
    before_slash = Left("name", StrIndex("name", Value("/")))
    return models.GeneratedField(
        expression=Replace(before_slash, Value("/")), output_field=models.CharField(max_length=255), db_persist=True
    )


class Stream(models.Model):
    """A stream by its public name, under which players ask for it."""

    class PlayPolicy(models.TextChoices):
        APPLICATION = "", "As the application says"
        PUBLIC = "public", "Public: anyone"
        TOKEN = "token", "By link: whoever has one"
        NONE = "none", "Closed: nobody"

    class Takeover(models.TextChoices):
        REJECT = "reject", "Refuse it"
        REPLACE = "replace", "It replaces the first"
        SAME_ADDRESS = "same_address", "It replaces the first, from the same address only"

    application = models.ForeignKey(Application, on_delete=models.CASCADE, related_name="streams")
    name = models.CharField(max_length=255, validators=[validate_stream_name])
    instance = instance_column()
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="streams"
    )
    enabled = models.BooleanField(default=True)
    target_kbps = models.PositiveIntegerField(
        "target video bitrate (kbit/s)",
        null=True,
        blank=True,
        help_text="Health checks compare with it. Empty: with what the encoder says of itself.",
    )
    play_policy = models.CharField(
        "who may watch",
        max_length=8,
        choices=PlayPolicy,
        default=PlayPolicy.APPLICATION,
        db_default=PlayPolicy.APPLICATION,
        blank=True,
        help_text="And play by whatever protocol. Leaving “By link” makes the links so far invalid.",
    )
    link_generation = models.PositiveIntegerField(
        default=1, db_default=1, editable=False, help_text="Of its play tokens: those of a former one are invalid."
    )
    hls_always = models.BooleanField(
        "always ready for browsers",
        default=False,
        db_default=False,
        help_text="On: packaged as HLS while it is live. Off: from the first viewer on, who waits some seconds longer.",
    )
    takeover = models.CharField(
        "when a second encoder connects", max_length=16, choices=Takeover, default=Takeover.REJECT
    )
    expect_audio = models.BooleanField("has audio", default=True, help_text="Off: missing audio is no issue.")
    expect_video = models.BooleanField("has video", default=True, help_text="Off: missing video is no issue.")
    idle_timeout_s = models.PositiveIntegerField(
        "idle timeout (s)",
        default=10,
        validators=[MinValueValidator(1)],
        help_text="An encoder that sends nothing for so long is disconnected.",
    )
    first_media_timeout_s = models.PositiveIntegerField(
        "first media timeout (s)",
        default=20,
        db_default=20,
        validators=[MinValueValidator(1)],
        help_text="An encoder that has sent no audio or video by then is disconnected.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["application__name", "name"]
        constraints = [
            models.UniqueConstraint(fields=["application", "name"], name="stream_name_unique_in_application")
        ]
        indexes = [models.Index(fields=["application", "instance"], name="stream_instance")]

    def __str__(self) -> str:
        return self.path

    def clean_fields(self, exclude: Collection[str] | None = None) -> None:
        """The name that it has may be one that nobody could give it today: all else can be changed all the same."""
        has_it = self.pk is not None and Stream.objects.filter(pk=self.pk, name=self.name).exists()
        super().clean_fields({*(exclude or ()), "name"} if has_it else exclude)

    @property
    def path(self) -> str:
        return f"{self.application.name}/{self.name}"

    @property
    def effective_play_policy(self) -> str:
        """Its own or, where it has none, its application's."""
        return self.play_policy or self.application.play_policy


class StreamKey(models.Model):
    """Lets an encoder publish to one stream. `digest` is the HMAC of the secret; the secret is shown once."""

    class OverLimit(models.TextChoices):
        WARN = "warn", "Warn"
        CLOSE = "close", "Warn, then disconnect"

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="keys")
    label = models.CharField(max_length=128, blank=True)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    prefix = models.CharField(max_length=12, blank=True, editable=False)
    enabled = models.BooleanField(default=True)
    expires_at = models.DateTimeField("expires", null=True, blank=True, help_text="UTC. Empty: never.")
    grace_until = models.DateTimeField(
        null=True, blank=True, help_text="A rotated key's predecessor works until then.", editable=False
    )
    allowed_networks = models.JSONField(
        default=list,
        blank=True,
        validators=[validate_networks],
        help_text='CIDR, such as ["192.0.2.0/24"]. Empty: any.',
    )
    max_kbps = models.PositiveIntegerField(
        "bitrate limit (kbit/s)",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Of all that the encoder sends. Empty: none.",
    )
    over_limit = models.CharField(
        "over the limit",
        max_length=8,
        choices=OverLimit,
        default=OverLimit.WARN,
        db_default=OverLimit.WARN,
        help_text="What happens then.",
    )
    test_only = models.BooleanField(
        "for tests only",
        default=False,
        db_default=False,
        help_text="What is published with it is measured and checked, but never shown to players.",
    )
    link_of = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="test_links",
        editable=False,
        help_text="A test link's key: the key in whose place a streamer tests with it (docs/adr/0027-test-links.md).",
    )
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.label or (f"{self.prefix}…" if self.prefix else f"key {self.pk}")

    def clean(self) -> None:
        if self.link_of_id is not None and not (self.test_only and self.expires_at):
            raise ValidationError("This is a test link's key: it stays for tests only, and expires.")


class EncoderLogin(models.Model):
    """A user and password that let an encoder publish to one stream, for those that know no keys.

    What is kept of the password checks answers to challenges: `adobe` is base64(md5(user salt password)), `llnw` is
    hex(md5(user:live:password)).
    """

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="logins")
    user = models.CharField(max_length=64, validators=[validate_encoder_user])
    label = models.CharField(max_length=128, blank=True)
    salt = models.CharField(max_length=32, editable=False)
    adobe = models.CharField(max_length=32, editable=False)
    llnw = models.CharField(max_length=32, editable=False)
    enabled = models.BooleanField(default=True)
    expires_at = models.DateTimeField("expires", null=True, blank=True, help_text="UTC. Empty: never.")
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = "encoder log-in"
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["user"], condition=Q(revoked_at__isnull=True), name="encoder_login_user_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.label} ({self.user})" if self.label else self.user


class Ban(models.Model):
    """An address that tried too many wrong keys, tokens or passwords: until it is over or lifted it is refused."""

    address = models.CharField(max_length=64)
    at = models.DateTimeField(default=timezone.now)
    until = models.DateTimeField()
    guesses = models.PositiveIntegerField("wrong secrets tried", help_text="Different ones.")
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


class HealthOverride(models.Model):
    """A check of one stream. What is empty stays as the table of checks says it (`ingest.live.health`)."""

    stream = models.ForeignKey(Stream, on_delete=models.CASCADE, related_name="health_overrides")
    check_code = models.CharField("check", max_length=32)
    enabled = models.BooleanField(default=True, help_text="Off: the stream is not checked for this.")
    warning = models.FloatField(null=True, blank=True, validators=[MinValueValidator(0)])
    bad = models.FloatField("bad", null=True, blank=True, validators=[MinValueValidator(0)])
    hold_s = models.FloatField(
        "hold (s)",
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text="How long the limit has to be passed before the issue opens. Empty: as it is.",
    )

    class Meta:
        ordering = ["stream", "check_code"]
        constraints = [
            models.UniqueConstraint(fields=["stream", "check_code"], name="health_override_once_a_check"),
        ]

    def __str__(self) -> str:
        return f"{self.stream}: {self.check_code}"

    def clean(self) -> None:
        if self.check_code not in STREAM_CHECKS:
            raise ValidationError({"check_code": f"There is no such check. There are: {', '.join(STREAM_CHECKS)}."})


class Installation(models.Model):
    """One row, of the key `ONE`: by what its processes know that they have the same secrets. No secret is in it."""

    ONE = 1

    pepper_mark = models.CharField(max_length=64, editable=False, help_text="Made under RTMPWEB_KEY_PEPPER.")
    secret_mark = models.CharField(max_length=64, editable=False, help_text="Made under RTMPWEB_SECRET_KEY.")

    def __str__(self) -> str:
        return "this installation"
