"""Rows of an installation that was used for a while: rollups as the Spark jobs load them, a report as
`analytics.reports` makes it, of a week with one bad evening, and one of everything that a page shows.

In a test's own process, or by `tests.browser.furnished` in a server's: `furnish()` makes it, and answers the ids by
which the rows of `test_roles.ROWS` name it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django.contrib.auth.models import User
from django.utils import timezone

from analytics.models import (
    FIGURES,
    METRIC_VERSION,
    AnalyticsRun,
    Dimension,
    Grain,
    Partition,
    Report,
    ReportDelivery,
    ReportPlan,
    Rollup,
    RunLine,
)
from analytics.reports.document import Chart, Document, StreamRow
from dashboard import access
from dashboard.models import Alert, AlertRule, Mute
from ingest.delivery import services
from ingest.delivery.engine import enqueue
from ingest.models import (
    Application,
    Attempt,
    AuditEntry,
    Ban,
    Delivery,
    Node,
    PullSource,
    PushTarget,
    Recording,
    Service,
    Session,
    StatusEvent,
    Stream,
    Webhook,
)
from ingest.services import audit, keys, play_tokens, pulls, push_targets
from tests.analytics.packed import packed
from tests.dashboard.conftest import make_session

SINCE = datetime(2026, 11, 8, 23, tzinfo=UTC)
WEEK = timedelta(days=7)
HOURS = 168
OFF_AIR = range(3, 6)
"""Hours of each day."""


def chart() -> Chart:
    on_air = [hour % 24 not in OFF_AIR for hour in range(HOURS)]
    return {
        "title": "live/cam-1, bitrate by hour",
        "caption": "Median and the band from p5 to p95, kbit/s. Gaps are hours off air.",
        "stream": "live/cam-1",
        "step_s": 3600,
        "from": SINCE.isoformat(),
        "p5": [4620.0 if on else None for on in on_air],
        "p50": [5890.0 if on else None for on in on_air],
        "p95": [6130.0 if on else None for on in on_air],
        "target": 6000,
        "ticks": [{"at": 12.0, "label": "Mon 9"}, {"at": 36.0, "label": "Tue 10"}],
        "edges": [24.0 * day for day in range(8)],
    }


def stream_row(name: str, **fields: Any) -> StreamRow:
    row: dict[str, Any] = {
        "stream": f"live/{name}",
        "worst": "good",
        "reason": "",
        "health_percent": 98.6,
        "live_h": 137.5,
        "uptime_percent": 99.4,
        "p50": 5890.0,
        "p5": 4620.0,
        "p95": 6130.0,
        "reconnects": 7,
        "below_percent": 2.1,
        "missing_percent": 0.314,
        "peak_players": 1512,
        "delivered_gb": 18.62,
        "player_hours": 41_300.0,
    }
    return cast(StreamRow, row | fields)


def document(**fields: Any) -> Document:
    said: dict[str, Any] = {
        "kind": "weekly",
        "title": "Weekly stream report",
        "scope": "",
        "scope_words": "All streams",
        "period": {
            "since": SINCE.isoformat(),
            "until": (SINCE + WEEK).isoformat(),
            "time_zone": "Europe/Berlin",
            "words": "9 to 15 November 2026",
            "begins": "9 Nov 2026, 00:00",
            "ends": "16 Nov 2026, 00:00",
        },
        "completeness": {"expected": HOURS, "done": HOURS},
        "metric_version": METRIC_VERSION,
        "made_at": (SINCE + WEEK).isoformat(),
        "made_words": "16 Nov 2026, 00:12",
        "lede": "A steady week with one bad evening. On Sunday **live/cam-1** fell to 1,920 kbit/s.",
        "notes": [],
        "tiles": [
            {"label": "Uptime", "value": "99.4", "unit": "%", "comparison": "week before: 99.7 %"},
            {"label": "Reconnects", "value": "7", "unit": "", "comparison": "5 more"},
        ],
        "more": [{"label": "Mean recovery", "value": "41", "unit": "s", "comparison": ""}],
        "findings": [
            {
                "level": "bad",
                "what": "live/cam-1 was below 70 % of its target for 2 h 53 min.",
                "advice": "Give the venue a wired uplink.",
                "stream": "live/cam-1",
            },
            {"level": "warning", "what": "6 publishes were refused.", "advice": "6 with an expired key.", "stream": ""},
        ],
        "streams": [
            stream_row("cam-1", worst="bad", reason="below its target for 2 h 53 min"),
            stream_row("cam-2", p5=None, p50=None, p95=None),
        ],
        "best": [stream_row("cam-2", reason="was up 100 % of 138 h")],
        "charts": [chart()],
        "refusals": [{"reason": "key_expired", "words": "Key expired", "count": 6}],
        "figures": {},
        "footnote": "Health is 100 for good, 50 for warning and 0 for bad, weighed by time.",
    }
    return cast(Document, said | fields)


def make_report(said: Document | None = None, **fields: Any) -> Report:
    row: dict[str, Any] = {
        "kind": "weekly",
        "since": SINCE,
        "until": SINCE + WEEK,
        "time_zone": "Europe/Berlin",
        "hours_expected": HOURS,
        "hours_done": HOURS,
        "document": said or document(),
    }
    return Report.objects.create(**(row | fields))


def make_delivery(report: Report, address: str, **fields: Any) -> ReportDelivery:
    made = ReportDelivery.to(report, address, **fields)
    enqueue([made])
    return made


EMPTY: dict[str, Any] = {
    name: 0 for name in FIGURES if "_kbps_" not in name and name not in {"keyframe_interval_max", "peak_at"}
} | {"refusals": {}, "end_reasons": {}}

USUAL = {
    "samples": 3600,
    "sessions": 2,
    "elapsed_ms": 3_600_000,
    "live_ms": 3_540_000,
    "good_ms": 3_540_000,
    "video_bytes": 1_125_000_000,
    "out_bytes": 2_500_000_000,
    "video_frames": 99,
    "missing_frames_est": 1,
    "player_ms": 90_000_000,
    "peak_players": 1234,
    "keyframe_interval_max": 4.25,
    "video_kbps_p5": 2000.0,
    "video_kbps_p50": 2500.5,
    "video_kbps_p95": 3000.0,
    "video_kbps_mean": 2500.0,
}


def hour(hours_ago: int = 0) -> datetime:
    return timezone.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours_ago)


def make_rollup(
    hours_ago: int = 0,
    name: str = "cam-1",
    grain: Grain = Grain.HOUR,
    *,
    start: datetime | None = None,
    dimension: Dimension = Dimension.STREAM,
    value: str | None = None,
    values: Sequence[float] = (),
    **fields: Any,
) -> Rollup:
    """An hour (or a day) with the usual figures. `values`: the samples' bitrates that its histogram is of."""
    at = start or hour(hours_ago)
    is_of_stream = dimension in {Dimension.STREAM, Dimension.KEY, Dimension.BROADCAST}
    app = "live" if is_of_stream or dimension == Dimension.APP else ""
    return Rollup.objects.create(
        **{
            "grain": grain,
            "start": at.replace(hour=0) if grain == Grain.DAY else at,
            "dimension": dimension,
            "app": app,
            "name": name if is_of_stream else "",
            "value": f"live/{name}" if value is None else value,
            "metric_version": METRIC_VERSION,
            "video_histogram": packed(values),
            **EMPTY,
            **USUAL,
            **({"samples": len(values)} if values else {}),
            **fields,
        }
    )


