"""`manage.py analytics VERB`: run, retry, recompute, check, compact, generate.

Spark, Arrow and numpy are imported by the verb that needs them."""

import time
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import Tags
from django.core.management.base import CommandError
from django.db import transaction
from django.utils import timezone

from analytics import completeness, services
from analytics.models import METRIC_VERSION, AnalyticsRun, Partition
from analytics.services import Busy
from ingest import command_line
from ingest.management.base import JSON, Answer, Argument, Verb, VerbCommand
from ingest.services import audit

Kind, Trigger = AnalyticsRun.Kind, AnalyticsRun.Trigger

BUSY_WAIT_S = 120.0
BUSY_POLL_S = 0.5

CHECK_ADVICE = (
    f"Recompute these hours ({command_line.here('analytics recompute --from TIME --to TIME')}); if they differ "
    "again, keep the lake as it is and report it."
)


def moment(text: str) -> datetime:
    """An ISO 8601 date or time; UTC where it names no zone."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def period(*, required: bool = False) -> tuple[Argument, Argument]:
    """--from and --to, as `since` and `until`."""
    words: dict[str, Any] = {"type": moment, "metavar": "TIME", "required": required}
    return (
        Argument("--from", dest="since", help="only hours from this time on (UTC)", **words),
        Argument("--to", dest="until", help="only hours before this time (UTC)", **words),
    )


class Command(VerbCommand):
    help = "Runs the analytics on what the lake holds, and looks after what they have made."
    requires_system_checks = (Tags.compatibility, Tags.security)  # The others load pages and API, which it has not.

    @Verb(
        "compute the hours and days that are new or changed",
        Argument("kind", nargs="?", choices=Kind.values, default=Kind.ALL.value),
        *period(),
    )
    def _run(self, **asked: Any) -> Answer:
        with transaction.atomic():
            run = services.create_run(trigger=Trigger.COMMAND, **asked)
            audit.record(self.actor, "analytics.run", f"run {run.pk}", kind=run.kind)
        return run_here(run)

    @Verb(
        "retry what has failed, without waiting for its next try",
        Argument("run", nargs="?", type=int, metavar="RUN", help="only this run, by its number; else all that failed"),
    )
    def _retry(self, run: int | None) -> Answer:
        former = None if run is None else AnalyticsRun.objects.filter(pk=run).first()
        if run is not None and former is None:
            raise CommandError(f"There is no run {run}. The page Analytics jobs shows their numbers.")
        with transaction.atomic():
            services.clear_failures(former.partitions.all() if former else Partition.objects.all())
            again = services.create_run(trigger=Trigger.COMMAND, **services.same_work(former))
            audit.record(self.actor, "analytics.retry", f"run {former.pk if former else again.pk}")
        return run_here(again)

    @Verb("recompute the hours of a time, and their days, from what the lake holds of them", *period(required=True))
    def _recompute(self, since: datetime, until: datetime) -> Answer:
        with transaction.atomic():
            services.recompute(since, until)
            again = services.create_run(trigger=Trigger.COMMAND, since=since, until=until)
            target = f"{since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M}"
            audit.record(self.actor, "analytics.recompute", target)
        return run_here(again)

    @Verb(
        "add the lake's samples up again and compare them with the rollups, in Parquet and in the database", *period()
    )
    def _check(self, since: datetime | None, until: datetime | None) -> Answer:
        from pyarrow import ArrowException  # Arrow is loaded only where it is used.

        from analytics.lake.check import check

        try:
            report = check(settings.LAKE_DIR, since, until)
        except (OSError, ArrowException) as error:
            raise CommandError(f"The lake can't be read: {error}") from None
        figures = {"hours": report.hours, "days": report.days, "samples": report.samples, "undone": report.undone}
        lacking = [
            {"start": row.start.isoformat(), **{name: getattr(row, name) for name in completeness.FIELDS}}
            for row in report.incomplete
        ]
        notes = [f"{note.sentence(_as_argument)} {note.kind.advice}" for note in completeness.noted(report.incomplete)]
        counted = (
            f"Checked {report.samples:,} samples of {report.hours:,} hours, and {report.days:,} days; "
            f"{report.undone:,} hours and days are not computed yet."
        )
        return Answer(
            figures | {"differences": report.differences, "incomplete": lacking},
            [*report.differences, *notes, counted],
            f"{len(report.differences)} differences. {CHECK_ADVICE}" if report.differences else "",
        )

    @Verb("make one file of each node's many in the hours that are closed and computed")
    def _compact(self) -> Answer:
        from analytics.lake.maintenance import compact_closed  # Arrow is loaded only where it is used.

        hours, files = compact_closed(settings.LAKE_DIR, timezone.now(), run_s=float("inf"))
        return Answer({"hours": hours, "files": files}, [f"Compacted {hours:,} hours: {files:,} files less."])

    @Verb(
        "fill a lake with made-up telemetry: realistic days of as many streams as you like, the same for a seed",
        Argument("--streams", type=int, required=True, help="how many there are"),
        Argument("--from", dest="start", type=moment, required=True, metavar="TIME", help="the first hour (UTC)"),
        Argument("--hours", type=int, required=True, help="how many are made"),
        Argument("--seed", type=int, help="another one makes other days"),
        Argument("--lake", type=Path, metavar="PATH", help="its folder (RTMPWEB_LAKE)"),
        Argument("--into-existing", action="store_true", help="even if nodes have written to the lake"),
        Argument(
            "--files-per-hour",
            type=int,
            default=60,
            metavar="N",
            help="of each node, a divisor of 60 (60, as nodes do)",
        ),
        Argument("--nodes", type=int, help="that the streams are published to"),
        Argument("--always-on", type=float, metavar="SHARE", help="streams on air day and night, 0 to 1"),
        Argument("--bad", type=float, metavar="SHARE", help="streams with a bad uplink, 0 to 1"),
        Argument("--players", type=float, metavar="N", help="of a stream on air, in the mean"),
        Argument("--twice", type=float, metavar="SHARE", help="files whose rows come twice, 0 to 1"),
        JSON,
    )
    def _generate(
        self, lake: Path | None, seed: int | None, *, into_existing: bool, json: bool, **wanted: Any
    ) -> Answer:
        from analytics import synthetic  # numpy is loaded only where it is used.

        lake = lake or settings.LAKE_DIR
        if not into_existing and synthetic.holds_other_data(lake):
            raise CommandError(
                f"{lake} holds what nodes have measured, and made-up figures would be mixed into its history. "
                "Name another folder (--lake), or add --into-existing if that is what you want."
            )
        world = {each.name: wanted.pop(each.name) for each in fields(synthetic.World)}

        def report(hour: datetime, samples: int) -> None:
            if not json:
                self.stdout.write(f"{hour:%Y-%m-%d %H:%M} UTC: {samples:,} samples")

        try:
            totals = synthetic.generate(
                lake,
                seed=synthetic.SEED if seed is None else seed,
                world=synthetic.World(**{name: value for name, value in world.items() if value is not None}),
                report=report,
                **wanted,
            )
        except (ValueError, OSError) as error:
            raise CommandError(str(error)) from None
        if lake == settings.LAKE_DIR:
            audit.record(self.actor, "analytics.generate", str(lake), samples=totals.samples)
        counts = f"{totals.samples:,} samples and {totals.events:,} events of {totals.sessions:,} publishing sessions"
        return Answer(asdict(totals), [f"Made {counts} in {lake}."])


def run_here(run: AnalyticsRun) -> Answer:
    """Does a run here and now. Raises CommandError."""
    from analytics import pipeline  # Spark is loaded only where it is used.

    pipeline.perform(claim_when_free(run), lake=settings.LAKE_DIR)  # Spark's JVM ends with this process.
    run.refresh_from_db()
    duration_s = run.duration_s or 0.0
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
        "duration_s": round(duration_s, 3),
        "metric_version": METRIC_VERSION,
        "error": run.error or None,
    }
    done = (
        f"Read {run.rows_read:,} rows, wrote {run.rows_written:,} rollups for {run.done} hours and days "
        f"in {duration_s:.1f} s."
    )
    problem = "" if run.state == AnalyticsRun.State.DONE else "It could not be noted how the run ended: see the log."
    return Answer(result, [] if run.error else [done], run.error or problem)


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


def _as_argument(start: datetime) -> str:
    return f"{start:%Y-%m-%dT%H:%MZ}"
