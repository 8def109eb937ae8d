"""Forms of the admin: streams, keys, log-ins; on a stream's, when it should be live and how its health is evaluated."""

from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin
from django.contrib.admin.options import InlineModelAdmin
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from ingest.live.health import CHECKS, Figures
from ingest.live.health.engine import Check
from ingest.models import EncoderLogin, ExpectedTime, HealthOverride, Stream, StreamKey
from ingest.models.hours import DAYS
from ingest.models.names import NetworksField
from ingest.services import authorization, encoder_login, keys

if TYPE_CHECKING:
    InlineBase = InlineModelAdmin[Any, Stream]
else:
    InlineBase = object


class StreamForm(forms.ModelForm[Stream]):
    class Meta:
        model = Stream
        exclude = ()

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        application, name = cleaned.get("application"), cleaned.get("name")
        if application is not None and name:
            try:
                authorization.check_instance_room(application=application, made=[name])
            except ValidationError as error:
                self.add_error("name", error)
        return cleaned


class StreamKeyForm(forms.ModelForm[StreamKey]):
    allowed_networks = NetworksField(
        required=False, help_text="CIDR, one per line, such as 192.0.2.0/24. Empty: the key works from anywhere."
    )
    existing_key = forms.CharField(
        required=False,
        strip=True,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "size": 50}),
        help_text="To import a key from another server. Empty: a new random key is made and shown once.",
    )

    class Meta:
        model = StreamKey
        fields = ("stream", "label", "enabled", "expires_at", "allowed_networks", "max_kbps", "over_limit", "test_only")

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        secret, stream = cleaned.get("existing_key"), cleaned.get("stream")
        if secret and stream is not None:
            try:
                keys.validate_secret(secret=secret, stream=stream)
            except ValidationError as error:
                self.add_error("existing_key", error)
            else:
                if keys.find(secret=secret) is not None:
                    self.add_error("existing_key", "Another key has this secret already.")
        return cleaned


class EncoderLoginForm(forms.ModelForm[EncoderLogin]):
    password = forms.CharField(
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "size": 50}),
        validators=[encoder_login.validate_password],
    )

    class Meta:
        model = EncoderLogin
        fields = ("stream", "user", "label", "enabled", "expires_at")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password"].help_text = (
            "Empty: a random one is made and shown once."
            if self.instance.pk is None
            else "Empty: unchanged. It can't be shown again."
        )

    def clean_user(self) -> str:
        user: str = self.cleaned_data["user"]
        if EncoderLogin.objects.filter(user=user, revoked_at__isnull=True).exclude(pk=self.instance.pk).exists():
            raise ValidationError(encoder_login.TAKEN)
        return user


class DaysField(forms.TypedMultipleChoiceField):
    """Days of the week, as numbers from 0, which is Monday."""

    def __init__(self) -> None:
        super().__init__(
            choices=[(number, name[:3]) for number, name in enumerate(DAYS)],
            coerce=int,
            required=False,
            widget=forms.CheckboxSelectMultiple,
            help_text="None chosen: every day.",
        )

    def has_changed(self, initial: Any, data: Any) -> bool:
        return sorted(map(str, initial or ())) != sorted(map(str, data or ()))


BY_CODE: Final = {check.code: check for check in CHECKS}


def _choice(check: Check[Figures]) -> tuple[str, str]:
    limits = " / ".join(f"{check.limit(level):g}" for level in reversed(check.levels))
    side = "below" if check.is_low else "above"
    off = ", off by default" if check.is_off else ""
    return check.code, f"{check.name}: {side} {limits} {check.unit}, for {check.hold_s:g} s{off}"


class HealthOverrideForm(forms.ModelForm[HealthOverride]):
    check_code = forms.ChoiceField(
        label="check",
        choices=[("", "—"), *map(_choice, CHECKS)],
        help_text="With its usual limits (warning / bad) and how long they have to be passed.",
    )

    class Meta:
        model = HealthOverride
        fields = ("check_code", "enabled", "warning", "bad", "hold_s")
        help_texts = {
            "warning": "In the check's unit. Empty: the usual limit.",
            "bad": "The same. Some checks only warn.",
        }

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        check = BY_CODE.get(values.get("check_code", ""))
        if check is None:
            return values
        warning, bad = values.get("warning"), values.get("bad")
        if bad is not None and "bad" not in check.levels:
            self.add_error("bad", "This check only warns: leave it empty.")
        elif bad is not None and check.measure_bad is None:
            first = check.warning if warning is None else warning
            if bad > first if check.is_low else bad < first:
                side = "higher" if check.is_low else "lower"
                self.add_error("bad", f"It can't be {side} than the limit for warning, {first:g} {check.unit}.")
        return values


class OfStreamMixin(InlineBase):
    """Rows on a stream's form: whoever may change a stream may change them."""

    extra = 0

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_change_permission(request) or request.user.has_perm("ingest.view_stream")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("ingest.change_stream")

    has_add_permission = has_delete_permission = has_change_permission


class HealthOverrideInline(OfStreamMixin, admin.TabularInline[HealthOverride, Stream]):
    model = HealthOverride
    form = HealthOverrideForm
    verbose_name = "health check"
    verbose_name_plural = "Health checks with limits of this stream's own (they apply within seconds)"


class ExpectedTimeForm(forms.ModelForm[ExpectedTime]):
    days = DaysField()

    class Meta:
        model = ExpectedTime
        fields = ("days", "date", "from_time", "until_time", "time_zone", "grace_s")
        help_texts = {
            "until_time": "22:00 until 06:00 goes over midnight.",
            "time_zone": "Such as Europe/Berlin, or UTC.",
        }
        widgets = {
            "date": forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
            "from_time": forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
            "until_time": forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
        }

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if values.get("date") and values.get("days"):
            self.add_error("date", "Choose days of the week or a single date, not both.")
        return values


class ExpectedTimeInline(OfStreamMixin, admin.StackedInline[ExpectedTime, Stream]):
    model = ExpectedTime
    form = ExpectedTimeForm
    fields = (("days", "date"), ("from_time", "until_time", "time_zone", "grace_s"))
    verbose_name = "expected time"
    verbose_name_plural = "Expected live (outside of these times nobody misses it)"
