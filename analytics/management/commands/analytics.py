"""`manage.py analytics run`: the Spark jobs in the foreground."""

import json
import time
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from analytics import services
from analytics.models import METRIC_VERSION, AnalyticsRun
from analytics.services import Busy

BUSY_WAIT_S = 120.0
BUSY_POLL_S = 0.5


def moment(text: str) -> datetime:
    """An ISO 8601 date or time; UTC where it names no zone."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


class Command(BaseCommand):
    help = "Runs the analytics on what the lake holds, and prints what was read, written and how long it took."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        run = verbs.add_parser("run", help="compute the hours and days that are new or changed")
        run.add_argument("kind", nargs="?", choices=AnalyticsRun.Kind.values, default=AnalyticsRun.Kind.ALL.value)
        run.add_argument("--from", dest="since", type=moment, metavar="TIME", help="only hours from this time on (UTC)")
        run.add_argument("--to", dest="until", type=moment, metavar="TIME", help="only hours before this time (UTC)")
        run.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        from analytics.pipeline import perform  # Spark is loaded only where it is used.

        run = services.create_run(
            trigger=AnalyticsRun.Trigger.COMMAND,
            kind=options["kind"],
            since=options["since"],
            until=options["until"],
        )
        perform(claim(run), lake=settings.LAKE_DIR)  # Spark's JVM ends with this process.
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
        if options["json"]:
            self.stdout.write(json.dumps(result))
        elif not run.error:
            self.stdout.write(
                "Read {rows_read:,} rows, wrote {rows_written:,} rollups for {partitions_done} hours and days "
                "in {duration_s:.1f} s.".format_map(result)
            )
        if run.error:
            raise CommandError(run.error)


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
