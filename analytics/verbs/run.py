"""`manage.py analytics run`: the Spark jobs in the foreground."""

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import transaction

from analytics import services
from analytics.models import METRIC_VERSION, AnalyticsRun
from analytics.services import Busy
from analytics.verbs.arguments import add_json, add_period
from analytics.verbs.verb import Say
from ingest.services import audit

HELP = "compute the hours and days that are new or changed"

BUSY_WAIT_S = 120.0
BUSY_POLL_S = 0.5


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", choices=AnalyticsRun.Kind.values, default=AnalyticsRun.Kind.ALL.value)
    add_period(parser)
    add_json(parser)


def perform(options: dict[str, Any], say: Say) -> None:
    with transaction.atomic():
        run = services.create_run(
            trigger=AnalyticsRun.Trigger.COMMAND,
            kind=options["kind"],
            since=options["since"],
            until=options["until"],
        )
        audit.record(audit.command("analytics"), "analytics.run", f"run {run.pk}", kind=run.kind)
    do(run, say, as_json=options["json"])


def do(run: AnalyticsRun, say: Say, *, as_json: bool) -> None:
    """Does a run here and now, and prints what came of it. Raises CommandError when it failed."""
    from analytics import pipeline  # Spark is loaded only where it is used.

    pipeline.perform(claim(run), lake=settings.LAKE_DIR)  # Spark's JVM ends with this process.
    run.refresh_from_db()
    result = {
        "id": run.pk,
        "kind": run.kind,
        "state": run.state,
        "from": run.since.isoformat() if run.since else None,
        "to": run.until.isoformat() if run.until else None,
        "partitions_expected": run.expected,
        "partitions_done": run.done,
        "rows_read": run.rows_read,
        "rows_written": run.rows_written,
        "duration_s": round(run.duration_s or 0.0, 3),
        "metric_version": METRIC_VERSION,
        "error": run.error or None,
    }
    if as_json:
        say(json.dumps(result))
    elif not run.error:
        say(
            "Read {rows_read:,} rows, wrote {rows_written:,} rollups for {partitions_done} hours and days "
            "in {duration_s:.1f} s.".format_map(result)
        )
    if run.state != AnalyticsRun.State.DONE:
        raise CommandError(run.error or "It could not be noted how the run ended: see the log.")


def claim(run: AnalyticsRun) -> AnalyticsRun:
    """Waits for a run that is going on. Raises CommandError when it goes on too long."""
    deadline = time.monotonic() + BUSY_WAIT_S
    while True:
        try:
            claimed = services.claim(run_id=run.pk)
        except Busy:
            if time.monotonic() < deadline:
                time.sleep(BUSY_POLL_S)
                continue
            text = f"Another run went on for more than {BUSY_WAIT_S:.0f} s. Try again when it has ended."
            services.fail(run, code=AnalyticsRun.ErrorCode.FAILED, error=text)
            raise CommandError(text) from None
        if claimed is None:
            raise CommandError("This run was taken by another process.")
        return claimed
