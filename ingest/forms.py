"""Forms of the admin."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError

from ingest.models import EncoderLogin, Stream, StreamKey
from ingest.services import encoderlogin, instances, keys
from ingest.validators import validate_networks

if TYPE_CHECKING:
    StreamBase = forms.ModelForm[Stream]
    StreamKeyBase = forms.ModelForm[StreamKey]
    EncoderLoginBase = forms.ModelForm[EncoderLogin]
else:
    StreamBase = StreamKeyBase = EncoderLoginBase = forms.ModelForm


class StreamForm(StreamBase):
    class Meta:
        model = Stream
        exclude = ()

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        application, name = cleaned.get("application"), cleaned.get("name")
        if application is not None and name:
            try:
                instances.check_room(application=application, made=[name])
            except ValidationError as error:
                self.add_error("name", error)
        return cleaned


class NetworksField(forms.CharField):
    """A list of networks, one a line."""

    widget = forms.Textarea(attrs={"rows": 3, "cols": 40, "placeholder": "192.0.2.0/24"})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> list[str]:  # type: ignore[override]
        return str(value or "").replace(",", " ").split()

    def run_validators(self, value: Any) -> None:
        validate_networks(value)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(data) != (initial or [])


class StreamKeyForm(StreamKeyBase):
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


class EncoderLoginForm(EncoderLoginBase):
    password = forms.CharField(
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "size": 50}),
        validators=[encoderlogin.validate_password],
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
            raise ValidationError(encoderlogin.TAKEN)
        return user
