"""The workers, or Spark's Java process, are away while three streams go on: what was asked for is done afterwards."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from playwright.sync_api import Page

from tests.production import settings as limits
from tests.production.installation import Production
from tests.production.outages.outage import AWAY_S, away, check_accepted, check_after, check_over, check_told
from tests.production.outages.steady import Steady
from tests.production.outages.test_parts import Guests, wait_while_running
from tests.programs import Keys
from tests.rtmpweb import processes
from tests.server_process import wait_for
from tests.tools import require_tool

pytestmark = [
    pytest.mark.production,
    pytest.mark.measures_time,
    pytest.mark.timeout(480),
]

BEGUN_S = 60.0
WARM_S = 240.0
"""A worker that has just started warms Spark up before its first run, here beside all the rest, and maybe from cold."""
ENDED = "SELECT 1 FROM analytics_analyticsrun WHERE id = %s AND ended_at IS NOT NULL"
LOST_S = limits.RUN_LOST_S + 10.0
"""A run whose process was lost is found to be so after RUN_LOST_S without a sign of life."""


@pytest.fixture(autouse=True)
def _java() -> None:
    require_tool("java")


def ask(production: Production, page: Page) -> int:
    """Asks for a run on the page; its id. When the run ends the page loads itself anew, whatever it is sent to then."""
    page.goto(production.http + "/analytics/")
    page.click("#run-now")
    page.wait_for_selector("#run[data-run]")
    return int(page.get_attribute("#run", "data-run") or 0)


def run_is(
    production: Production, run: int, *states: str, within_s: float, meanwhile: Callable[[], None] = lambda: None
) -> tuple[str, str, str]:
    """(state, error_code, error) of the run when it is in one of the states. `meanwhile`: done each time it is not."""

    def found() -> tuple[str, str, str] | None:
        meanwhile()
        row = production.rows("SELECT state, error_code, error FROM analytics_analyticsrun WHERE id = %s", run)[0]
        return (row[0], row[1], row[2]) if row[0] in states else None

    return wait_for(found, timeout_s=within_s, what=f"run {run} is {' or '.join(states)}")


def java(production: Production) -> list[int]:
    """Spark's Java processes that the analytics worker has started; not `java -version`, by which it finds a Java."""
    commands = {pid: processes.command(pid).split(" ") for pid in processes.descendants(production.analytics.pid)}
    return [pid for pid, (program, *args) in commands.items() if program.endswith("java") and args != ["-version"]]


def test_killed_workers_lose_their_run_but_disturb_no_stream(
    production: Production, steady: Steady, keys: Keys, sessions: list[str], page: Page
) -> None:
    with Guests(production, keys) as others:
        with steady.undisturbed("The workers are away"):
            lost = ask(production, page)
            run_is(production, lost, "running", within_s=WARM_S)  # Spark may be there before: it is kept warm.
            wait_for(lambda: java(production), timeout_s=BEGUN_S, what="Spark has started")
            with away(production.worker, production.analytics) as outage:
                check_accepted(production, keys["new"])
                others.leave()
                check_told(production, page, "worker_analytics", outage.began)
                check_told(production, page, "worker_default", outage.began)

                page.locator("#run-failed", has_text="lost").wait_for(timeout=LOST_S * 1000)
                assert run_is(production, lost, "failed", within_s=0)[1] == "lost"
                asked = ask(production, page)
            wait_while_running(production, ENDED, asked, what="the run that was asked for has ended")
            assert run_is(production, asked, "done", "failed", within_s=0)[0] == "done"
        # The page has loaded itself anew: the next test may send it elsewhere.
        page.locator(f'#last-run[data-run="{asked}"]').wait_for()
        check_over(page, "worker_analytics")
        others.check(outage)
    check_after(production, steady, sessions)


def test_killed_java_fails_the_run_but_disturbs_no_stream(
    production: Production, steady: Steady, keys: Keys, sessions: list[str], page: Page
) -> None:
    """That the worker's next run succeeds: `tests/analytics/test_pipeline.py`."""
    killed = set()

    def kill() -> None:
        for pid in java(production):
            with suppress(ProcessLookupError):  # One that was killed before may have been there until now.
                os.kill(pid, signal.SIGKILL)
            killed.add(pid)

    with steady.undisturbed("Java is away"):
        run = ask(production, page)
        began = time.monotonic()
        _, code, error = run_is(production, run, "failed", within_s=WARM_S, meanwhile=kill)
        assert killed
        assert code == "lost"
        assert error.startswith("Spark's Java process")
        page.locator("#run-failed", has_text=error).wait_for()
        while time.monotonic() - began < AWAY_S:
            kill()
            time.sleep(0.5)
        check_accepted(production, keys["new"])
    check_after(production, steady, sessions)
