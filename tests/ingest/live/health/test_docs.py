"""docs/health.md says of each check what the tables say."""

import re
from pathlib import Path
from typing import Any

from ingest.live.health import CHECKS, NODE_CHECKS, Check
from ingest.live.health.engine import Level

DOCS = Path(__file__).parents[4] / "docs" / "health.md"
ROW = re.compile(r"^\| `(\w+)` \|.*\| ([^|]+) \| ([^|]+) \| (\d+) s \| [^|]+ \|$", re.MULTILINE)
SIGNS = {"gt": ">", "lt": "<", "ge": "≥"}


def limit(check: Check[Any], level: Level) -> str:
    if level not in check.levels:
        return "-"
    return f"{SIGNS[check.passes.__name__]} {check.limit(level):g} {check.unit}".strip()


def test_the_table() -> None:
    rows = {code: (warning, bad, float(hold)) for code, warning, bad, hold in ROW.findall(DOCS.read_text())}
    checks: list[Check[Any]] = [*CHECKS, *NODE_CHECKS]
    made = {check.code: (limit(check, "warning"), limit(check, "bad"), check.hold_s) for check in checks}
    assert rows == made
