"""The admin of what is kept for clients: recordings, which are kept or deleted with their file, and shared objects."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat

from ingest.admin_site import AnyAdmin, LongList, nobody
from ingest.models import Recording, SharedObject
from ingest.services import actions as services_actions
from ingest.services import shared_objects
from ingest.services.audit import actor_of
from ingest.services.recordings import RecordingProblem


@admin.register(Recording)
class RecordingAdmin(LongList, AnyAdmin):
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
    has_add_permission = nobody

    @admin.display(ordering="duration_ms")
    def length(self, recording: Recording) -> str:
        return f"{recording.duration_ms / 1000:,.1f} s"

    @admin.display(ordering="size_bytes")
    def size(self, recording: Recording) -> str:
        return filesizeformat(recording.size_bytes)

    def has_delete_permission(self, request: HttpRequest, obj: Recording | None = None) -> bool:
        is_over = obj is None or obj.state != Recording.State.RECORDING
        return is_over and super().has_delete_permission(request, obj)

    def delete_model(self, request: HttpRequest, obj: Recording) -> None:
        """With its file; where that can't be, both stay."""
        try:
            services_actions.delete_recording(actor_of(request), obj)
        except RecordingProblem as error:
            messages.error(request, f"{obj} was not deleted: {error}")

    def delete_queryset(self, request: HttpRequest, queryset: "QuerySet[Recording]") -> None:
        for recording in queryset:
            self.delete_model(request, recording)


@admin.register(SharedObject)
class SharedObjectAdmin(AnyAdmin):
    """One that is in use when it is deleted begins anew with what its clients change from then on."""

    list_display = ("application", "instance", "name", "version", "properties", "updated_at")
    list_filter = ("application", "updated_at")
    list_select_related = ("application",)
    search_fields = ("name",)
    fields = ("application", "instance", "name", "version", "updated_at", "content")
    readonly_fields = ("content",)
    has_add_permission = has_change_permission = nobody

    @admin.display
    def properties(self, kept: SharedObject) -> int:
        return len(shared_objects.unpack(kept.data))

    @admin.display
    def content(self, kept: SharedObject) -> str:
        return shared_objects.shown(kept)
