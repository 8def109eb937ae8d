"""Metrics as tables, tiles and files show them: how each is called, with how many decimals."""

from dataclasses import dataclass

from analytics.figures import Figures
from analytics.metrics import UNITS
from analytics.players import ERROR as DISTINCT_PLAYERS_ERROR
from dashboard.templatetags.figures import NONE, figure


@dataclass(frozen=True, slots=True)
class Column:
    """`name`: of a property of Figures, and in a page's address and a file."""

    name: str
    label: str
    decimals: int = 0
    ascending: bool = False
    """Whether its worst end is the low one: sorted by it, that comes first."""
    note: str = ""
    """What to know of it."""

    @property
    def unit(self) -> str:
        return UNITS[self.name]

    @property
    def head(self) -> str:
        """ "Uptime, %"."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    def value(self, figures: Figures) -> float | None:
        found: float | None = getattr(figures, self.name)
        return found

    def text(self, figures: Figures) -> str:
        return figure(self.value(figures), self.decimals)

    def text_with_unit(self, figures: Figures) -> str:
        text = self.text(figures)
        return f"{text}\u00a0{self.unit}" if self.unit and text != NONE else text


HEALTH = Column("health_percent", "Health", 1, ascending=True)
UPTIME = Column("uptime_percent", "Uptime", 1, ascending=True)
LIVE = Column("live_h", "Live", 1)
MEAN = Column("video_kbps_mean", "Mean", ascending=True)
BELOW = Column("below_percent", "Below target", 1)
RECONNECTS = Column("reconnects", "Reconnects")
PER_HOUR = Column("reconnects_per_hour", "Reconnects", 2)
MTBF = Column("mtbf_h", "Between failures", 1, ascending=True)
RECOVERY = Column("mttr_s", "Mean recovery", 1)
MISSING = Column("missing_percent", "Missing frames, est.", 2)
CV = Column("cv", "Variation (CV)", 3)
LATE = Column("keyframe_late_percent", "Keyframes over 4 s", 1)
PEAK = Column("peak_players", "Peak players")
AVERAGE = Column("average_players", "Average players", 1)
PLAYER_H = Column("player_hours", "Player hours", 1)
DELIVERED = Column("delivered_gb", "Delivered", 3)
SUCCESS = Column("success_percent", "Publishes accepted", 1, ascending=True)

COMPARED = (
    *(HEALTH, UPTIME, LIVE, MEAN, BELOW, RECONNECTS, PER_HOUR, MTBF, RECOVERY, MISSING, CV, LATE),
    *(PEAK, AVERAGE, PLAYER_H, DELIVERED, SUCCESS),
)
"""Of the comparison, each of which it can be sorted by."""

FURTHER = (
    *(HEALTH, MEAN, CV, BELOW, MTBF),
    Column("unplanned_ends", "Unplanned ends"),
    Column("starvation_percent", "Starved beyond 2 s", 2),
    MISSING,
    Column("gaps_per_hour", "Timestamp gaps", 2),
    Column("media_faults", "Media faults"),
    LATE,
    Column("keyframe_interval_max", "Longest keyframe interval", 1),
    SUCCESS,
    Column("plays", "Plays begun"),
    Column("unique_players", "Distinct players", note=f"by address, with {DISTINCT_PLAYERS_ERROR}"),
    *(AVERAGE, PLAYER_H, DELIVERED),
    Column("dropped_frames", "Frames dropped for slow players"),
)
"""Of a stream's page, below its tiles: beside the period before."""
