"""`manage.py analytics retry`: what has failed once more, without waiting."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from analytics import services
from analytics.models import AnalyticsRun, Partition
from analytics.verbs import run
from analytics.verbs.arguments import add_json
from analytics.verbs.verb import Say
from ingest.services import audit

HELP = "compute what has failed once more, without waiting for its time"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", type=int, metavar="RUN", help="this run again, by its number; else all that failed"
    )
    add_json(parser)


def perform(options: dict[str, Any], say: Say) -> None:
    former = None
    if options["run"] is not None:
        former = AnalyticsRun.objects.filter(pk=options["run"]).first()
        if former is None:
            raise CommandError(f"There is no run {options['run']}. The page of the jobs shows their numbers.")
    with transaction.atomic():
        services.forgive(former.partitions.all() if former else Partition.objects.all())
        again = services.create_run(
            trigger=AnalyticsRun.Trigger.COMMAND,
            kind=former.kind if former else AnalyticsRun.Kind.ALL.value,
            since=former.since if former else None,
            until=former.until if former else None,
        )
        audit.record(audit.command("analytics"), "analytics.retry", f"run {former.pk if former else again.pk}")
    run.do(again, say, as_json=options["json"])
