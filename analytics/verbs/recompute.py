"""`manage.py analytics recompute`: what is done, done anew."""

from argparse import ArgumentParser
from typing import Any

from django.db import transaction

from analytics import services
from analytics.models import AnalyticsRun
from analytics.verbs import run
from analytics.verbs.arguments import add_json, add_period
from analytics.verbs.verb import Say
from ingest.services import audit

HELP = "compute the hours of a time, and their days, anew from what the lake holds of them"


def add_arguments(parser: ArgumentParser) -> None:
    add_period(parser, required=True)
    add_json(parser)


def perform(options: dict[str, Any], say: Say) -> None:
    since, until = options["since"], options["until"]
    with transaction.atomic():
        services.recompute(since, until)
        again = services.create_run(trigger=AnalyticsRun.Trigger.COMMAND, since=since, until=until)
        target = f"{since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M}"
        audit.record(audit.command("analytics"), "analytics.recompute", target)
    run.do(again, say, as_json=options["json"])
