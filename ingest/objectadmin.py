"""The admin of shared objects that are kept: to look at, and to delete."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from ingest.models import SharedObject
from ingest.services import objects

if TYPE_CHECKING:
    SharedObjectBase = admin.ModelAdmin[SharedObject]
else:
    SharedObjectBase = admin.ModelAdmin


@admin.register(SharedObject)
class SharedObjectAdmin(SharedObjectBase):
    """One that is in use when it is deleted begins anew with what its clients change from then on."""

    list_display = ("application", "instance", "name", "version", "properties", "updated_at")
    list_filter = ("application", "updated_at")
    list_select_related = ("application",)
    search_fields = ("name",)
    fields = ("application", "instance", "name", "version", "updated_at", "content")
    readonly_fields = ("content",)

    @admin.display
    def properties(self, kept: SharedObject) -> int:
        return len(objects.unpack(kept.data))

    @admin.display
    def content(self, kept: SharedObject) -> str:
        return objects.shown(kept)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
