"""Makes a report: figures, words and charts of a period brought together, kept as a row; and has it sent.

What is due by a plan is in `analytics.reports.plans`."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import cast

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from analytics import periods
from analytics.broadcasts import broadcast_before
from analytics.completeness import Completeness, Note, completeness
from analytics.figures import Figures
from analytics.models import METRIC_VERSION, Report, ReportDelivery, ReportPlan
from analytics.periods import Period, PeriodProblem
from analytics.reports import document, figures, findings, summary
from analytics.reports.document import Document, Lacking, StreamRow
from analytics.reports.figures import Gathered
from analytics.reports.findings import RANK, Found, Seen
from analytics.rollups import DISTINCT_PLAYERS_WORDS
from analytics.scopes import Scope
from analytics.wording import TileRow, number, percent, plural, short, tiles, with_unit
from ingest import command_line
from ingest.delivery.engine import enqueue, requeue
from ingest.models import Stream
from ingest.services import audit
from ingest.services.audit import Actor

Kind = ReportPlan.Kind

TITLES: dict[str, str] = {
    Kind.DAILY: "Daily stream report",
    Kind.WEEKLY: "Weekly stream report",
    Kind.MONTHLY: "Monthly stream report",
    Kind.BROADCAST: "Broadcast report",
}
FOOTNOTE = (
    "A drop is a session that ended although neither the encoder nor the server meant it to. Lost time is the gaps of "
    "up to 5 min within broadcasts, plus the time without data or in bad health, whichever is longer; streams are in "
    "the order of lost time × audience. Uptime is of sessions and these gaps, and the mean time to recover is theirs. "
    "The health score is 100 for good, 50 for warning and 0 for bad, weighted by time. Dropped frames are estimated "
    "from timestamps. Percentiles are of all seconds, within 1\u00a0% of their values. Unique players are told apart "
    f"by address: {DISTINCT_PLAYERS_WORDS}."
)
MOST_CHARTS = 3
MOST_BEST = 3
BEST_LIVE_SHARE = 0.1
"""Of the greatest live time: who was on air less is not among the best."""


def build_document(
    period: Period,
    scope: Scope,
    *,
    former: tuple[Period, Scope] | None,
    completeness: Completeness,
    now: datetime,
    lake: Path,
) -> Document:
    """`former`: what it is compared with, if there is anything."""
    gathered = figures.gather(period, scope, lake)
    before = figures.gather(*former, lake) if former else None
    if before and not before.on_air:
        before = None
    then = before.together if before else None
    targets = _targets(gathered)
    found = [
        each for path, of in gathered.streams.items() for each in findings.evaluate(Seen(path, of, targets.get(path)))
    ]
    rows = _rows(gathered, found)
    charted = _charted(rows)
    hours = {path: list((scope if scope.name else Scope.of(path)).streams(period).rows()) for path in charted}
    troubled = {each.stream for each in found}
    worst = next((summary.worst_episode(path, rows) for path, rows in hours.items() if path in troubled), None)
    called = period.before_words
    lacking = [_lacking(note, period) for note in completeness.notes]
    made: Document = {
        "version": document.VERSION,
        "kind": period.kind,
        "title": TITLES[period.kind],
        "scope": scope.text,
        "scope_words": scope.words,
        "period": {
            "since": period.since.isoformat(),
            "until": period.until.isoformat(),
            "time_zone": period.zone.key,
            "words": period.words,
            "begins": periods.clock_words(period.since, period.zone),
            "ends": periods.clock_words(period.until, period.zone),
        },
        "completeness": _completeness(completeness, lacking),
        "metric_version": METRIC_VERSION,
        "made_at": now.isoformat(),
        "made_words": periods.clock_words(now, period.zone),
        "lede": summary.summary_sentences(
            period,
            gathered,
            then,
            found,
            worst,
            is_whole=completeness.is_complete,
            lacking=lacking,
        ),
        "notes": [*_notes(period, completeness, lacking, has_media=bool(gathered.on_air)), *gathered.lacking],
        "tiles": tiles(summary.HEAD_TILES, gathered.together, then, called),
        "more": tiles(_further_tiles(gathered.together, then), gathered.together, then, called),
        "findings": findings.findings(found, gathered.together, gathered.streams),
        "streams": rows,
        "best": _best(rows),
        "charts": [figures.bitrate_chart(period, path, hours[path], targets.get(path), lake) for path in charted],
        "refusals": findings.refusals_by_reason(gathered.together),
        "figures": figures.figures_of_document(gathered),
        "footnote": FOOTNOTE,
    }
    if before:
        made["former"] = figures.figures_of_document(before)
    return made


def _further_tiles(now: Figures, then: Figures | None) -> Sequence[TileRow]:
    """Those about viewers by HLS only where there were any."""
    had_viewers = any(figures.viewer_ms or figures.viewer_reports for figures in (now, then) if figures)
    return (*summary.FURTHER_TILES, *summary.HLS_TILES) if had_viewers else summary.FURTHER_TILES


def _targets(gathered: Gathered) -> dict[str, int]:
    """The target bitrates of streams that have one, kbit/s."""
    known = Stream.objects.filter(target_kbps__isnull=False).values_list("application__name", "name", "target_kbps")
    if gathered.scope.app:
        known = known.filter(application__name=gathered.scope.app)
    return {f"{app}/{name}": kbps for app, name, kbps in known if kbps}


def _rows(gathered: Gathered, found: Sequence[Found]) -> list[StreamRow]:
    """Most affected first: by lost minutes times audience, then by name."""
    reasons: dict[str, Found] = {}
    for each in sorted(found, key=lambda each: (RANK[each.level], -each.weight)):
        reasons.setdefault(each.stream, each)

    def order(item: tuple[str, Figures]) -> tuple[float, str]:
        path, of = item
        return -of.lost_min * findings.audience(of), path

    return [_row(path, of, reasons.get(path)) for path, of in sorted(gathered.on_air.items(), key=order)]


def _row(path: str, of: Figures, found: Found | None) -> StreamRow:
    about = {"stream": path, "worst": of.health, "reason": found.reason if found else ""}
    return cast(StreamRow, figures.documented(StreamRow.__annotations__, of, **about))


def _best(rows: Sequence[StreamRow]) -> list[StreamRow]:
    """Without trouble, by uptime, health and time on air; none of a single stream."""
    if len(rows) < 2:
        return []
    least = BEST_LIVE_SHARE * max(row["live_h"] for row in rows)
    good = [row for row in rows if not row["reason"] and row["worst"] == "good" and row["live_h"] >= least]
    good.sort(key=lambda row: (-(row["uptime_percent"] or 0), -(row["health_percent"] or 0), -row["live_h"]))
    return [StreamRow(**{**row, "reason": _praise(row)}) for row in good[:MOST_BEST]]


def _praise(row: StreamRow) -> str:
    live, up = with_unit(short(row["live_h"]), "h"), with_unit(percent(row["uptime_percent"]), "%")
    drops = document.breaks(row)
    return f"uptime {up} over {live} live, {number(drops) if drops else 'no'} {plural(drops, 'drop')}"


def _charted(rows: Sequence[StreamRow]) -> list[str]:
    """The worst with a reason; if there is none the one that was on air most."""
    troubled = [row["stream"] for row in rows if row["reason"]][:MOST_CHARTS]
    if troubled or not rows:
        return troubled
    return [max(rows, key=lambda row: row["live_h"])["stream"]]


def _lacking(note: Note, period: Period) -> Lacking:
    return {
        "what": note.kind.field,
        "count": note.count,
        "hours": len(note.starts),
        "first": [start.isoformat() for start in note.first],
        "words": note.sentence(lambda start: periods.clock_words(start, period.zone)),
    }


def _completeness(completeness: Completeness, lacking: list[Lacking]) -> document.Completeness:
    made: document.Completeness = {"expected": completeness.expected, "done": completeness.done}
    if lacking:
        made["lacking"] = lacking
    return made


def _notes(period: Period, completeness: Completeness, lacking: Sequence[Lacking], *, has_media: bool) -> list[str]:
    missing = completeness.expected - completeness.done
    notes = []
    if missing:
        were = plural(missing, "was", "were")
        notes.append(
            f"{missing} of {completeness.expected} hours {were} not computed yet when this was made: their figures are "
            "missing here. Update the analytics, then make the report again."
        )
    if lacking:
        words = " ".join(each["words"] for each in lacking)
        notes.append(f"{words} This is of all streams: {command_line.short('analytics check')} says what to do.")
    if widened := period.widened_words:
        notes.append(widened)
    if not has_media and not missing and not lacking:
        notes.append(
            "Nothing was published in this period. If an encoder should have, see Refused connections for why."
        )
    return notes


def make(period: Period, scope: Scope, *, plan: ReportPlan | None = None, actor: Actor | None = None) -> Report:
    """Made from what is computed now. A plan has one for each period and scope: made again, it is the same row.

    A plan's goes to its recipients: their deliveries are made with it, and wait to be sent. `actor`: who asked for it,
    for the audit log. Never in a transaction: what takes time comes before the one that it is written in.
    """
    known = of_plan(plan, period, scope) if plan else None
    if known is not None:
        return known
    now = timezone.now()
    computed = _computed(period)
    document = build_document(
        period, scope, former=_former(period, scope), completeness=computed, now=now, lake=settings.LAKE_DIR
    )
    try:
        with transaction.atomic():
            report = Report.objects.create(
                plan=plan,
                kind=period.kind,
                scope=scope.text,
                since=period.since,
                until=period.until,
                time_zone=period.zone.key,
                hours_expected=computed.expected,
                hours_done=computed.done,
                document=document,
                made_at=now,
                made_by=actor.user if actor else None,
            )
            if plan:
                enqueue(ReportDelivery.to(report, address) for address in plan.addresses)
            if actor:
                audit.record(actor, "report.make", str(report), report=report.pk)
    except IntegrityError:  # Another made it meanwhile.
        return Report.objects.get(plan=plan, since=period.since, until=period.until, scope=scope.text)
    return report


def of_plan(plan: ReportPlan, period: Period, scope: Scope) -> Report | None:
    """A plan's report of a period, if it was made. A broadcast's is known by its begin."""
    rows = Report.objects.filter(plan=plan, since=period.since, scope=scope.text)
    return (rows if period.kind == ReportPlan.Kind.BROADCAST else rows.filter(until=period.until)).first()


def is_complete(period: Period) -> bool:
    return _computed(period).is_complete


def _computed(period: Period) -> Completeness:
    return completeness(period.first_hour, period.end_hour, settings.LAKE_DIR)


def send(report: Report, recipients: Iterable[str]) -> int:
    """Has it sent to those who have not got it, and are not about to; how many. Whoever was given up is tried again."""
    wanted = list(dict.fromkeys(recipients))
    with transaction.atomic():
        again = requeue(report.deliveries.filter(address__in=wanted, state=ReportDelivery.State.DEAD), error="")
        new = set(wanted) - set(report.deliveries.values_list("address", flat=True))
        enqueue(ReportDelivery.to(report, address) for address in wanted)
    return again + len(new)


def _former(period: Period, scope: Scope) -> tuple[Period, Scope] | None:
    """What it is compared with: the period before, of a broadcast the one before it; None where there is none."""
    if scope.value:
        return broadcast_before(period, scope)
    try:
        return period.before, scope
    except PeriodProblem:  # Before the first year.
        return None
