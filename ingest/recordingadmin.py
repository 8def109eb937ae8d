"""The admin of recordings: what is to be kept, and deletion with the file."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat

from ingest.acting import actor_of
from ingest.longlist import LongList
from ingest.models import Recording
from ingest.services import acts
from ingest.services.recordings import RecordingProblem

if TYPE_CHECKING:
    RecordingBase = admin.ModelAdmin[Recording]
else:
    RecordingBase = admin.ModelAdmin


@admin.register(Recording)
class RecordingAdmin(LongList, RecordingBase):
    list_display = ("name", "application", "stream", "state", "started_at", "length", "size", "keep", "node")
    list_filter = ("state", "keep", "application", "node", "started_at")
    list_select_related = ("application", "stream__application", "node")
    search_fields = ("name", "stream__name", "file")
    fields = (
        "keep",
        *("name", "application", "stream", "session", "node", "state", "description"),
        *("started_at", "ended_at", "length", "size", "file"),
    )
    readonly_fields = fields[1:]
    records_itself = frozenset({"delete"})

    @admin.display(ordering="duration_ms")
    def length(self, recording: Recording) -> str:
        return f"{recording.duration_ms / 1000:,.1f} s"

    @admin.display(ordering="size_bytes")
    def size(self, recording: Recording) -> str:
        return filesizeformat(recording.size_bytes)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Recording | None = None) -> bool:
        is_over = obj is None or obj.state != Recording.State.RECORDING
        return is_over and super().has_delete_permission(request, obj)

    def delete_model(self, request: HttpRequest, obj: Recording) -> None:
        self._delete(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: "QuerySet[Recording]") -> None:
        for recording in queryset:
            self._delete(request, recording)

    def _delete(self, request: HttpRequest, recording: Recording) -> None:
        """With its file; where that can't be, both stay."""
        try:
            acts.delete_recording(actor_of(request), recording)
        except RecordingProblem as error:
            messages.error(request, f"{recording} was not deleted: {error}")
