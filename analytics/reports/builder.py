"""Makes a report: figures, words and charts of a period brought together, kept as a row; and has it sent.

What is due by a plan is in `analytics.reports.plans`."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from analytics.completeness import completeness
from analytics.figures import Figures
from analytics.models import METRIC_VERSION, Report, ReportDelivery, ReportPlan, Rollup
from analytics.reports import figures, findings, periods, scopes, summary
from analytics.reports.document import Completeness, Document, StreamRow, Worst
from analytics.reports.figures import Gathered
from analytics.reports.findings import RANK, Found, Seen
from analytics.reports.periods import Period, PeriodProblem
from analytics.reports.scopes import Scope
from analytics.reports.wording import percent, plural, short, with_unit
from analytics.rollups import DISTINCT_PLAYERS_WORDS
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
    "Health is 100 for good, 50 for warning and 0 for bad, weighed by time. Uptime is of the sessions' time and the "
    "gaps that they came back from. Missing frames are estimates from timestamps. Percentiles are of all seconds, "
    f"within 1 % of their values. Distinct players are told apart by address: {DISTINCT_PLAYERS_WORDS}."
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
    raw = figures.figures_of_document(gathered)
    then = figures.figures_of_document(figures.gather(*former, lake)) if former else None
    if then and not then["streams"]:
        then = None
    targets = _targets(gathered)
    found = [
        each for path, of in gathered.streams.items() for each in findings.evaluate(Seen(path, of, targets.get(path)))
    ]
    rows = _rows(gathered, found)
    charted = _charted(rows)
    hours = {path: figures.hours_of_stream(period, scope, path) for path in charted}
    worst = _worst(hours, found)
    called = periods.former_words(period)
    made: Document = {
        "kind": period.kind,
        "title": TITLES[period.kind],
        "scope": scope.text,
        "scope_words": scope.words,
        "period": {
            "since": period.since.isoformat(),
            "until": period.until.isoformat(),
            "time_zone": period.zone.key,
            "words": periods.words(period),
            "begins": periods.clock_words(period.since, period.zone),
            "ends": periods.clock_words(period.until, period.zone),
        },
        "completeness": completeness,
        "metric_version": METRIC_VERSION,
        "made_at": now.isoformat(),
        "made_words": periods.clock_words(now, period.zone),
        "lede": summary.summary_sentences(
            period,
            raw,
            then,
            found,
            worst,
            is_whole=_missing(completeness) == 0,
            lacking=completeness.get("lacking", ()),
        ),
        "notes": [*_notes(period, completeness, has_media=bool(gathered.on_air)), *gathered.lacking],
        "tiles": summary.tiles(summary.HEAD, raw, then, called),
        "more": summary.tiles(summary.MORE, raw, then, called),
        "findings": findings.findings(found, gathered.together, gathered.streams),
        "streams": rows,
        "best": _best(rows),
        "charts": [figures.bitrate_chart(period, path, hours[path], targets.get(path), lake) for path in charted],
        "refusals": findings.refusals_by_reason(gathered.together),
        "figures": raw,
        "footnote": FOOTNOTE,
    }
    if then:
        made["former"] = then
    return made


def _targets(gathered: Gathered) -> dict[str, int]:
    """The target bitrates of streams that have one, kbit/s."""
    known = Stream.objects.filter(target_kbps__isnull=False).values_list("application__name", "name", "target_kbps")
    if gathered.scope.app:
        known = known.filter(application__name=gathered.scope.app)
    return {f"{app}/{name}": kbps for app, name, kbps in known if kbps}


def _rows(gathered: Gathered, found: Sequence[Found]) -> list[StreamRow]:
    """Worst first: by the worst of what was found, by health, and by how long it was bad."""
    reasons: dict[str, Found] = {}
    for each in sorted(found, key=lambda each: (RANK[each.level], -each.weight)):
        reasons.setdefault(each.stream, each)

    def order(item: tuple[str, Figures]) -> tuple[float, ...]:
        path, of = item
        reason = reasons.get(path)
        return (
            RANK[reason.level] if reason else RANK["good"],
            RANK[of.health],
            -(reason.weight if reason else of.bad_ms),
            -of.live_ms,
        )

    return [_row(path, of, reasons.get(path)) for path, of in sorted(gathered.on_air.items(), key=order)]


def _row(path: str, of: Figures, found: Found | None) -> StreamRow:
    return {
        "stream": path,
        "worst": _word(of),
        "reason": found.reason if found else "",
        "health_percent": of.health_percent,
        "live_h": of.live_h,
        "uptime_percent": of.uptime_percent,
        "p50": of.video_kbps_p50,
        "p5": of.video_kbps_p5,
        "p95": of.video_kbps_p95,
        "reconnects": of.reconnects,
        "below_percent": of.below_percent,
        "missing_percent": of.missing_percent,
        "peak_players": of.peak_players,
        "delivered_gb": of.delivered_gb,
        "player_hours": of.player_hours,
    }


def _word(of: Figures) -> Worst:
    words: dict[str, Worst] = {"good": "good", "warning": "warning", "bad": "bad"}
    return words.get(of.health, "none")


def _best(rows: Sequence[StreamRow]) -> list[StreamRow]:
    """Without trouble, the longest on air first; none of a single stream."""
    if len(rows) < 2:
        return []
    least = BEST_LIVE_SHARE * max(row["live_h"] for row in rows)
    good = [row for row in rows if not row["reason"] and row["worst"] == "good" and row["live_h"] >= least]
    good.sort(key=lambda row: (-(row["uptime_percent"] or 0), -(row["health_percent"] or 0), -row["live_h"]))
    return [StreamRow(**{**row, "reason": _praise(row)}) for row in good[:MOST_BEST]]


def _praise(row: StreamRow) -> str:
    live, up = with_unit(short(row["live_h"]), "h"), with_unit(percent(row["uptime_percent"]), "%")
    breaks = (
        "without a break"
        if not row["reconnects"]
        else f"with {row['reconnects']} {plural(row['reconnects'], 'reconnect')}"
    )
    return f"was up {up} of {live}, {breaks}"


def _charted(rows: Sequence[StreamRow]) -> list[str]:
    """The worst with a reason; if there is none the one that was on air most."""
    troubled = [row["stream"] for row in rows if row["reason"]][:MOST_CHARTS]
    if troubled or not rows:
        return troubled
    return [max(rows, key=lambda row: row["live_h"])["stream"]]


def _worst(hours: dict[str, list[Rollup]], found: Sequence[Found]) -> summary.Episode | None:
    """Of the first stream in trouble."""
    for path, rows in hours.items():
        if any(each.stream == path for each in found):
            return summary.worst_episode(path, rows)
    return None


def _notes(period: Period, completeness: Completeness, *, has_media: bool) -> list[str]:
    missing = _missing(completeness)
    notes = []
    if missing:
        notes.append(
            f"{missing} of {completeness['expected']} hours were not computed when this was made: their figures are "
            "missing here. Run the analytics, then make the report again."
        )
    lacking = " ".join(each["words"] for each in completeness.get("lacking", []))
    if lacking:
        notes.append(f"{lacking} This is of all streams: manage.py analytics check says what to do next.")
    if widened := period.widened_words:
        notes.append(widened)
    if not has_media and not missing and not lacking:
        notes.append("Nothing was recorded in this period. Was an encoder to publish, see in the attempts why not.")
    return notes


def _missing(completeness: Completeness) -> int:
    """Hours with data that were not computed."""
    return completeness["expected"] - completeness["done"]


def make(period: Period, scope: Scope, *, plan: ReportPlan | None = None, actor: Actor | None = None) -> Report:
    """Made from what is computed now. A plan has one for each period and scope: made again, it is the same row.

    A plan's goes to its recipients: their deliveries are made with it, and wait to be sent. `actor`: who asked for it,
    for the audit log. Never in a transaction: what takes time comes before the one that it is written in.
    """
    known = of_plan(plan, period, scope) if plan else None
    if known is not None:
        return known
    now = timezone.now()
    computed = completeness(period, settings.LAKE_DIR)
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
                hours_expected=computed["expected"],
                hours_done=computed["done"],
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
    """Whether all that was recorded in the period has been computed."""
    found: Completeness = completeness(period, settings.LAKE_DIR)
    return found["done"] >= found["expected"]


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
        return scopes.broadcast_before(period, scope)
    try:
        return periods.before(period), scope
    except PeriodProblem:  # Before the first year.
        return None