def furnish() -> dict[str, Any]:
    """Application live, stream cam-1, node n1; ids by the names that paths of the table have in braces."""
    now = timezone.now()
    application, _ = Application.objects.get_or_create(name="live")
    stream, _ = Stream.objects.get_or_create(application=application, name="cam-1")
    node, _ = Node.objects.get_or_create(
        name="n1", defaults={"address": "192.0.2.1:1935", "state": "down", "stopped_at": now}
    )
    recording = Recording.objects.create(
        application=application, stream=stream, name="cam-1", file="live/cam-1.flv", state="complete", size_bytes=1000
    )
    key = keys.create(stream=stream, label="studio").key
    about: dict[str, Any] = {"node": node, "key": key, "video_codec": "H.264", "audio_codec": "AAC"}
    why: dict[str, Any] = {"end_reason": "tcp_reset", "end_description": "The encoder's side closed TCP."}
    ended = make_session(stream, age_s=9 * 60, ended_ago_s=2 * 60, **about, **why)
    again = make_session(stream, age_s=60, **about)
    for session in (ended, again):
        _events(session)
    _refusals(stream)
    _history(stream)
    user, _ = User.objects.get_or_create(username="mira")
    audit.record(audit.Actor("mira", user, "192.0.2.20"), "session.kick", "live/cam-1", stream=stream, note="Too loud")
    access.create_token(name="prometheus", role="viewer")
    ids = {"stream": stream.pk, "session": str(ended.pk), "again": str(again.pk)}
    relays = _relays(stream, again)
    ids |= {"recording": recording.pk, "play_token": play_tokens.RECORDING.issue(recording.pk)}
    return ids | {"key": key.pk} | relays | _alerts(ended) | _analytics(user)


