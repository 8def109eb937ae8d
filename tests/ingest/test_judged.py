"""A tick's issues and media as events of their sessions."""

import logging
from typing import Any

import pytest

from ingest.contracts import Issue, MediaInfo
from ingest.models import StatusEvent
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.control import NODE, NodeApp
from tests.ingest.ticks import published, snapshot, watch

pytestmark = pytest.mark.django_db(transaction=True)


def issue(check: str = "bitrate_low", **fields: Any) -> Issue:
    whole: dict[str, Any] = {
        "check": check,
        "level": "warning",
        "since": 1_800_000_000.0,
        "actual": "500 kbit/s (50 %)",
        "expected": "1,000 kbit/s, 70 % of it at least",
        "title": "Bitrate 500 kbit/s, 50 % of the 1,000 expected, for 12 s.",
        "advice": "The uplink can't carry this rate: lower it, or use a cable.",
        "value": 50.0,
        "limit": 70.0,
        "unit": "%",
    }
    return whole | fields  # type: ignore[return-value]


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
async def test_what_an_issue_was_and_how_long(node: NodeApp, process: HistoryWriter, key: NewKey) -> None:
    opened, cleared, _ = await told(node, key, {"issues": [issue(since=1_700_000_000.0)]}, {"issues": []})
    assert (opened.kind, opened.level, opened.code) == ("health.opened", "warning", "bitrate_low")
    assert opened.description == "Bitrate 500 kbit/s, 50 % of the 1,000 expected, for 12 s."
    figures = {"level": "warning", "since": 1_700_000_000.0, "value": 50.0, "limit": 70.0, "unit": "%"}
    assert opened.detail.items() >= figures.items()
    assert {"actual", "expected", "advice"} <= opened.detail.keys()
    assert (cleared.kind, cleared.level, cleared.code) == ("health.cleared", "status", "bitrate_low")
    assert cleared.description == "Bitrate low", "and not what is no longer so"
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


async def test_a_bitrate_over_the_keys_limit_is_told_as_a_breach(
    node: NodeApp, process: HistoryWriter, key: NewKey
) -> None:
    high = issue("bitrate_high")
    over = issue("bitrate_high", level="bad")
    events = await told(node, key, {"issues": [high]}, {"issues": [over]}, {"issues": [over]})
    assert [event.kind for event in events[:3]] == ["health.opened", "health.opened", "limit.breached"]
    assert [event.kind for event in events].count("limit.breached") == 1


async def test_what_is_sent_changes(node: NodeApp, process: HistoryWriter, key: NewKey) -> None:
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


async def test_a_peer_that_changes_for_ever_fills_no_history(
    node: NodeApp, process: HistoryWriter, key: NewKey
) -> None:
    ticks = ({"media": {"width": 100 + number, "height": 100}} for number in range(80))
    events = await told(node, key, *ticks)
    assert [event.kind for event in events].count("config.changed") == 50


async def test_a_nodes_own_issues_are_logged_once(node: NodeApp, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ingest.consumers.node")
    full = issue("disk_free", title="8.0 % of the disk is free (10 % at least).", advice="Free space on it.")
    receive = await watch("live")
    for issues in ([], [full], [full], [full | {"level": "bad"}], []):
        await node.tick(figures={"node": NODE, "at": 1.0, "issues": issues})
        assert (await receive())["nodes"][0]["issues"] == issues
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", f"Node {NODE}: 8.0 % of the disk is free (10 % at least). Free space on it."),
        ("ERROR", f"Node {NODE}: 8.0 % of the disk is free (10 % at least). Free space on it."),
        ("INFO", f"Node {NODE}: cleared: Disk full."),
    ]
