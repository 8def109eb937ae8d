"""`manage.py report make` and `manage.py report list`: reports at the command line."""

from argparse import ArgumentParser
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone

from analytics.models import Report, ReportDelivery, ReportPlan
from analytics.reports import builder, files, periods, scopes
from analytics.reports.periods import Period, PeriodProblem
from analytics.reports.scopes import NoSuchScope, Scope
from ingest.delivery.email import EmailChannel
from ingest.delivery.engine import deliver
from ingest.management.base import put_json
from ingest.services import audit

Kind = ReportPlan.Kind

LISTED = 50


def _pdf(report: Report) -> bytes:
    from analytics.reports.pdf import pdf  # It loads what draws.

    return pdf(report.document)


WRITERS: dict[str, Callable[[Report], bytes]] = {
    ".html": lambda report: files.report_html(report).encode(),
    ".pdf": _pdf,
    ".csv": lambda report: files.report_csv(report.document).encode(),
    ".json": lambda report: files.report_json(report.document).encode(),
}
"""By the ending of --output."""


class Command(BaseCommand):
    help = "Makes reports of what was computed, sends them, and lists those that were made."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        make = verbs.add_parser("make", help="make a report, and keep it")
        make.add_argument("kind", choices=Kind.values, help="of a day, a week, a month or a broadcast")
        make.add_argument("--from", dest="since", metavar="TIME", help="a date, or a time (ISO 8601); see --to")
        make.add_argument(
            "--to",
            dest="until",
            metavar="TIME",
            help="the first moment after it. Without: the day, week or month with --from; without both: the last one",
        )
        make.add_argument("--time-zone", default="UTC", help="whose days and clock (default: %(default)s)")
        whose = make.add_mutually_exclusive_group()
        whose.add_argument("--stream", metavar="APP/NAME", default="", help="only of this stream")
        whose.add_argument("--app", default="", help="only of this application's streams")
        make.add_argument("--output", type=Path, metavar="FILE", help=f"write it: {', '.join(WRITERS)}")
        make.add_argument("--send", action="append", metavar="ADDRESS", default=[], help="send it there by e-mail, now")
        make.add_argument("--json", action="store_true", help="print all that it says as one JSON object")
        listing = verbs.add_parser("list", help=f"the last {LISTED} reports")
        listing.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        {"make": self._make, "list": self._list}[options["verb"]](options)

    def _make(self, options: dict[str, Any]) -> None:
        output: Path | None = options["output"]
        if output is not None and output.suffix not in WRITERS:
            raise CommandError(f"A report can't be written as {output.name!r}: end it in {', '.join(WRITERS)}.")
        for address in options["send"]:
            try:
                validate_email(address)
            except ValidationError:
                raise CommandError(f"{address!r} is no e-mail address.") from None
        try:
            period, scope = wanted(options, timezone.now())
        except (NoSuchScope, PeriodProblem) as problem:
            raise CommandError(str(problem)) from None
        report = builder.make(period, scope, actor=audit.command("report"))
        if output is not None:
            output.write_bytes(WRITERS[output.suffix](report))
        if options["json"]:
            put_json(self.stdout, {"id": report.pk, **report.document})
        else:
            self._tell(report, output)
        if options["send"]:
            self._send(report, options["send"])

    def _tell(self, report: Report, output: Path | None) -> None:
        document = report.document
        self.stdout.write(f"{document['title']}, {document['period']['words']}: report {report.pk}.")
        self.stdout.write(document["lede"].replace("**", ""))
        for finding in document["findings"]:
            self.stdout.write(f"- {finding['what']} {finding['advice']}".rstrip())
        for note in document["notes"]:
            self.stdout.write(f"Note: {note}")
        if output is not None:
            self.stdout.write(f"Written: {output}")

    def _send(self, report: Report, addresses: list[str]) -> None:
        with transaction.atomic():
            builder.send(report, addresses)
            audit.record(audit.command("report"), "report.send", str(report), to=addresses)
        deliver(EmailChannel.name)
        failed = report.deliveries.filter(address__in=addresses).exclude(state=ReportDelivery.State.DONE)
        for row in failed:
            raise CommandError(f"{row.address}: {row.error or 'it is tried again by the analytics worker.'}")
        self.stderr.write(f"Sent to {', '.join(addresses)}.")

    def _list(self, options: dict[str, Any]) -> None:
        rows = Report.objects.annotate(sent=ReportDelivery.counted(ReportDelivery.State.DONE))
        items = [
            {
                "id": report.pk,
                "kind": report.kind,
                "scope": report.scope,
                "period": report.document["period"]["words"],
                "time_zone": report.time_zone,
                "hours": f"{report.hours_done} of {report.hours_expected}",
                "made_at": report.made_at.isoformat(),
                "sent": report.sent,
            }
            for report in rows[:LISTED]
        ]
        if options["json"]:
            put_json(self.stdout, {"items": items, "count": rows.count()})
            return
        for item in items:
            of = f" {item['scope']}" if item["scope"] else ""
            self.stdout.write(f"{item['id']:>6}  {item['kind']}{of}, {item['period']} ({item['time_zone']})")


def wanted(options: dict[str, Any], now: datetime) -> tuple[Period, Scope]:
    """What to make a report of. Raises PeriodProblem, NoSuchScope."""
    zone = periods.zone_of(options["time_zone"])
    scope = Scope.asked(options["stream"] or options["app"])
    kind = options["kind"]
    since, until = (moment(options[name], zone) for name in ("since", "until"))
    if kind == Kind.BROADCAST:
        return _broadcast(scope, since, until, zone, now)
    if since is None:
        if until is not None:
            raise PeriodProblem("With --to, give --from as well.")
        return periods.last_ended(kind, now, zone), scope
    if until is None:
        return periods.around(kind, since, zone), scope
    return periods.exact(kind, since, until, zone), scope


def _broadcast(
    scope: Scope, since: datetime | None, until: datetime | None, zone: ZoneInfo, now: datetime
) -> tuple[Period, Scope]:
    """The last one of a stream that ended within the time."""
    if not scope.name:
        raise PeriodProblem("A broadcast is of one stream: give --stream APP/NAME.")
    begin, end = since or now - timedelta(days=60), until or now
    for broadcast in scopes.ended_broadcasts(scope, begin, now):
        if broadcast.until <= end:
            counted = broadcast.counted(zone.key)
            if counted is None:
                raise PeriodProblem("Its hours are not computed yet: run `manage.py analytics run` first.")
            return counted
    raise PeriodProblem(f"No broadcast of {scope.text} has ended there. One has 300 s after its last session.")


def moment(text: str | None, zone: ZoneInfo) -> datetime | None:
    """A date is the moment that it begins; a time is of the zone, unless it names one. Raises PeriodProblem."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise PeriodProblem(f"{text!r} is no date and no time. Give 2026-11-07, or 2026-11-07T20:00.") from None
    if found.time() == time.min and found.tzinfo is None:
        return periods.midnight(found.date(), zone)
    return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
