"""What a stage's pytest is told by the suite, through its environment."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "TESTS_SUITE"


@dataclass(frozen=True)
class Told:
    stage: str
    folder: Path
    """Where a stage leaves what the next ones go on from."""
    left_out: dict[str, str]
    """{stage that this machine could not run: why}"""
    began: float
    """When the stage did, in seconds since the epoch."""
    is_last: bool

    def as_environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps({**asdict(self), "folder": str(self.folder)})}


def told() -> Told:
    found = json.loads(os.environ[VARIABLE])
    return Told(**{**found, "folder": Path(found["folder"])})
