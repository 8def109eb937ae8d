"""Forms of the admin."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError

from ingest.models import StreamKey
from ingest.services import keys
from ingest.validators import validate_networks

if TYPE_CHECKING:
    StreamKeyBase = forms.ModelForm[StreamKey]
else:
    StreamKeyBase = forms.ModelForm


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
        fields = ("stream", "label", "enabled", "expires_at", "allowed_networks", "max_kbps", "over_limit")

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
