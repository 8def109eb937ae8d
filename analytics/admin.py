"""History in the admin, read-only. The schedule is under Periodic tasks."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from analytics.models import AnalyticsRun, Partition, Rollup


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(AnalyticsRun)
class AnalyticsRunAdmin(ReadOnlyAdmin):
    list_display = [
        "requested_at",
        "kind",
        "state",
        "trigger",
        "requested_by",
        "done",
        "expected",
        "rows_read",
        "stage",
    ]
    list_filter = ["state", "kind", "trigger", "error_code"]
    list_select_related = ["requested_by"]
    date_hierarchy = "requested_at"


@admin.register(Partition)
class PartitionAdmin(ReadOnlyAdmin):
    list_display = ["start", "grain", "files", "rows_read", "rows_written", "metric_version", "processed_at"]
    list_filter = ["grain", "metric_version"]
    date_hierarchy = "start"


@admin.register(Rollup)
class RollupAdmin(ReadOnlyAdmin):
    list_display = ["start", "grain", "app", "name", "sessions", "live_ms", "video_kbps_p50", "peak_players"]
    list_filter = ["grain", "app"]
    search_fields = ["app", "name"]
    date_hierarchy = "start"
