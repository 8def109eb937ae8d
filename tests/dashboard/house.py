"""What an installation has that was used for a while: one of everything that a page shows, for tests of all pages.

In a test's own process, or by `tests.browser.furnished` in a server's: `furnish()` makes it, and answers the ids by
which the rows of `test_roles.TABLE` name it.
"""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from analytics.models import (
    METRIC_VERSION,
    AnalyticsRun,
    Dimension,
    Grain,
    Partition,
    ReportPlan,
    RunLine,
)
from dashboard import access
from dashboard.models import Alert, AlertRule
from ingest.models import Application, Attempt, Ban, Delivery, Node, Recording, Session, StatusEvent, Stream, Webhook
from ingest.services import audit, keys
from tests.dashboard.documents import make_delivery, make_report
from tests.dashboard.rollups import hour, make_rollup


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
    about: dict[str, Any] = {
        "app": "live",
        "name": "cam-1",
        "kind": Session.Kind.PUBLISH,
        "stream": stream,
        "key": key,
        "node": node,
        "address": "192.0.2.7",
        "encoder": "OBS 30",
        "video_codec": "H.264",
        "audio_codec": "AAC",
    }
    ended = Session.objects.create(
        started_at=now - timedelta(minutes=9),
        ended_at=now - timedelta(minutes=2),
        end_reason="tcp_reset",
        end_description="The encoder's side closed TCP.",
        **about,
    )
    again = Session.objects.create(started_at=now - timedelta(minutes=1), **about)
    for session in (ended, again):
        _events(session)
    _refusals(stream)
    _history(stream)
    user, _ = User.objects.get_or_create(username="mira")
    audit.record(audit.Actor("mira", user, "192.0.2.20"), "session.kick", "live/cam-1", stream=stream, note="Too loud")
    access.create_token(name="prometheus", role="viewer")
    ids = _alerts(ended) | _analytics(user)
    return ids | {
        "stream": stream.pk,
        "session": str(ended.pk),
        "again": str(again.pk),
        "recording": recording.pk,
        "key": key.pk,
    }


def _alerts(session: Session) -> dict[str, Any]:
    """A rule that has alarmed, and a webhook that was told of it. Nothing is sent to its address: nobody may."""
    now = timezone.now()
    webhook = Webhook.objects.create(name="pager", url="http://127.0.0.1:9/", enabled=False)
    rule = AlertRule.objects.create(name="Bad streams", emails="ops@example.org", enabled=False)
    rule.webhooks.add(webhook)
    alert = Alert.objects.create(
        rule=rule,
        subject="live/cam-1",
        stream=session.stream,
        session=session,
        check_code="starving",
        level="bad",
        title="Nothing has arrived for 6 s (5 s at most)",
        advice="Check that the encoder is running, then its uplink.",
        opened_at=now - timedelta(minutes=3),
        due_at=now - timedelta(minutes=3),
        told_at=now - timedelta(minutes=3),
        told=1,
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
    return {"rule": rule.pk, "webhook": webhook.pk, "delivery": str(delivery.pk)}


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
    """Two hours and a day of the stream, with a broadcast."""
    Stream.objects.filter(pk=stream.pk).update(target_kbps=3000)
    for ago in (1, 2):
        make_rollup(ago, bad_ms=90_000 * ago, refused=2, refusals={"busy": 2}, accepted=1, gop_2=90, gop_6=10)
    make_rollup(grain=Grain.DAY)
    make_rollup(2, dimension=Dimension.BROADCAST, value=hour(2).isoformat())


def _events(session: Session) -> None:
    told = (
        ("session.started", "status", "session.started", ""),
        ("onstatus", "status", "NetStream.Publish.Start", "live/cam-1 is published."),
        ("health.opened", "warning", "gop_long", "Keyframes are far apart"),
        ("health.cleared", "status", "gop_long", "Keyframes are far apart"),
        ("health.opened", "bad", "starving", "Nothing has arrived for 6 s (5 s at most)"),
    )
    for sequence, (kind, level, code, description) in enumerate(told, 1):
        at = session.started_at + timedelta(seconds=10 * sequence)
        StatusEvent.objects.create(
            session=session, sequence=sequence, at=at, kind=kind, level=level, code=code, description=description
        )


def _refusals(stream: Stream) -> None:
    now = timezone.now()
    for number, reason in enumerate(
        ("key_unknown", "key_expired", "busy", "unknown_app", "banned", "too_many_connections")
    ):
        Attempt.objects.create(
            at=now - timedelta(minutes=number),
            last_at=now,
            count=1 + 40 * number,
            action="publish",
            app="live",
            name="cam-1" if number < 3 else "rk_ab…",
            address="192.0.2.9",
            encoder="OBS 30",
            node="n1",
            reason=reason,
            stream=stream if number < 3 else None,
        )
    Ban.objects.create(address="192.0.2.9", until=now + timedelta(minutes=10), guesses=10, node="n1")
