"""`manage.py analytics VERB`: run, retry, recompute, check, compact, generate.

Spark, Arrow and numpy are imported by the verb that needs them."""

import json
import time
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.core.checks import Tags
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from analytics import completeness, services
from analytics.models import METRIC_VERSION, AnalyticsRun, Partition
from analytics.services import Busy
from ingest.services import audit

Say = Callable[[str], object]
"""Prints a line."""


class Verb(NamedTuple):
    """One row of VERBS."""

    help: str
    """One line, for --help."""
    add_arguments: Callable[[ArgumentParser], None]
    perform: Callable[[dict[str, Any], Say], None]
    """Raises CommandError, which ends the command with its text and exit code 1. Spark and numpy: imported here."""


def moment(text: str) -> datetime:
    """An ISO 8601 date or time; UTC where it names no zone."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def add_period(parser: ArgumentParser, *, required: bool = False) -> None:
    """--from and --to, as `since` and `until`."""
    words: dict[str, Any] = {"type": moment, "metavar": "TIME", "required": required}
    parser.add_argument("--from", dest="since", help="only hours from this time on (UTC)", **words)
    parser.add_argument("--to", dest="until", help="only hours before this time (UTC)", **words)


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


RUN_HELP = "compute the hours and days that are new or changed"

BUSY_WAIT_S = 120.0
BUSY_POLL_S = 0.5


def add_run_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", choices=AnalyticsRun.Kind.values, default=AnalyticsRun.Kind.ALL.value)
    add_period(parser)
    add_json(parser)


def perform_run(options: dict[str, Any], say: Say) -> None:
    with transaction.atomic():
        run = services.create_run(
            trigger=AnalyticsRun.Trigger.COMMAND,
            kind=options["kind"],
            since=options["since"],
            until=options["until"],
        )
        audit.record(audit.command("analytics"), "analytics.run", f"run {run.pk}", kind=run.kind)
    run_here(run, say, as_json=options["json"])


def run_here(run: AnalyticsRun, say: Say, *, as_json: bool) -> None:
    """Does a run here and now, and prints what came of it. Raises CommandError when it failed."""
    from analytics import pipeline  # Spark is loaded only where it is used.

    pipeline.perform(claim_when_free(run), lake=settings.LAKE_DIR)  # Spark's JVM ends with this process.
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


def claim_when_free(run: AnalyticsRun) -> AnalyticsRun:
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


RETRY_HELP = "compute what has failed once more, without waiting for its time"


def add_retry_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", type=int, metavar="RUN", help="this run again, by its number; else all that failed"
    )
    add_json(parser)


def perform_retry(options: dict[str, Any], say: Say) -> None:
    former = None
    if options["run"] is not None:
        former = AnalyticsRun.objects.filter(pk=options["run"]).first()
        if former is None:
            raise CommandError(f"There is no run {options['run']}. The page of the jobs shows their numbers.")
    with transaction.atomic():
        services.clear_failures(former.partitions.all() if former else Partition.objects.all())
        again = services.create_run(
            trigger=AnalyticsRun.Trigger.COMMAND,
            kind=former.kind if former else AnalyticsRun.Kind.ALL.value,
            since=former.since if former else None,
            until=former.until if former else None,
        )
        audit.record(audit.command("analytics"), "analytics.retry", f"run {former.pk if former else again.pk}")
    run_here(again, say, as_json=options["json"])


RECOMPUTE_HELP = "compute the hours of a time, and their days, anew from what the lake holds of them"


def add_recompute_arguments(parser: ArgumentParser) -> None:
    add_period(parser, required=True)
    add_json(parser)


def perform_recompute(options: dict[str, Any], say: Say) -> None:
    since, until = options["since"], options["until"]
    with transaction.atomic():
        services.recompute(since, until)
        again = services.create_run(trigger=AnalyticsRun.Trigger.COMMAND, since=since, until=until)
        target = f"{since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M}"
        audit.record(audit.command("analytics"), "analytics.recompute", target)
    run_here(again, say, as_json=options["json"])


CHECK_HELP = "add the lake's samples up again and compare them with the rollups, in Parquet and in the database"

CHECK_ADVICE = (
    "Compute these hours anew (manage.py analytics recompute --from TIME --to TIME); if they differ again, keep the "
    "lake as it is and report it."
)


def add_check_arguments(parser: ArgumentParser) -> None:
    add_period(parser)
    add_json(parser)


def perform_check(options: dict[str, Any], say: Say) -> None:
    from pyarrow import ArrowException  # Arrow is loaded only where it is used.

    from analytics.lake.check import check

    try:
        found = check(settings.LAKE_DIR, options["since"], options["until"])
    except (OSError, ArrowException) as error:
        raise CommandError(f"The lake can't be read: {error}") from None
    if options["json"]:
        figures = {"hours": found.hours, "days": found.days, "samples": found.samples, "undone": found.undone}
        lacking = [
            {"start": row.start.isoformat(), **{name: getattr(row, name) for name in completeness.FIELDS}}
            for row in found.incomplete
        ]
        differences = [str(one) for one in found.differences]
        say(json.dumps(figures | {"differences": differences, "incomplete": lacking}))
    else:
        for difference in found.differences:
            say(str(difference))
        for note in completeness.noted(found.incomplete):
            say(f"{note.sentence(_as_argument)} {note.kind.advice}")
        say(
            f"Checked {found.samples:,} samples of {found.hours:,} hours, and {found.days:,} days; "
            f"{found.undone:,} hours and days are yet to be computed."
        )
    if found.differences:
        raise CommandError(f"{len(found.differences)} differences. {CHECK_ADVICE}")


def _as_argument(start: datetime) -> str:
    """As --from and --to take it."""
    return f"{start:%Y-%m-%dT%H:%MZ}"


COMPACT_HELP = "make one file of each node's many in the hours that are closed and computed"


def add_compact_arguments(parser: ArgumentParser) -> None:
    """It has none."""


def perform_compact(options: dict[str, Any], say: Say) -> None:
    from analytics.lake.maintenance import compact_closed  # Arrow is loaded only where it is used.

    hours, files = compact_closed(settings.LAKE_DIR, timezone.now(), run_s=float("inf"))
    say(f"Compacted {hours:,} hours: {files:,} files less.")


GENERATE_HELP = "fill a lake with made-up telemetry: realistic days of as many streams as you like, the same for a seed"


def add_generate_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--streams", type=int, required=True, help="how many there are")
    parser.add_argument("--from", dest="since", type=moment, required=True, metavar="TIME", help="the first hour (UTC)")
    parser.add_argument("--hours", type=int, required=True, help="how many are made")
    parser.add_argument("--seed", type=int, help="another one makes other days")
    parser.add_argument("--lake", type=Path, metavar="PATH", help="its folder (RTMPWEB_LAKE)")
    parser.add_argument("--into-existing", action="store_true", help="even if nodes have written to the lake")
    parser.add_argument(
        "--files-per-hour", type=int, default=60, metavar="N", help="of each node, a divisor of 60 (60, as nodes do)"
    )
    world = parser.add_argument_group("what the days are like")
    world.add_argument("--nodes", type=int, help="that the streams are published to")
    world.add_argument("--always-on", type=float, metavar="SHARE", help="streams on air day and night, 0 to 1")
    world.add_argument("--bad", type=float, metavar="SHARE", help="streams with a bad uplink, 0 to 1")
    world.add_argument("--players", type=float, metavar="N", help="of a stream on air, in the mean")
    world.add_argument("--twice", type=float, metavar="SHARE", help="files whose rows come twice, 0 to 1")


def perform_generate(options: dict[str, Any], say: Say) -> None:
    from analytics import synthetic  # numpy is loaded only where it is used.

    lake: Path = options["lake"] or settings.LAKE_DIR
    if not options["into_existing"] and synthetic.holds_other_data(lake):
        raise CommandError(
            f"{lake} holds what nodes have measured, and made-up figures would be mixed into its history. "
            "Name another folder (--lake), or add --into-existing if that is what you want."
        )

    def told(hour: datetime, samples: int) -> None:
        say(f"{hour:%Y-%m-%d %H:%M} UTC: {samples:,} samples")

    given = {name: options[name] for name in ("nodes", "always_on", "bad", "players", "twice")}
    try:
        made = synthetic.generate(
            lake,
            streams=options["streams"],
            start=options["since"],
            hours=options["hours"],
            seed=synthetic.SEED if options["seed"] is None else options["seed"],
            files_per_hour=options["files_per_hour"],
            world=synthetic.World(**{name: value for name, value in given.items() if value is not None}),
            told=told,
        )
    except (ValueError, OSError) as error:
        raise CommandError(str(error)) from None
    if lake == settings.LAKE_DIR:
        audit.record(audit.command("analytics"), "analytics.generate", str(lake), samples=made.samples)
    say(f"Made {made.samples:,} samples and {made.events:,} events of {made.sessions:,} publishing sessions in {lake}.")


VERBS = {
    "run": Verb(RUN_HELP, add_run_arguments, perform_run),
    "retry": Verb(RETRY_HELP, add_retry_arguments, perform_retry),
    "recompute": Verb(RECOMPUTE_HELP, add_recompute_arguments, perform_recompute),
    "check": Verb(CHECK_HELP, add_check_arguments, perform_check),
    "compact": Verb(COMPACT_HELP, add_compact_arguments, perform_compact),
    "generate": Verb(GENERATE_HELP, add_generate_arguments, perform_generate),
}


class Command(BaseCommand):
    help = "Runs the analytics on what the lake holds, and looks after what they have made."
    requires_system_checks = (Tags.compatibility, Tags.security)  # The others load pages and API, which it has not.

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        for name, verb in VERBS.items():
            verb.add_arguments(verbs.add_parser(name, help=verb.help))

    def handle(self, *args: Any, **options: Any) -> None:
        VERBS[options["verb"]].perform(options, self.stdout.write)
