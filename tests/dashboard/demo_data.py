"""Demo data of a used installation: rows of each kind that pages show, and a report of a week with one bad evening."""

import copy
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from django.contrib.auth.models import User
from django.utils import timezone

from analytics.models import (
    METRIC_VERSION,
    AnalyticsRun,
    Dimension,
    Grain,
    Partition,
    Report,
    ReportDelivery,
    ReportPlan,
    RunLine,
)
from analytics.reports.document import Chart, Document, StreamRow
from dashboard import access
from dashboard.models import Alert, AlertRule, Mute
from ingest.delivery import services
from ingest.delivery.engine import enqueue
from ingest.models import (
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
from tests.analytics.rollups import hours_ago, make_rollup
from tests.dashboard.conftest import make_session, make_stream

REPORT = json.loads(Path(__file__).with_name("demo_report.json").read_text())
SINCE = datetime.fromisoformat(REPORT["document"]["period"]["since"])
WEEK = timedelta(days=7)
HOURS: int = REPORT["document"]["completeness"]["expected"]
OFF_AIR = range(3, 6)
"""Hours of each day without a publisher."""


def chart() -> Chart:
    is_on_air = [hour % 24 not in OFF_AIR for hour in range(HOURS)]
    row = REPORT["stream_row"]
    rates = {name: [row[name] if on else None for on in is_on_air] for name in ("p5", "p50", "p95")}
    return cast(Chart, {**REPORT["chart"], **rates, "edges": [24.0 * day for day in range(8)]})


def stream_row(name: str, **fields: Any) -> StreamRow:
    return cast(StreamRow, {"stream": f"live/{name}", **REPORT["stream_row"], **fields})


def document(**fields: Any) -> Document:
    streams = [
        stream_row("cam-1", worst="bad", reason="below its target for 2 h 53 min"),
        stream_row("cam-2", p5=None, p50=None, p95=None),
    ]
    best = [stream_row("cam-2", reason="was up 100 % of 138 h")]
    computed = {"metric_version": METRIC_VERSION, "streams": streams, "best": best, "charts": [chart()]}
    return cast(Document, {**copy.deepcopy(REPORT["document"]), **computed, **fields})


def make_report(content: Document | None = None, **fields: Any) -> Report:
    row: dict[str, Any] = {"kind": "weekly", "since": SINCE, "until": SINCE + WEEK, "time_zone": "Europe/Berlin"}
    row |= {"hours_expected": HOURS, "hours_done": HOURS, "document": content or document()}
    return Report.objects.create(**row | fields)


def make_delivery(report: Report, address: str, **fields: Any) -> ReportDelivery:
    delivery = ReportDelivery.to(report, address, **fields)
    enqueue([delivery])
    return delivery


def seed_demo_data() -> dict[str, Any]:
    """Fill the database for the stream live/cam-1 on the node n1. Return the ids that paths have in braces."""
    now = timezone.now()
    stream = make_stream("cam-1")
    is_down = {"address": "192.0.2.1:1935", "state": "down", "stopped_at": now}
    node, _ = Node.objects.get_or_create(name="n1", defaults=is_down)
    file = {"name": "cam-1", "file": "live/cam-1.flv", "state": "complete", "size_bytes": 1000}
    recording = Recording.objects.create(application=stream.application, stream=stream, **file)
    key = keys.create(stream=stream, label="studio").key
    about: dict[str, Any] = {"node": node, "key": key, "video_codec": "H.264", "audio_codec": "AAC"}
    why: dict[str, Any] = {"end_reason": "tcp_reset", "end_description": "The encoder's side closed TCP."}
    ended = make_session(stream, age_s=9 * 60, ended_ago_s=2 * 60, **about, **why)
    again = make_session(stream, age_s=60, **about)
    for session in (ended, again):
        _add_events(session)
    _add_refusals(stream)
    _add_history(stream)
    user, _ = User.objects.get_or_create(username="mira")
    audit.record(audit.Actor("mira", user, "192.0.2.20"), "session.kick", "live/cam-1", stream=stream, note="Too loud")
    access.create_token(name="prometheus", role="viewer")
    ids: dict[str, Any] = {"stream": stream.pk, "session": str(ended.pk), "again": str(again.pk), "key": key.pk}
    ids |= {"recording": recording.pk, "play_token": play_tokens.RECORDING.issue(recording.pk)}
    return ids | _add_relays(stream, again) | _add_alerts(ended) | _add_analytics(user)


def _add_relays(stream: Stream, session: Session) -> dict[str, Any]:
    """Add a push that its target refused, a disabled push, and a source to pull from on demand."""
    actor = audit.Actor("demo")
    refused, off = PushTarget(stream=stream), PushTarget(stream=stream)
    push_targets.save(actor, refused, {"label": "YouTube", "url": "rtmps://a.rtmps.example.org/live2", "key": "ab-cd"})
    values = {"label": "Twitch", "url": "rtmp://live.example.org/app/live_1_xyz", "starts": "hand", "enabled": False}
    push_targets.save(actor, off, values)
    since = timezone.now() - timedelta(seconds=40)
    failure = {"failure": "refused", "code": "NetStream.Publish.BadName", "description": "Stream name is in use."}
    state = {"state": "stopped", "state_since": since, "state_session": session.pk, "failing_since": since}
    PushTarget.objects.filter(pk=refused.pk).update(**state, **failure)
    source = PullSource(stream=stream)
    pulls.save(actor, source, {"url": "rtmp://bob:hunter2@origin.example.org/app/cam1", "when": "demand"})
    AuditEntry.objects.filter(actor="demo").delete()
    return {"push": refused.pk, "pull": source.pk}


def _add_alerts(session: Session) -> dict[str, Any]:
    """Add an alert, its rule and the rule's receivers. All are disabled, so nothing is ever sent."""
    now = timezone.now()
    webhook = Webhook.objects.create(name="pager", url="http://127.0.0.1:9/", enabled=False)
    service = Service(name="#ops", kind="slack", enabled=False)
    services.keep(service, {"url": "https://hooks.slack.com/services/T01ABC/B01ABC/k3Qz7Lm2Rt5Wx8Yb1Nc4Vd6F"})
    service.save()
    rule = AlertRule.objects.create(name="Bad streams", emails="ops@example.org", enabled=False)
    rule.webhooks.add(webhook)
    rule.services.add(service)
    subject: dict[str, Any] = {"subject": "live/cam-1", "stream": session.stream, "session": session}
    words = {"title": "Nothing received for 6 s (limit 5 s)"}
    words |= {"advice": "Check that the encoder is running, then its uplink."}
    times = dict.fromkeys(("opened_at", "due_at", "told_at"), now - timedelta(minutes=3))
    alert = Alert.objects.create(rule=rule, check_code="starving", level="bad", told=1, **subject, **words, **times)
    number = int(now.timestamp() * 1e6)
    dead: dict[str, Any] = {"state": Delivery.State.DEAD, "ended_at": now}
    pushed = {"kind": "alert.opened", "about": f"alert:{alert.pk}", "body": {"subject": "live/cam-1"}, "attempts": 8}
    pushed |= {"status_code": 500, "error": "The receiver answered 500."}
    delivery = Delivery.objects.create(once="demo", number=number, webhook=webhook, **pushed, **dead)
    tried = {"channel": "service", "kind": "test", "body": {"service": "#ops"}, "attempts": 1, "duration_ms": 212}
    error = "Slack answered 404 (no_service): the webhook was removed, or its address is wrong."
    tried |= {"status_code": 404, "error": error}
    Delivery.objects.create(once="demo service", number=number + 1, service=service, **tried, **dead)
    application = session.stream.application if session.stream else None
    silence = Mute.objects.create(application=application, note="Encoder swap", check_code="drift")
    ids = {"rule": rule.pk, "webhook": webhook.pk, "service": service.pk, "silence": silence.pk}
    return {**ids, "delivery": str(delivery.pk)}


def _add_analytics(user: User) -> dict[str, Any]:
    """Add a failed run with its log, hours in each state, and a report that a plan made and sent."""
    now = timezone.now()
    begun = now - timedelta(minutes=3)
    times = {"requested_at": begun, "started_at": begun, "ended_at": now - timedelta(minutes=2)}
    error = "OSError: No space left on device"
    failure = {"state": "failed", "stage": "Failed", "error_code": "failed", "error": error, "expected": 3, "done": 2}
    run = AnalyticsRun.objects.create(trigger="page", requested_by=user, **times, **failure)
    RunLine.objects.create(run=run, text="Begins on host-1.")
    RunLine.objects.create(run=run, level="error", text=error)
    for ago, state in enumerate(("failed", "pending", "done", "running")):
        fields: dict[str, Any] = {"state": state, "run": run, "metric_version": METRIC_VERSION, "attempts": ago}
        Partition.objects.create(grain=Grain.HOUR, start=hours_ago(ago), **fields)
    plan = ReportPlan.objects.create(name="Each Monday", kind="weekly", recipients="ops@example.org", is_enabled=False)
    report = make_report(plan=plan)
    make_delivery(report, "ops@example.org", state="done", attempts=1, ended_at=now)
    return {"run": run.pk, "report": report.pk}


def _add_history(stream: Stream) -> None:
    Stream.objects.filter(pk=stream.pk).update(target_kbps=3000)
    for ago in (1, 2):
        make_rollup(ago, bad_ms=90_000 * ago, refused=2, refusals={"busy": 2}, accepted=1, gop_2=90, gop_6=10)
    make_rollup(grain=Grain.DAY)
    make_rollup(2, dimension=Dimension.BROADCAST, value=hours_ago(2).isoformat())


def _add_events(session: Session) -> None:
    events = (
        ("session.started", "status", "session.started", ""),
        ("onstatus", "status", "NetStream.Publish.Start", "live/cam-1 is published."),
        ("health.opened", "warning", "gop_long", "Keyframe interval 8.0 s (limit 4 s)"),
        ("health.cleared", "status", "gop_long", "Keyframe interval 8.0 s (limit 4 s)"),
        ("health.opened", "bad", "starving", "Nothing received for 6 s (limit 5 s)"),
    )
    for sequence, values in enumerate(events, 1):
        fields = dict(zip(("kind", "level", "code", "description"), values, strict=True))
        at = session.started_at + timedelta(seconds=10 * sequence)
        StatusEvent.objects.create(session=session, sequence=sequence, at=at, **fields)


def _add_refusals(stream: Stream) -> None:
    now = timezone.now()
    client = {"action": "publish", "app": "live", "address": "192.0.2.9", "encoder": "OBS 30", "node": "n1"}
    reasons = ("key_unknown", "key_expired", "busy", "unknown_app", "banned", "too_many_connections")
    for number, reason in enumerate(reasons):
        target: dict[str, Any] = {"name": "cam-1", "stream": stream} if number < 3 else {"name": "rk_ab…"}
        times = {"at": now - timedelta(minutes=number), "last_at": now}
        Attempt.objects.create(count=1 + 40 * number, reason=reason, **times, **target, **client)
    Ban.objects.create(address="192.0.2.9", until=now + timedelta(minutes=10), guesses=10, node="n1")
