"""What a stage's pytest is told by the suite, through its environment."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
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
    output: Path | None
    """Where what it prints goes, if not to the terminal."""
    beside: list[Path]
    """The outputs of the stages that run beside this one, each there when its stage has ended."""

    def as_environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self), default=str)}


def told() -> Told:
    found = json.loads(os.environ[VARIABLE])
    paths = {"folder": Path(found["folder"]), "output": found["output"] and Path(found["output"])}
    return Told(**{**found, **paths, "beside": [Path(name) for name in found["beside"]]})


@contextmanager
def alone(told: Told) -> Iterator[None]:
    """While the block runs, no other stage is in one: two that run at once may end at once."""
    with (told.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def whole(output: Path) -> Path:
    """The name of an output when it is whole."""
    return output.with_suffix(".whole")
