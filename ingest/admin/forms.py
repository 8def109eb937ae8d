"""Forms of the admin: streams, keys, log-ins, and how a stream's health is evaluated, on the stream's page."""

from typing import Any, Final

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from ingest.live.health import CHECKS, Figures
from ingest.live.health.engine import Check
from ingest.models import EncoderLogin, HealthOverride, Stream, StreamKey
from ingest.models.names import NetworksField
from ingest.services import authorization, encoder_login, keys


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
        required=False, help_text="CIDR, one a line, such as 192.0.2.0/24. Empty: the key works from anywhere."
    )
    existing_key = forms.CharField(
        required=False,
        strip=True,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "size": 50}),
        help_text="To bring a key over from another server. Empty: a new random key is made and shown once.",
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
            else "Empty: it stays as it is. It can't be shown again."
        )

    def clean_user(self) -> str:
        user: str = self.cleaned_data["user"]
        if EncoderLogin.objects.filter(user=user, revoked_at__isnull=True).exclude(pk=self.instance.pk).exists():
            raise ValidationError(encoder_login.TAKEN)
        return user


BY_CODE: Final = {check.code: check for check in CHECKS}


def _choice(check: Check[Figures]) -> tuple[str, str]:
    limits = " / ".join(f"{check.limit(level):g}" for level in reversed(check.levels))
    side = "under" if check.is_low else "over"
    off = ", off by default" if check.is_off else ""
    return check.code, f"{check.name} ({check.code}): {side} {limits} {check.unit}, {check.hold_s:g} s{off}"


class HealthOverrideForm(forms.ModelForm[HealthOverride]):
    check_code = forms.ChoiceField(
        label="check",
        choices=[("", "—"), *map(_choice, CHECKS)],
        help_text="With its limits for a warning and an error, and its hold, as they are without this.",
    )

    class Meta:
        model = HealthOverride
        fields = ("check_code", "enabled", "warning", "bad", "hold_s")
        help_texts = {
            "warning": "In the check's unit. Empty: as it is.",
            "bad": "The same. Some checks have warnings only.",
        }

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        check = BY_CODE.get(values.get("check_code", ""))
        if check is None:
            return values
        warning, bad = values.get("warning"), values.get("bad")
        if bad is not None and "bad" not in check.levels:
            self.add_error("bad", "This check has no error level: leave it empty.")
        elif bad is not None and check.measure_bad is None:
            first = check.warning if warning is None else warning
            if bad > first if check.is_low else bad < first:
                side = "higher" if check.is_low else "lower"
                self.add_error("bad", f"The error level can't be {side} than the warning's, {first:g} {check.unit}.")
        return values


class HealthOverrideInline(admin.TabularInline[HealthOverride, Stream]):
    model = HealthOverride
    form = HealthOverrideForm
    extra = 0
    verbose_name = "health check"
    verbose_name_plural = "health checks with limits of their own (a live stream goes by them within seconds)"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_change_permission(request) or request.user.has_perm("ingest.view_stream")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whoever may change a stream may say how it is checked."""
        return request.user.has_perm("ingest.change_stream")

    has_add_permission = has_delete_permission = has_change_permission
