"""The last lines of `make test`: one count of all its runs, and the tests that were skipped, failed or slow.

`python -m tests.summary FOLDER CODE` reads each `FOLDER/*.xml`, a JUnit report of one run, and exits with 1 if a test
failed, if too many are marked `slow`, or if CODE, by which the caller says that a run ended badly, is not 0.
"""

import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

SLOW_S = 5.0
"""A test of the default tiers takes at most this long, unless it is marked `slow` with a reason."""

MAX_SLOW = 25
"""At most this many tests may be marked `slow`."""


@dataclass(frozen=True)
class Result:
    """One test of a run. `outcome` is passed, failed or skipped; `slow` is the reason that it may be slow, or ""."""

    run: str
    name: str
    seconds: float
    outcome: str
    reason: str
    slow: str


def read(report: Path) -> list[Result]:
    """Return the results of a JUnit report; a test that failed both in itself and in its teardown counts once."""
    found: dict[str, Result] = {}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - the file is of our own run.
        name = re.sub(r"@[\w./]+$", "", f"{case.get('classname')}::{case.get('name')}")  # The group, by pytest-xdist.
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        outcome = "failed" if bad is not None else "skipped" if skipped is not None else "passed"
        reason = skipped.get("message", "") if skipped is not None else ""
        slow = next((each.get("value", "") for each in case.iter("property") if each.get("name") == "slow"), "")
        if name not in found or outcome == "failed":
            found[name] = Result(report.stem, name, float(case.get("time", 0)), outcome, reason, slow)
    return list(found.values())


def lines(results: list[Result]) -> list[str]:
    """Return the summary; the last line counts everything."""
    by_run: dict[str, list[Result]] = defaultdict(list)
    for each in results:
        by_run[each.run].append(each)
    text = ["", "Tests by run, with the sum of their seconds:"]
    for run, found in by_run.items():
        text.append(f"  {run}: {len(found)} tests, {sum(each.seconds for each in found):.0f} s")
    slow = sorted((each for each in results if each.seconds > SLOW_S or each.slow), key=lambda each: -each.seconds)
    text += _section(
        "Slow for a reason", [f"{each.seconds:.1f} s {each.name}: {each.slow}" for each in slow if each.slow]
    )
    text += _section(
        f"Over {SLOW_S:g} s without a reason", [f"{each.seconds:.1f} s {each.name}" for each in slow if not each.slow]
    )
    skipped = [f"{each.name}: {each.reason.removeprefix('Skipped: ')}" for each in results if each.outcome == "skipped"]
    text += _section("Skipped", skipped)
    text += _section("Failed", [f"{each.run}: {each.name}" for each in results if each.outcome == "failed"])
    count = {outcome: sum(each.outcome == outcome for each in results) for outcome in ("passed", "failed", "skipped")}
    return [*text, "", f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped"]


def _section(title: str, rows: list[str]) -> list[str]:
    return [f"{title} ({len(rows)}):", *(f"  {row}" for row in rows)] if rows else []


def main(folder: Path, code: int) -> int:
    """Print the summary of a folder's reports and return the exit code of all runs."""
    results = [result for report in sorted(folder.glob("*.xml")) for result in read(report)]
    text, has_failed = lines(results), any(each.outcome == "failed" for each in results)
    marked, why = sum(bool(each.slow) for each in results), ""
    if marked > MAX_SLOW:
        why = f"{marked} tests are marked slow, {MAX_SLOW} may be: make some faster, or move them to the matrix."
    elif not results or (code and not has_failed):
        why = "A run ended without its results, or badly after them: see what it printed."
    print("\n".join([*text[:-1], *([why] if why else []), text[-1]]))  # noqa: T201
    return int(bool(why) or has_failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
