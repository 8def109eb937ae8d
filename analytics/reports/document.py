"""What a report says, as JSON: `Report.document`. Pages, mail, PDF, CSV and the API all tell this and nothing else.

Times are ISO 8601 in UTC unless said otherwise; bitrates kbit/s; shares percent; None where nothing was measured.
"""

from typing import Literal, NotRequired, TypedDict

from analytics.wording import Tile, share_words

VERSION = 2
"""Of the document's shape. What was made before 2 has none, and counts reconnects where later ones count drops."""

MOST_ROWS = 200
"""Streams, the most affected first, that a page or a PDF shows: the CSV and the API have all of them."""

Level = Literal["bad", "warning", "good"]
Worst = Literal["bad", "warning", "good", "none"]


class Period(TypedDict):
    since: str
    until: str  # The first moment after it.
    time_zone: str
    words: str  # "7 to 13 November 2026"
    begins: str  # As a clock of the time zone shows it: "7 Nov 2026, 00:00"
    ends: str


class Lacking(TypedDict):
    """What hours lack, of all streams."""

    what: Literal["damaged_files", "late_rows", "strays"]  # The ledger's field.
    count: int  # Of files, or of records.
    hours: int
    first: list[str]  # When the first few of them begin.
    words: str  # A sentence.


class Completeness(TypedDict):
    """Hours in which something was recorded, and how many of them had been computed when the report was made."""

    expected: int
    done: int
    lacking: NotRequired[list[Lacking]]  # Not there where they lacked nothing.


class Finding(TypedDict):
    """What happened, in bold, and what to do, plain. `stream` is app/name, or empty."""

    level: Level
    what: str
    advice: str
    stream: str


class StreamRow(TypedDict):
    """In the order of `lost_min` times audience. What is not required is there since version 2."""

    stream: str
    worst: Worst
    reason: str  # Why it is among the worst, or the best; empty where nothing is to be said.
    health_percent: float | None
    live_h: float
    uptime_percent: float | None
    p50: float | None
    p5: float | None
    p95: float | None
    reconnects: int
    below_percent: float | None
    missing_percent: float | None
    peak_players: int
    delivered_gb: float
    player_hours: float
    unplanned_ends: NotRequired[int]  # Drops.
    lost_min: NotRequired[float]
    average_players: NotRequired[float | None]
    bad_percent: NotRequired[float | None]
    warning_percent: NotRequired[float | None]


class Tick(TypedDict):
    """`at` counts steps from the chart's begin: point i stands at i + 0.5."""

    at: float
    label: str


Chart = TypedDict(
    "Chart",
    {
        "title": str,  # "live/arena-main, bitrate by hour"
        "caption": str,
        "stream": str,
        "step_s": int,
        "from": str,
        "p5": list[float | None],  # One a step; None while off air.
        "p50": list[float | None],
        "p95": list[float | None],
        "target": int | None,
        "ticks": list[Tick],
        "edges": list[float],  # Where days (of a day: six hours) begin, in steps.
    },
)


OTHER = "other"
"""What was refused for reasons that nobody counted."""


class Refusal(TypedDict):
    """Together they are `refused` of the figures."""

    reason: str  # A key of ingest.services.refusals.REASONS, or OTHER.
    words: str
    count: int


class Figures(TypedDict):
    """Raw, unrounded. `gop` is the share of keyframe intervals by the bins of metrics.GOP_BINS."""

    live_h: float
    streams: int
    uptime_percent: float | None
    starts: int
    broadcasts: int
    reconnects: int
    reconnects_per_h: float | None
    unplanned_ends: int
    mtbf_h: float | None  # None: no unplanned end.
    mttr_s: float | None
    health_percent: float | None
    bad_h: float
    warning_h: float
    below_h: float
    below_percent: float | None
    starved_percent: float | None
    gaps_per_h: float | None
    missing_percent: float | None
    mean_kbps: float | None
    p5: float | None
    p50: float | None
    p95: float | None
    cv: float | None
    gop: dict[str, float]
    keyframe_interval_max: float | None
    accepted: int
    refused: int
    success_percent: float | None
    plays: int
    unique_players: int | None  # None: not told apart, or too many rows.
    player_hours: float
    average_players: float | None
    peak_players: int
    peak_at: str | None
    peak_streams: int
    delivered_gb: float
    peak_viewers: NotRequired[int]  # Those by HLS; earlier versions tell none of these.
    viewer_hours: NotRequired[float]
    viewer_reports: NotRequired[int]  # How many told how it had played: of them alone are the next.
    viewer_join_s: NotRequired[float | None]
    viewer_stalled_percent: NotRequired[float | None]


class Document(TypedDict):
    version: NotRequired[int]
    kind: str  # ReportPlan.Kind
    title: str  # "Weekly stream report"
    scope: str  # As Report.scope.
    scope_words: str  # "All streams"
    period: Period
    completeness: Completeness
    metric_version: int
    made_at: str
    made_words: str  # In the period's time zone.
    lede: str  # Plain text with **bold** marks.
    notes: list[str]  # What a reader has to know: incomplete, widened to whole hours.
    tiles: list[Tile]
    more: list[Tile]  # What else was counted.
    findings: list[Finding]  # Worst first.
    streams: list[StreamRow]  # Most affected first.
    best: list[StreamRow]
    charts: list[Chart]
    refusals: list[Refusal]  # Most first, OTHER last.
    figures: Figures
    former: NotRequired[Figures]  # Of the period before; not there when nothing was recorded in it.
    footnote: str


def breaks_head(document: Document) -> str:
    """What a column of `breaks` counts."""
    return "Drops" if document.get("version", 1) >= 2 else "Reconnects"


def breaks(row: StreamRow) -> int:
    return row.get("unplanned_ends", row["reconnects"])


def share(row: StreamRow) -> str:
    """Of its time, that in bad health or a warning, where it is called so; "" before version 2."""
    return share_words(row["worst"], row.get("bad_percent"), row.get("warning_percent"))


def lost_min(row: StreamRow) -> float | None:
    return row.get("lost_min")
