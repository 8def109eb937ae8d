"""What analytics keeps in the database: its runs, which part of the lake is done, the rollups, and the reports."""

from analytics.models.reports import Report, ReportDelivery, ReportPlan
from analytics.models.rollups import (
    FIGURES,
    IDENTITY,
    METRIC_VERSION,
    PACKED,
    Dimension,
    Grain,
    Rollup,
    within,
)
from analytics.models.runs import AnalyticsRun, Partition, RunLine

__all__ = [
    "FIGURES",
    "IDENTITY",
    "METRIC_VERSION",
    "PACKED",
    "AnalyticsRun",
    "Dimension",
    "Grain",
    "Partition",
    "Report",
    "ReportDelivery",
    "ReportPlan",
    "Rollup",
    "RunLine",
    "within",
]
