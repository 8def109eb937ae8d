"""`manage.py report make` and `manage.py report list`: reports at the command line."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from zoneinfo import ZoneInfo

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone

from analytics import periods
from analytics.broadcasts import ended_broadcasts
from analytics.metrics import BROADCAST_GAP_S
from analytics.models import Report, ReportDelivery, ReportPlan
from analytics.periods import Period, PeriodProblem
from analytics.reports import builder, files
from analytics.scopes import NoSuchScope, Scope
from ingest import command_line
from ingest.delivery.email import EmailChannel
from ingest.delivery.engine import deliver
from ingest.management.base import Answer, Argument, Verb, VerbCommand
from ingest.services import audit

Kind = ReportPlan.Kind

LISTED = 50
POLL_S = 0.2
UNDER_WAY_S = 30.0
"""The command waits for at most this time while the worker sends one of its mails."""


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


class Command(VerbCommand):
    help = "Makes reports of what was computed, sends them, and lists those that were made."
    errors = (NoSuchScope, PeriodProblem)

    @Verb(
        "make a report, and keep it",
        Argument("kind", choices=Kind.values, help="of a day, a week, a month or a broadcast"),
        Argument("--from", dest="since", metavar="TIME", help="a date, or a time (ISO 8601); see --to"),
        Argument(
            "--to",
            dest="until",
            metavar="TIME",
            help="the first moment after it. Without: the day, week or month with --from; without both: the last one",
        ),
        Argument("--time-zone", default="UTC", help="whose days and clock (default: %(default)s)"),
        Argument("--stream", metavar="APP/NAME", default="", help="only of this stream"),
        Argument("--app", default="", help="only of this application's streams"),
        Argument("--output", type=Path, metavar="FILE", help=f"write it: {', '.join(WRITERS)}"),
        Argument("--send", action="append", metavar="ADDRESS", default=[], help="send it there by e-mail, now"),
    )
    def _make(self, output: Path | None, send: list[str], **options: Any) -> Answer:
        if output is not None and output.suffix not in WRITERS:
            raise CommandError(f"A report can't be written as {output.name!r}: end it in {', '.join(WRITERS)}.")
        if options["stream"] and options["app"]:
            raise CommandError("argument --app: not allowed with argument --stream")
        for address in send:
            try:
                validate_email(address)
            except ValidationError:
                raise CommandError(f"{address!r} is no e-mail address.") from None
        report = builder.make(*wanted(options, timezone.now()), actor=self.actor)
        if output is not None:
            output.write_bytes(WRITERS[output.suffix](report))
        return Answer(
            {"id": report.pk, **report.document}, _lines(report, output), self._send(report, send) if send else ""
        )

    def _send(self, report: Report, addresses: list[str]) -> str:
        """Why one of them did not get it."""
        with transaction.atomic():
            builder.send(report, addresses)
            audit.record(self.actor, "report.send", str(report), to=addresses)
        deliver(EmailChannel.name)
        ours = report.deliveries.filter(address__in=addresses)
        ends = monotonic() + UNDER_WAY_S
        while any(each.is_claimed for each in ours.all()) and monotonic() < ends:
            sleep(POLL_S)  # The worker was faster, and sends it now.
        failed = ours.exclude(state=ReportDelivery.State.DONE).first()
        if failed:
            return f"{failed.address}: {failed.error or 'it is tried again by the analytics worker.'}"
        self.stderr.write(f"Sent to {', '.join(addresses)}.")
        return ""

    @Verb(f"the last {LISTED} reports")
    def _list(self) -> Answer:
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
        return Answer({"items": items, "count": rows.count()}, map(_line, items))


def _lines(report: Report, output: Path | None) -> Iterator[str]:
    document = report.document
    yield f"{document['title']}, {document['period']['words']}: report {report.pk}."
    yield document["lede"].replace("**", "")
    for finding in document["findings"]:
        yield f"- {finding['what']} {finding['advice']}".rstrip()
    for note in document["notes"]:
        yield f"Note: {note}"
    if output is not None:
        yield f"Written: {output}"


def _line(item: dict[str, Any]) -> str:
    of = f" {item['scope']}" if item["scope"] else ""
    return f"{item['id']:>6}  {item['kind']}{of}, {item['period']} ({item['time_zone']})"


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
    for broadcast in ended_broadcasts(scope, begin, now):
        if broadcast.until <= end:
            counted = broadcast.counted(zone.key)
            if counted is None:
                raise PeriodProblem(
                    f"Its hours are not computed yet: run `{command_line.here('analytics run')}` first."
                )
            return counted
    raise PeriodProblem(
        f"No broadcast of {scope.text} has ended there. One has {BROADCAST_GAP_S} s after its last session."
    )


def moment(text: str | None, zone: ZoneInfo) -> datetime | None:
    """A date is the moment that it begins; a time is of the zone, unless it names one. Raises PeriodProblem."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise PeriodProblem(f"{text!r} is no date and no time. Give 2026-11-07, or 2026-11-07T20:00.") from None
    if at.time() == time.min and at.tzinfo is None:
        return periods.midnight(at.date(), zone)
    return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)
