"""What was sampled of a session or a stream, as columns: what pages draw and files have. No Arrow is needed for it."""

from dataclasses import dataclass, field

from ingest.contracts import Health

GAUGES = (
    "video_kbps",
    "audio_kbps",
    "wire_kbps",
    "fps",
    "fps_media",
    "keyframe_interval",
    "open_gop_age",
    "drift",
    "drift_dev",
    "av_skew",
    "idle_ms",
    "rtt_ms",
    "players",
    "viewers",
    "out_kbps",
    "slow_players",
)
COUNTERS = (
    "elapsed_ms",
    "video_bytes",
    "audio_bytes",
    "video_frames",
    "audio_frames",
    "keyframes",
    "ts_gap",
    "ts_regress",
    "missing_frames_est",
    "media_faults",
    "retrans",
    "dropped_frames",
)

MAX_GAPS = 200


@dataclass
class SeriesTotals:
    """Of all samples, not of the spans they are gathered into. Rates are audio and video, kbit/s; times are seconds."""

    samples: int = 0
    measured_s: float = 0.0
    mean_kbps: float | None = None
    p95_kbps: float | None = None
    warning_s: float = 0.0
    bad_s: float = 0.0
    missing_frames: int = 0
    most_players: int = 0
    most_viewers: int = 0


@dataclass
class Series:
    """Columns of one length, in the order of time. `at`: seconds since the epoch, of a span its first sample's.

    `step_s` is the spans' length, 0 where each value is a sample's own (about a second). `values` has a gauge's mean
    and a counter's sum, `low` and `high` the gauges' extremes: the same lists where nothing is gathered. `gaps`: times
    (from, to) without media; the longest, MAX_GAPS at most.
    """

    at: list[float] = field(default_factory=list)
    step_s: float = 0.0
    values: dict[str, list[float | None]] = field(default_factory=dict)
    low: dict[str, list[float | None]] = field(default_factory=dict)
    high: dict[str, list[float | None]] = field(default_factory=dict)
    health: list[Health] = field(default_factory=list)
    gaps: list[tuple[float, float]] = field(default_factory=list)
    totals: SeriesTotals = field(default_factory=SeriesTotals)
    files: int = 0
    """How many were opened."""
    problems: list[str] = field(default_factory=list)
    """Sentences on what could not be read."""
