"""One look at all parts: what the probes found, from which each part's state is told."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dashboard.system.parts import Part, State
from dashboard.system.probes import Rows
from ingest.contracts import NodeFigures


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at everything. `rows` are the last that were read; `grace_until`: before it nobody is late."""

    now: datetime
    database: Part
    redis: Part | None
    rows: Rows | None
    nodes: Sequence[NodeFigures] | None
    """What nodes told within the last seconds; None: not to be had."""
    grace_until: datetime
    disk_free_percent: float | None
    """Of this process's own data folder."""
    disk_hangs: bool
    """That disk does not answer."""

    @property
    def current(self) -> Rows | None:
        """What the database tells now."""
        return self.rows if self.database.state == State.OK else None

    def is_graced(self, former: Part | None) -> bool:
        """Whether who is silent may yet be heard; what was down stays so until it is."""
        return self.now < self.grace_until and not (former is not None and former.state == State.DOWN)
