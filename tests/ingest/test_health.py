"""A tick's issues and media as events of their sessions; and a stream's own limits of its checks, in the admin."""

import logging
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse

from ingest.contracts import Issue, MediaInfo
from ingest.models import AuditEntry, HealthOverride, StatusEvent, Stream
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests import snapshots
from tests.ingest.control import NODE, NodeApp
from tests.ingest.operators import member
from tests.ingest.test_admin import stream_form
from tests.ingest.ticks import drop_after_ticks, is_up, published, snapshot, watch


def issue(check: str = "bitrate_low", **fields: Any) -> Issue:
    own: dict[str, Any] = {
        "level": "warning",
        "title": "Bitrate 500 kbit/s, 50 % of the 1,000 expected, for 12 s.",
        "value": 50.0,
        "limit": 70.0,
        "unit": "%",
    }
    return snapshots.issue(check, **(own | fields))


async def told(node: NodeApp, key: NewKey, *ticks: dict[str, Any]) -> list[StatusEvent]:
    """The events of a session that had these ticks, but for its begin."""
    encoder, session_id = await published(key)
    receive = await watch("live")
    for fields in ticks:
        await node.tick(streams=[snapshot(session_id=session_id, **fields)])
        await receive()
    await encoder.disconnect()
    await node.stop()
    events = StatusEvent.objects.filter(session_id=session_id).exclude(kind="session.started").order_by("sequence")
    return [event async for event in events]


@pytest.mark.both_forms
async def test_health_events_record_an_issues_figures_and_duration(
    node: NodeApp, process: HistoryWriter, key: NewKey
) -> None:
    opened, cleared, _ = await told(node, key, {"issues": [issue(since=1_700_000_000.0)]}, {"issues": []})
    assert (opened.kind, opened.level, opened.code) == ("health.opened", "warning", "bitrate_low")
    assert opened.description == "Bitrate 500 kbit/s, 50 % of the 1,000 expected, for 12 s."
    figures = {"level": "warning", "since": 1_700_000_000.0, "value": 50.0, "limit": 70.0, "unit": "%"}
    assert opened.detail.items() >= figures.items()
    assert {"actual", "expected", "advice"} <= opened.detail.keys()
    assert (cleared.kind, cleared.level, cleared.code) == ("health.cleared", "status", "bitrate_low")
    assert cleared.description == "Low bitrate", "and not what is no longer so"
    assert cleared.detail["open_s"] == pytest.approx(cleared.at.timestamp() - 1_700_000_000.0, abs=1)
    assert "by" not in cleared.detail


async def test_the_sessions_end_clears_what_is_open(node: NodeApp, process: HistoryWriter, key: NewKey) -> None:
    events = await told(node, key, {"issues": [issue(), issue("no_audio")]})
    assert [(event.kind, event.code) for event in events[:4]] == [
        ("health.opened", "bitrate_low"),
        ("health.opened", "no_audio"),
        ("health.cleared", "bitrate_low"),
        ("health.cleared", "no_audio"),
    ]
    assert [event.detail["by"] for event in events[2:4]] == ["session.ended"] * 2
    assert events[-1].kind == "session.ended"
    assert [event.detail["reason"] for event in events[2:4]] == [events[-1].code] * 2, "which says whether it was meant"


async def test_bitrate_over_the_keys_limit_is_recorded_once_as_a_breach(
    node: NodeApp, process: HistoryWriter, key: NewKey
) -> None:
    high = issue("bitrate_high")
    over = issue("bitrate_high", level="bad")
    events = await told(node, key, {"issues": [high]}, {"issues": [over]}, {"issues": [over]})
    assert [event.kind for event in events[:3]] == ["health.opened", "health.opened", "limit.breached"]
    kinds = [event.kind for event in events]
    assert (kinds.count("health.opened"), kinds.count("limit.breached")) == (2, 1)
    assert [event.level for event in events[:2]] == ["warning", "bad"]


async def test_changed_media_is_recorded_as_one_config_change(
    node: NodeApp, process: HistoryWriter, key: NewKey
) -> None:
    first: MediaInfo = {"video_codec": "H.264", "width": 1920, "height": 1080}
    sound: MediaInfo = {**first, "audio_codec": "AAC", "sample_rate": 48000}
    second: MediaInfo = {**sound, "width": 1280, "height": 720, "sample_rate": 44100}
    sent: list[MediaInfo] = [{}, first, sound, sound, second, {}, second]
    events = await told(node, key, *({"media": media} for media in sent))
    (changed,) = [event for event in events if event.kind == "config.changed"]
    assert changed.detail["changed"] == [
        {"what": "Resolution", "before": "1920×1080", "after": "1280×720"},
        {"what": "Sample rate", "before": "48000 Hz", "after": "44100 Hz"},
    ]
    assert changed.description == (
        "The encoder sends something else: Resolution 1280×720, before 1920×1080; "
        "Sample rate 44100 Hz, before 48000 Hz."
    )