def _relays(stream: Stream, session: Session) -> dict[str, Any]:
    """A push that its target refused, one that is off, and where it is pulled from while nobody publishes."""
    actor = audit.Actor("house")
    refused, off = PushTarget(stream=stream), PushTarget(stream=stream)
    push_targets.save(actor, refused, {"label": "YouTube", "url": "rtmps://a.rtmps.example.org/live2", "key": "ab-cd"})
    values = {"label": "Twitch", "url": "rtmp://live.example.org/app/live_1_xyz", "starts": "hand", "enabled": False}
    push_targets.save(actor, off, values)
    since = timezone.now() - timedelta(seconds=40)
    PushTarget.objects.filter(pk=refused.pk).update(
        state="stopped",
        state_since=since,
        state_session=session.pk,
        failing_since=since,
        failure="refused",
        code="NetStream.Publish.BadName",
        description="Stream name is in use.",
    )
    source = PullSource(stream=stream)
    pulls.save(actor, source, {"url": "rtmp://bob:hunter2@origin.example.org/app/cam1", "when": "demand"})
    AuditEntry.objects.filter(actor="house").delete()
    return {"push": refused.pk, "pull": source.pk}


def _alerts(session: Session) -> dict[str, Any]:
    """A rule that has alarmed, and a webhook that was told of it. Nothing is sent to its address: nobody may."""
    now = timezone.now()
    webhook = Webhook.objects.create(name="pager", url="http://127.0.0.1:9/", enabled=False)
    service = Service(name="#ops", kind="slack", enabled=False)
    services.keep(service, {"url": "https://hooks.slack.com/services/T01ABC/B01ABC/k3Qz7Lm2Rt5Wx8Yb1Nc4Vd6F"})
    service.save()
    rule = AlertRule.objects.create(name="Bad streams", emails="ops@example.org", enabled=False)
    rule.webhooks.add(webhook)
    rule.services.add(service)
    alert = Alert.objects.create(
        rule=rule,
        subject="live/cam-1",
        stream=session.stream,
        session=session,
        check_code="starving",
        level="bad",
        title="Nothing received for 6 s (limit 5 s)",
        advice="Check that the encoder is running, then its uplink.",
        told=1,
        **dict.fromkeys(("opened_at", "due_at", "told_at"), now - timedelta(minutes=3)),
    )
    delivery = Delivery.objects.create(
        once="house",
        number=int(now.timestamp() * 1e6),
        webhook=webhook,
        about=f"alert:{alert.pk}",
        kind="alert.opened",
        body={"subject": "live/cam-1"},
        state=Delivery.State.DEAD,
        attempts=8,
        ended_at=now,
        status_code=500,
        error="The receiver answered 500.",
    )
    Delivery.objects.create(
        once="house service",
        number=int(now.timestamp() * 1e6) + 1,
        channel="service",
        service=service,
        kind="test",
        body={"service": "#ops"},
        state=Delivery.State.DEAD,
        attempts=1,
        ended_at=now,
        status_code=404,
        error="Slack answered 404 (no_service): the webhook was removed, or its address is wrong.",
        duration_ms=212,
    )
    silence = Mute.objects.create(
        application=Application.objects.get(name="live"), note="Encoder swap", check_code="drift"
    )
    return {
        "rule": rule.pk,
        "webhook": webhook.pk,
        "service": service.pk,
        "silence": silence.pk,
        "delivery": str(delivery.pk),
    }


