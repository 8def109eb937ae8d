"""A report's row as `analytics.reports` makes it, of a week with one bad evening: for tests of pages."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from analytics.models import METRIC_VERSION, Report, ReportDelivery
from analytics.reports.document import Chart, Document, StreamRow
from ingest.delivery.engine import enqueue

SINCE = datetime(2026, 11, 8, 23, tzinfo=UTC)
WEEK = timedelta(days=7)
HOURS = 168
OFF_AIR = range(3, 6)
"""Hours of each day."""


def chart() -> Chart:
    on_air = [hour % 24 not in OFF_AIR for hour in range(HOURS)]
    return {
        "title": "live/cam-1, bitrate by hour",
        "caption": "Median and the band from p5 to p95, kbit/s. Gaps are hours off air.",
        "stream": "live/cam-1",
        "step_s": 3600,
        "from": SINCE.isoformat(),
        "p5": [4620.0 if on else None for on in on_air],
        "p50": [5890.0 if on else None for on in on_air],
        "p95": [6130.0 if on else None for on in on_air],
        "target": 6000,
        "ticks": [{"at": 12.0, "label": "Mon 9"}, {"at": 36.0, "label": "Tue 10"}],
        "edges": [24.0 * day for day in range(8)],
    }


def stream_row(name: str, **fields: Any) -> StreamRow:
    row: dict[str, Any] = {
        "stream": f"live/{name}",
        "worst": "good",
        "reason": "",
        "health_percent": 98.6,
        "live_h": 137.5,
        "uptime_percent": 99.4,
        "p50": 5890.0,
        "p5": 4620.0,
        "p95": 6130.0,
        "reconnects": 7,
        "below_percent": 2.1,
        "missing_percent": 0.314,
        "peak_players": 1512,
        "delivered_gb": 18.62,
        "player_hours": 41_300.0,
    }
    return cast(StreamRow, row | fields)


def document(**fields: Any) -> Document:
    said: dict[str, Any] = {
        "kind": "weekly",
        "title": "Weekly stream report",
        "scope": "",
        "scope_words": "All streams",
        "period": {
            "since": SINCE.isoformat(),
            "until": (SINCE + WEEK).isoformat(),
            "time_zone": "Europe/Berlin",
            "words": "9 to 15 November 2026",
            "begins": "9 Nov 2026, 00:00",
            "ends": "16 Nov 2026, 00:00",
        },
        "completeness": {"expected": HOURS, "done": HOURS},
        "metric_version": METRIC_VERSION,
        "made_at": (SINCE + WEEK).isoformat(),
        "made_words": "16 Nov 2026, 00:12",
        "lede": "A steady week with one bad evening. On Sunday **live/cam-1** fell to 1,920 kbit/s.",
        "notes": [],
        "tiles": [
            {"label": "Uptime", "value": "99.4", "unit": "%", "comparison": "week before: 99.7 %"},
            {"label": "Reconnects", "value": "7", "unit": "", "comparison": "5 more"},
        ],
        "more": [{"label": "Mean recovery", "value": "41", "unit": "s", "comparison": ""}],
        "findings": [
            {
                "level": "bad",
                "what": "live/cam-1 was below 70 % of its target for 2 h 53 min.",
                "advice": "Give the venue a wired uplink.",
                "stream": "live/cam-1",
            },
            {"level": "warning", "what": "6 publishes were refused.", "advice": "6 with an expired key.", "stream": ""},
        ],
        "streams": [
            stream_row("cam-1", worst="bad", reason="below its target for 2 h 53 min"),
            stream_row("cam-2", p5=None, p50=None, p95=None),
        ],
        "best": [stream_row("cam-2", reason="was up 100 % of 138 h")],
        "charts": [chart()],
        "refusals": [{"reason": "key_expired", "words": "Key expired", "count": 6}],
        "figures": {},
        "footnote": "Health is 100 for good, 50 for warning and 0 for bad, weighed by time.",
    }
    return cast(Document, said | fields)


def make_report(said: Document | None = None, **fields: Any) -> Report:
    row: dict[str, Any] = {
        "kind": "weekly",
        "since": SINCE,
        "until": SINCE + WEEK,
        "time_zone": "Europe/Berlin",
        "hours_expected": HOURS,
        "hours_done": HOURS,
        "document": said or document(),
    }
    return Report.objects.create(**(row | fields))


def make_delivery(report: Report, address: str, **fields: Any) -> ReportDelivery:
    made = ReportDelivery.to(report, address, **fields)
    enqueue([made])
    return made