async def test_config_changes_of_one_session_are_recorded_up_to_50(
    node: NodeApp, process: HistoryWriter, key: NewKey
) -> None:
    ticks = ({"media": {"width": 100 + number, "height": 100}} for number in range(80))
    events = await told(node, key, *ticks)
    assert [event.kind for event in events].count("config.changed") == 50


async def test_a_nodes_own_issues_are_logged_once(node: NodeApp, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ingest.consumers.node")
    full = issue("disk_free", title="Disk space 8.0 % free (limit 10 %).", advice="Free space on it.")
    receive = await watch("live")
    for issues in ([], [full], [full], [full | {"level": "bad"}], []):
        await node.tick(figures={"node": NODE, "at": 1.0, "issues": issues})
        assert (await receive())["nodes"][0]["issues"] == issues
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", f"Node {NODE}: Disk space 8.0 % free (limit 10 %). Free space on it."),
        ("ERROR", f"Node {NODE}: Disk space 8.0 % free (limit 10 %). Free space on it."),
        ("INFO", f"Node {NODE}: cleared: Low disk space."),
    ]


pytestmark = pytest.mark.django_db


def post(client: Client, stream: Stream, *rows: dict[str, Any], initial: int = 0) -> Any:
    fields: dict[str, Any] = {"health_overrides-TOTAL_FORMS": len(rows), "health_overrides-INITIAL_FORMS": initial}
    for number, row in enumerate(rows):
        fields |= {f"health_overrides-{number}-{name}": value for name, value in row.items()}
    return client.post(reverse("admin:ingest_stream_change", args=[stream.pk]), stream_form(stream, **fields))


def test_a_check_gets_limits_of_its_own_and_the_log_says_so(admin_client: Client, stream: Stream) -> None:
    row = {"check_code": "starving", "enabled": "on", "warning": 20, "bad": 60, "hold_s": ""}
    assert post(admin_client, stream, row).status_code == 302
    made = HealthOverride.objects.get()
    assert (made.stream, made.check_code, made.warning, made.bad, made.hold_s) == (stream, "starving", 20, 60, None)
    entry = AuditEntry.objects.get(action="stream.change")
    assert "live/cam1: starving" in str(entry.detail)
    again = row | {"id": made.pk, "stream": stream.pk, "DELETE": "on"}
    assert post(admin_client, stream, again, initial=1).status_code == 302
    assert not HealthOverride.objects.exists()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"check_code": "nonsense"}, "Select a valid choice"),
        ({"check_code": "starving", "warning": -1}, "greater than or equal to 0"),
        ({"check_code": "starving", "bad": 1}, "can&#x27;t be lower than the limit for warning, 2 s"),
        ({"check_code": "starving", "warning": 20, "bad": 10}, "can&#x27;t be lower than the limit for warning, 20 s"),
        ({"check_code": "bitrate_low", "bad": 80}, "can&#x27;t be higher than the limit for warning, 70 %"),
        ({"check_code": "rtt_high", "bad": 500}, "only warns"),
    ],
)
def test_inconsistent_health_limits_are_refused(
    admin_client: Client, stream: Stream, row: dict[str, Any], words: str
) -> None:
    answer = post(admin_client, stream, {"enabled": "on"} | row)
    assert words in answer.content.decode()
    assert not HealthOverride.objects.exists()


def test_limits_of_two_figures_are_not_compared(admin_client: Client, stream: Stream) -> None:
    """Of bitrate_high the warning is of the target, the error of the key's limit."""
    assert post(admin_client, stream, {"check_code": "bitrate_high", "enabled": "on", "bad": 101}).status_code == 302


def test_health_override_of_an_unknown_check_is_invalid(stream: Stream) -> None:
    with pytest.raises(ValidationError, match="no such check"):
        HealthOverride(stream=stream, check_code="nonsense").full_clean()


@pytest.mark.parametrize(("role", "may"), [("key manager", True), ("operator", False)])
def test_health_overrides_are_offered_to_key_managers_but_not_operators(stream: Stream, role: str, may: bool) -> None:
    answer = member(role).get(reverse("admin:ingest_stream_change", args=[stream.pk]))
    assert ("health_overrides-__prefix__-check_code" in answer.content.decode()) == may


@pytest.mark.django_db(transaction=True)
async def test_a_live_stream_is_judged_by_what_is_set_meanwhile(node: NodeApp, key: NewKey) -> None:
    encoder, session_id = await published(key)
    await is_up()
    rule = await HealthOverride.objects.acreate(stream_id=key.key.stream_id, check_code="starving", warning=20)
    told = await drop_after_ticks(node)
    assert told == {
        "type": "node.rules",
        "session_id": session_id,
        "health": {"starving": {"enabled": True, "warning": 20.0, "bad": None, "hold_s": None}},
    }
    await rule.adelete()
    assert (await drop_after_ticks(node))["health"] == {}
    await encoder.disconnect()