def _analytics(user: User) -> dict[str, Any]:
    """A run that failed with its log, hours that it did, and a report that a plan made and sent."""
    now = timezone.now()
    run = AnalyticsRun.objects.create(
        state="failed",
        trigger="page",
        requested_by=user,
        requested_at=now - timedelta(minutes=3),
        started_at=now - timedelta(minutes=3),
        ended_at=now - timedelta(minutes=2),
        stage="Failed",
        expected=3,
        done=2,
        error_code="failed",
        error="OSError: No space left on device",
    )
    RunLine.objects.create(run=run, text="Begins on host-1.")
    RunLine.objects.create(run=run, level="error", text="OSError: No space left on device")
    hour = now.replace(minute=0, second=0, microsecond=0)
    for ago, state in enumerate(("failed", "pending", "done", "running")):
        start = hour - timedelta(hours=ago)
        fields: dict[str, Any] = {"state": state, "run": run, "metric_version": METRIC_VERSION, "attempts": ago}
        Partition.objects.create(grain=Grain.HOUR, start=start, **fields)
    plan = ReportPlan.objects.create(name="Each Monday", kind="weekly", recipients="ops@example.org", is_enabled=False)
    report = make_report(plan=plan)
    make_delivery(report, "ops@example.org", state="done", attempts=1, ended_at=now)
    return {"run": run.pk, "report": report.pk}


def _history(stream: Stream) -> None:
    Stream.objects.filter(pk=stream.pk).update(target_kbps=3000)
    for ago in (1, 2):
        make_rollup(ago, bad_ms=90_000 * ago, refused=2, refusals={"busy": 2}, accepted=1, gop_2=90, gop_6=10)
    make_rollup(grain=Grain.DAY)
    make_rollup(2, dimension=Dimension.BROADCAST, value=hour(2).isoformat())


def _events(session: Session) -> None:
    told = (
        ("session.started", "status", "session.started", ""),
        ("onstatus", "status", "NetStream.Publish.Start", "live/cam-1 is published."),
        ("health.opened", "warning", "gop_long", "Keyframe interval 8.0 s (limit 4 s)"),
        ("health.cleared", "status", "gop_long", "Keyframe interval 8.0 s (limit 4 s)"),
        ("health.opened", "bad", "starving", "Nothing received for 6 s (limit 5 s)"),
    )
    for sequence, (kind, level, code, description) in enumerate(told, 1):
        at = session.started_at + timedelta(seconds=10 * sequence)
        StatusEvent.objects.create(
            session=session, sequence=sequence, at=at, kind=kind, level=level, code=code, description=description
        )


def _refusals(stream: Stream) -> None:
    now = timezone.now()
    about = {"action": "publish", "app": "live", "address": "192.0.2.9", "encoder": "OBS 30", "node": "n1"}
    reasons = ("key_unknown", "key_expired", "busy", "unknown_app", "banned", "too_many_connections")
    for number, reason in enumerate(reasons):
        whose: dict[str, Any] = {"name": "cam-1", "stream": stream} if number < 3 else {"name": "rk_ab…"}
        times = {"at": now - timedelta(minutes=number), "last_at": now}
        Attempt.objects.create(count=1 + 40 * number, reason=reason, **times, **whose, **about)
    Ban.objects.create(address="192.0.2.9", until=now + timedelta(minutes=10), guesses=10, node="n1")
