"""Push targets and pull sources in the admin. Keys and credentials are entered, and never shown."""

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest

from ingest.admin_site import AnyAdmin
from ingest.models import PullSource, PushTarget
from ingest.models.relays import MAX_KEY, MAX_URL
from ingest.services import pulls, push_advice, push_targets
from ingest.services.audit import actor_of
from ingest.services.relay_urls import split_pull

KEPT = "Kept encrypted, and never shown again. Empty: unchanged."


def _secret(label: str, length: int, help_text: str = KEPT) -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": "new-password", "size": 50})
    return forms.CharField(label=label, required=False, max_length=length, widget=widget, help_text=help_text)


class PushTargetForm(forms.ModelForm[PushTarget]):
    url = forms.CharField(
        label="Server",
        max_length=MAX_URL + MAX_KEY,
        widget=forms.TextInput(attrs={"size": 60}),
        help_text="rtmp:// or rtmps://, as the platform gives it; or the whole URL, with the key behind it.",
    )
    key = _secret("Key", MAX_KEY)

    class Meta:
        model = PushTarget
        fields = ("stream", "label", "url", "key", "starts", "enabled")

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        stream = cleaned.get("stream") or self.instance.stream
        target = PushTarget(pk=self.instance.pk, stream=stream, url=self.initial.get("url", ""))
        try:
            push_targets.check_room(target, push_targets.checked(cleaned, target)["label"])
        except ValidationError as problem:
            self.add_error(None, problem)
        return cleaned

    def _post_clean(self) -> None:
        """The row is the service's to change."""


class PullSourceForm(forms.ModelForm[PullSource]):
    url = _secret("URL", MAX_URL + MAX_KEY, f"rtmp[s]://host/app/name. {KEPT}")

    class Meta:
        model = PullSource
        fields = ("stream", "url", "when", "enabled")

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"].strip()
        if url or self.instance.pk is None:
            split_pull(url)
        return url

    def clean_stream(self) -> Any:
        stream = self.cleaned_data["stream"]
        if PullSource.objects.filter(stream=stream).exclude(pk=self.instance.pk).exists():
            raise ValidationError("The stream has a source: change that one.")
        return stream

    def _post_clean(self) -> None:
        """The row is the service's to change."""


class RelayAdmin(AnyAdmin):
    """Of rows that a service saves and removes, with its own entries of the audit log."""

    records_itself = ("create", "change", "delete")
    service: Any
    """The module that saves and removes them."""
    entered: tuple[str, ...]
    """Fields of the form."""
    list_select_related = ("stream__application",)
    autocomplete_fields = ("stream",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (*(("stream",) if obj is not None else ()), *self.readonly_fields)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.entered if obj is None else (*self.entered, *self.readonly_fields)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.stream = form.cleaned_data["stream"]
        self.service.save(actor_of(request), obj, form.cleaned_data)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.service.remove(actor_of(request), obj)

    def delete_queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> None:
        for row in queryset.select_related("stream__application"):
            self.service.remove(actor_of(request), row)

    @admin.display(description="state")
    def last_state(self, row: Any) -> str:
        return push_advice.state_words(row.state, row.failure) if row.state else "—"


@admin.register(PushTarget)
class PushTargetAdmin(RelayAdmin):
    form = PushTargetForm
    service = push_targets
    entered = PushTargetForm.Meta.fields
    list_display = ("label", "stream", "url", "starts", "enabled", "last_state", "state_since")
    list_filter = ("stream__application", "starts", "enabled")
    search_fields = ("label", "url", "stream__name", "stream__application__name")
    readonly_fields = ("last_state", "state_since", "code", "description", "created_at")


@admin.register(PullSource)
class PullSourceAdmin(RelayAdmin):
    form = PullSourceForm
    service = pulls
    entered = PullSourceForm.Meta.fields
    list_display = ("shown", "stream", "when", "enabled", "last_state", "state_since", "node")
    list_filter = ("stream__application", "when", "enabled")
    search_fields = ("shown", "stream__name", "stream__application__name")
    readonly_fields = ("shown", "last_state", "state_since", "code", "description", "node", "created_at")
