"""The admin of analytics: plans of reports; history, runs and the archive to read. Schedules: Periodic tasks."""

from operator import methodcaller
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string

from analytics import completeness
from analytics.models import AnalyticsRun, Partition, Report, ReportDelivery, ReportPlan, Rollup, RunLine
from analytics.models.reports import PROGRESS, report_of
from analytics.reports.plans import PlanForm
from ingest.admin_site import AnyAdmin, LongList, ReadOnlyMixin, RecentValues, StateFilter

if TYPE_CHECKING:
    LineInlineBase = admin.TabularInline[RunLine, AnalyticsRun]
else:
    LineInlineBase = admin.TabularInline


class HistoryAdmin(LongList, ReadOnlyMixin, AnyAdmin):
    """A long list to look at."""


class LineInline(ReadOnlyMixin, LineInlineBase):
    model = RunLine
    fields = ("at", "level", "text")
    verbose_name_plural = "log"
    extra = 0


@admin.register(ReportPlan)
class ReportPlanAdmin(AnyAdmin):
    form = PlanForm
    list_display = ("name", "kind", "app", "stream", "time_zone", "send_at", "is_enabled")
    list_filter = ("kind", "is_enabled")
    list_select_related = ("stream__application",)
    autocomplete_fields = ("stream",)
    search_fields = ("name", "recipients")


@admin.register(Report)
class ReportAdmin(HistoryAdmin):
    list_display = ("made_at", "kind", "scope", "since", "until", "time_zone", "hours_done", "hours_expected", "plan")
    list_filter = ("kind", "plan", "made_at")
    list_select_related = ("plan",)
    search_fields = ("scope",)
    exclude = ("document",)
    readonly_fields = ("deliveries",)

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Model]":
        return super().get_queryset(request).defer("document")

    @admin.display(description="Report deliveries")
    def deliveries(self, report: Report) -> str:
        return render_to_string("admin/analytics/report/deliveries.html", {"deliveries": report.deliveries})


class ProgressFilter(StateFilter):
    """By what becomes of a report's mail; while it is being sent it waits."""

    states: ClassVar = {
        progress.value: (str(progress.label), methodcaller("filter", state=state))
        for state, progress in PROGRESS.items()
    }


class WithReports(ChangeList):
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        reports = Report.objects.defer("document").in_bulk({report_of(row) for row in self.result_list})
        for row in self.result_list:
            row.report = reports.get(report_of(row))


@admin.register(ReportDelivery)
class ReportDeliveryAdmin(HistoryAdmin):
    list_display = fields = ("recipient", "report", "mail_state", "attempts", "next_at", "sent_at", "error")
    list_filter = (ProgressFilter,)
    search_fields = ("address",)
    newest = "-number"
    ordering = ("-number",)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return WithReports

    @admin.display(description="state", ordering="state")
    def mail_state(self, row: ReportDelivery) -> str:
        return str(row.progress.label)


@admin.register(AnalyticsRun)
class AnalyticsRunAdmin(HistoryAdmin):
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
class RunLineAdmin(HistoryAdmin):
    list_display = ("at", "run", "level", "text")
    list_filter = ("level", "at")
    list_select_related = ("run",)
    ordering = ("-pk",)


@admin.register(Partition)
class PartitionAdmin(HistoryAdmin):
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
class RollupAdmin(HistoryAdmin):
    list_display = ("start", "grain", "dimension", "value", "sessions", "live_ms", "video_kbps_p50", "peak_players")
    list_filter = ("grain", "dimension", ("app", RecentValues), "start")
    search_fields = ("app", "name", "value")
    ordering = ("-pk",)
