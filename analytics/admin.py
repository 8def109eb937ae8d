"""The admin of analytics: plans of reports; history, runs and the archive to read. Schedules: Periodic tasks."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from analytics import completeness
from analytics.models import AnalyticsRun, Partition, Report, ReportDelivery, ReportPlan, Rollup, RunLine
from analytics.reports.plans import PlanForm
from ingest.admin_site import LongList, RecentValues

if TYPE_CHECKING:
    AnyBase = admin.ModelAdmin[Model]
    PlanBase = admin.ModelAdmin[ReportPlan]
    ReportBase = admin.ModelAdmin[Report]
    LineInlineBase = admin.TabularInline[RunLine, AnalyticsRun]
    DeliveryInlineBase = admin.TabularInline[ReportDelivery, Report]
else:
    AnyBase = PlanBase = ReportBase = admin.ModelAdmin
    LineInlineBase = DeliveryInlineBase = admin.TabularInline


class ReadOnly:
    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnly, AnyBase):
    pass


class LineInline(ReadOnly, LineInlineBase):
    model = RunLine
    fields = ("at", "level", "text")
    verbose_name_plural = "log"
    extra = 0


class DeliveryInline(ReadOnly, DeliveryInlineBase):
    model = ReportDelivery
    fields = ("recipient", "state", "attempts", "next_at", "sent_at", "error")
    extra = 0


@admin.register(ReportPlan)
class ReportPlanAdmin(PlanBase):
    form = PlanForm
    list_display = ("name", "kind", "app", "stream", "time_zone", "send_at", "is_enabled")
    list_filter = ("kind", "is_enabled")
    list_select_related = ("stream__application",)
    autocomplete_fields = ("stream",)
    search_fields = ("name", "recipients")


@admin.register(Report)
class ReportAdmin(LongList, ReadOnlyAdmin):
    list_display = ("made_at", "kind", "scope", "since", "until", "time_zone", "hours_done", "hours_expected", "plan")
    list_filter = ("kind", "plan", "made_at")
    list_select_related = ("plan",)
    search_fields = ("scope",)
    exclude = ("document",)
    inlines = (DeliveryInline,)

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Model]":
        return super().get_queryset(request).defer("document")


@admin.register(ReportDelivery)
class ReportDeliveryAdmin(LongList, ReadOnlyAdmin):
    list_display = ("recipient", "report", "state", "attempts", "next_at", "sent_at", "error")
    list_filter = ("state",)
    search_fields = ("recipient",)

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Model]":
        return super().get_queryset(request).select_related("report").defer("report__document")


@admin.register(AnalyticsRun)
class AnalyticsRunAdmin(LongList, ReadOnlyAdmin):
    list_display = (
        "requested_at",
        "kind",
        "state",
        "trigger",
        "requested_by",
        "done",
        "expected",
        "rows_read",
        "metric_version",
        "stage",
        "error_code",
    )
    list_filter = ("state", "kind", "trigger", "error_code", "requested_at")
    list_select_related = ("requested_by",)
    inlines = (LineInline,)


@admin.register(RunLine)
class RunLineAdmin(LongList, ReadOnlyAdmin):
    list_display = ("at", "run", "level", "text")
    list_filter = ("level", "at")
    list_select_related = ("run",)
    ordering = ("-pk",)


@admin.register(Partition)
class PartitionAdmin(LongList, ReadOnlyAdmin):
    list_display = (
        "start",
        "grain",
        "state",
        "files",
        "rows_read",
        "rows_written",
        *completeness.FIELDS,
        "metric_version",
        "attempts",
        "retry_at",
        "processed_at",
        "compacted_at",
        "error",
    )
    list_filter = ("state", "grain", ("metric_version", RecentValues), "start")


@admin.register(Rollup)
class RollupAdmin(LongList, ReadOnlyAdmin):
    list_display = ("start", "grain", "dimension", "value", "sessions", "live_ms", "video_kbps_p50", "peak_players")
    list_filter = ("grain", "dimension", ("app", RecentValues), "start")
    search_fields = ("app", "name", "value")
    ordering = ("-pk",)
