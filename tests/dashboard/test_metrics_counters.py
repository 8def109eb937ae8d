"""/metrics: what only grows, what processes take, and that the documentation names each metric."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard import metrics
from ingest.consumers.active import Counts
from ingest.models import DeliveryCount, Stream
from tests.dashboard.conftest import snapshot
from tests.dashboard.scraping import put, scrape, values

pytestmark = pytest.mark.usefixtures("nothing_scraped")

DOCS = Path(__file__).parents[2] / "docs" / "operations" / "monitoring.md"
COUNTERS = {
    "received_bytes": 5_000_000,
    "sent_bytes": 40_000_000,
    "video_frames": 3000,
    "audio_frames": 4700,
    "dropped_frames": 1625,
}


def counted() -> dict[str, Any]:
    """What a node tells beside its figures of now."""
    counts = Counts()
    counts.started("publish")
    counts.ended("publish", "tcp_reset")
    counts.refused("key_unknown", 4)
    counts.recorded("failed")
    return {
        "draining": True,
        "recordings_failing": 3,
        "caches_bytes": 4_000_000,
        "caches_dropped_in_all": 12,
        "counters": COUNTERS,
        "counts": counts.figures,
        "loop_delays": {"bounds_s": [0.001, 0.1], "counts": [90, 9, 1], "sum_s": 0.75},
        "process": {
            "started_at": 1_700_000_000.0,
            "cpu_s": 812.5,
            "resident_bytes": 90_000_000,
            "open_files": 120,
            "most_files": 10_200,
        },
    }


def test_what_a_node_counted(client: Client, stream: Stream) -> None:
    put(snapshot(stream), refused_connections=6, **counted())
    found = scrape(client)
    for name, count in COUNTERS.items():
        assert found[f"rtmpweb_node_{name}"].type == "counter"
        assert values(found, f"rtmpweb_node_{name}") == {("n1",): count}
    assert values(found, "rtmpweb_node_refused_connections") == {("n1",): 6.0}
    ended = values(found, "rtmpweb_node_sessions_ended")
    assert {labels for labels, count in ended.items() if count} == {("publish", "n1", "tcp_reset")}
    assert ended["play", "n1", "too_slow"] == 0, "from the beginning, so that the first is an increase"
    assert values(found, "rtmpweb_node_sessions_started") == {("publish", "n1"): 1.0, ("play", "n1"): 0.0}
    assert values(found, "rtmpweb_node_attempts_refused")["n1", "key_unknown"] == 4.0
    assert values(found, "rtmpweb_node_recordings")["n1", "failed"] == 1.0
    assert values(found, "rtmpweb_node_process_cpu_seconds") == {("n1",): 812.5}
    assert values(found, "rtmpweb_node_process_open_fds") == {("n1",): 120.0}
    assert values(found, "rtmpweb_node_draining") == {("n1",): 1.0}
    assert values(found, "rtmpweb_node_recordings_failing") == {("n1",): 3.0}
    assert values(found, "rtmpweb_node_cache_bytes") == {("n1",): 4_000_000.0}
    assert found["rtmpweb_node_cache_drops"].type == "counter"
    assert values(found, "rtmpweb_node_cache_drops") == {("n1",): 12.0}


def test_how_late_the_loop_was_is_a_histogram(client: Client, stream: Stream) -> None:
    put(snapshot(stream), **counted())
    family = scrape(client)["rtmpweb_node_loop_delay_seconds"]
    assert family.type == "histogram"
    found = {(sample.name.rpartition("_")[2], sample.labels.get("le")): sample.value for sample in family.samples}
    assert found == {
        ("bucket", "0.001"): 90.0,
        ("bucket", "0.1"): 99.0,
        ("bucket", "+Inf"): 100.0,
        ("count", None): 100.0,
        ("sum", None): 0.75,
    }


def test_each_node_that_knows_a_stream_counts_its_own(
    client: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that none falls when the stream goes over to another node; and there are as many as there may be."""
    monkeypatch.setattr(metrics, "MAX_STREAMS", 1)
    put(snapshot(stream, counters=COUNTERS), snapshot(stream, id=99, name="cam-2", counters=COUNTERS))
    put(snapshot(stream, node="n2", state="waiting", counters={**COUNTERS, "received_bytes": 7}), node="n2")
    assert values(scrape(client), "rtmpweb_stream_received_bytes") == {
        ("live", "cam-1", "n1"): 5_000_000.0,
        ("live", "cam-1", "n2"): 7.0,
    }


def test_a_node_of_an_earlier_version_counts_nothing(client: Client, stream: Stream) -> None:
    put(snapshot(stream))
    found = scrape(client)
    assert values(found, "rtmpweb_node_players") == {("n1",): 3.0}
    for name in (
        "node_sent_bytes",
        "node_sessions_ended",
        "stream_sent_bytes",
        "node_loop_delay_seconds",
        "node_draining",
        "node_cache_bytes",
        "node_cache_drops",
    ):
        assert values(found, f"rtmpweb_{name}") == {}


def test_tries_to_deliver_messages(client: Client, db: None) -> None:
    Outcome = DeliveryCount.Outcome  # noqa: N806 - a class.
    DeliveryCount.objects.create(to="webhook", outcome=Outcome.FAILED, count=12)
    assert {each: count for each, count in values(scrape(client), "rtmpweb_delivery_tries").items() if count} == {
        ("failed", "webhook"): 12.0
    }


def test_the_web_process_tells_of_itself(client: Client, db: None) -> None:
    found = scrape(client)
    assert values(found, "process_cpu_seconds")[()] > 0
    assert values(found, "process_open_fds")[()] > 3


def test_units_are_base_units(client: Client, stream: Stream) -> None:
    put(snapshot(stream, counters=COUNTERS), **counted())
    other = re.compile(r"_(bits|kbps|ms|us|millis\w*|kib|mib|percent|minutes|hours)(_|$)")
    assert not [name for name in scrape(client) if other.search(name)]


def test_the_documentation_names_each_metric(client: Client, stream: Stream) -> None:
    put(snapshot(stream, counters=COUNTERS), **counted())
    made = {
        name.removeprefix("rtmpweb_") + ("_total" if family.type == "counter" else "")
        for name, family in scrape(client).items()
        if name.startswith("rtmpweb_")
    }
    rows = re.findall(r"^\| (`[a-z_]+`[^|]*) \|", DOCS.read_text().partition("| Metric (")[2], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert named == made
