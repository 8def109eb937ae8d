"""/metrics: what Prometheus' own parsers make of it, what only grows, what processes take, what it costs, and that the
documentation names each metric."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from prometheus_client import parser
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from pytest_django import DjangoAssertNumQueries

from dashboard import metrics
from dashboard.models import Alert, AlertRule
from ingest import live_store
from ingest.consumers.active import Counts
from ingest.contracts import StreamSnapshot
from ingest.models import Attempt, Delivery, DeliveryCount, Stream, Webhook
from tests.dashboard.conftest import api_token, make_session, make_stream, put_node, snapshot
from tests.snapshots import issue


def put(*streams: StreamSnapshot, **fields: Any) -> None:
    records = {"history_waiting": 3, "history_dropped": 2, "telemetry_dropped": 1, "telemetry_failing_since": None}
    put_node(*streams, **{"records": records, **fields})


def scrape(client: Client, **headers: str) -> dict[str, Metric]:
    answer = client.get("/metrics", headers=headers or api_token())
    assert answer.status_code == 200, answer.content
    return {family.name: family for family in parser.text_string_to_metric_families(answer.content.decode())}


def values(families: dict[str, Metric], name: str) -> dict[tuple[str, ...], float]:
    """By the values of the labels, in the order of the labels' names: as they stand in the text."""
    return {tuple(value for _, value in sorted(each.labels.items())): each.value for each in families[name].samples}


OPENMETRICS = "application/openmetrics-text; version=1.0.0"


pytestmark = pytest.mark.usefixtures("nothing_scraped")


@pytest.fixture
def nothing_scraped() -> Iterator[None]:
    """Forget the kept answers of /metrics."""
    metrics.exposition.cache_clear()
    yield
    metrics.exposition.cache_clear()


def test_stream_and_node_metrics_are_in_base_units(client: Client, stream: Stream) -> None:
    put(snapshot(stream, health="warning", slow_players=2))
    found = scrape(client)
    assert values(found, "rtmpweb_stream_video_bytes_per_second") == {("live", "cam-1"): 310_062.5}
    assert values(found, "rtmpweb_stream_frames_per_second") == {("live", "cam-1"): 29.97}
    assert values(found, "rtmpweb_stream_drift_seconds") == {("live", "cam-1"): pytest.approx(0.012)}
    assert values(found, "rtmpweb_stream_health") == {("live", "cam-1"): 1.0}
    assert values(found, "rtmpweb_node_out_bytes_per_second") == {("n1",): 975_000.0}
    assert values(found, "rtmpweb_node_loop_delay_max_seconds") == {("n1",): pytest.approx(0.001)}
    assert values(found, "rtmpweb_node_history_waiting") == {("n1",): 3.0}
    assert values(found, "rtmpweb_stream_slow_players") == {("live", "cam-1"): 2.0}
    assert found["rtmpweb_node_history_dropped"].type == "counter"
    assert values(found, "rtmpweb_part_state")[("database",)] == 0.0


def test_openmetrics_is_spoken_too(client: Client, stream: Stream) -> None:
    put(snapshot(stream))
    answer = client.get("/metrics", headers=api_token() | {"Accept": OPENMETRICS})
    assert answer["Content-Type"].startswith("application/openmetrics-text")
    families = openmetrics.text_string_to_metric_families(answer.content.decode())  # type: ignore[no-untyped-call]
    assert "rtmpweb_stream_players" in {family.name for family in families}


@pytest.mark.both_forms
def test_counts_of_sessions_and_refusals(client: Client, stream: Stream) -> None:
    make_session(stream)
    make_session(stream, kind="play")
    make_session(stream, ended_ago_s=5)
    Attempt.objects.create(action="publish", address="192.0.2.1", reason="key_unknown", count=4)
    Attempt.objects.create(action="publish", address="192.0.2.2", reason="key_unknown")
    now = timezone.now()
    for ago, last_ago in ((30, 1), (30, 20)):
        times = {"at": now - timedelta(minutes=ago), "last_at": now - timedelta(minutes=last_ago)}
        Attempt.objects.create(action="play", address="192.0.2.3", reason="token_invalid", count=50 + ago, **times)
    found = scrape(client)
    assert values(found, "rtmpweb_sessions_open") == {("publish",): 1.0, ("play",): 1.0}
    assert values(found, "rtmpweb_attempts_refused_recent") == {("key_unknown",): 5.0, ("token_invalid",): 80.0}


def test_names_with_odd_characters_are_labels_like_others(client: Client, db: None) -> None:
    put(snapshot(make_stream('"a\\b\n{}é')))
    assert ("live", '"a\\b\n{}é') in values(scrape(client), "rtmpweb_stream_players")


def test_only_so_many_streams_have_series(client: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_STREAMS", 2)
    put(*(snapshot(stream, id=number, name=f"cam-{number}", viewers=2) for number in range(5)))
    found = scrape(client)
    assert values(found, "rtmpweb_stream_players") == {("live", "cam-0"): 3.0, ("live", "cam-1"): 3.0, ("", ""): 9.0}
    assert values(found, "rtmpweb_stream_viewers") == {("live", "cam-0"): 2.0, ("live", "cam-1"): 2.0, ("", ""): 6.0}
    assert values(found, "rtmpweb_stream_video_bytes_per_second")["", ""] == 3 * 310_062.5
    assert len(values(found, "rtmpweb_stream_frames_per_second")) == 2  # A sum of these means nothing.
    assert values(found, "rtmpweb_streams_without_series") == {(): 3.0}
    assert values(found, "rtmpweb_streams")[("live",)] == 5.0


def test_open_issues_are_counted_by_check_and_level(client: Client, stream: Stream) -> None:
    put(
        snapshot(stream, id=1, issues=[issue("gop_long", "warning"), issue("starving", "bad")]),
        snapshot(stream, id=2, name="cam-2", issues=[issue("gop_long", "warning")]),
        issues=[issue("node_cpu", "warning")],
    )
    assert values(scrape(client), "rtmpweb_health_issues") == {
        ("gop_long", "warning"): 2.0,
        ("starving", "bad"): 1.0,
        ("node_cpu", "warning"): 1.0,
    }


@pytest.mark.both_forms
def test_alerts_and_deliveries_are_counted(client: Client, stream: Stream) -> None:
    rule = AlertRule.objects.create(name="bad streams")
    now = timezone.now()
    about: dict[str, Any] = {"rule": rule, "subject": "live/cam-1", "check_code": "starving", "level": "bad"}
    Alert.objects.create(opened_at=now, due_at=now, **about)
    Alert.objects.create(opened_at=now, due_at=now, cleared_at=now, **about)
    hook = Webhook.objects.create(name="pager", url="https://example.org/")
    micros = int(now.timestamp() * 1e6)
    for number, (state, ago_s) in enumerate((("done", 0), ("dead", 60), ("waiting", 60), ("done", 7200))):
        Delivery.objects.create(once=str(number), number=micros - ago_s * 10**6, webhook=hook, state=state)
    Delivery.objects.create(once="mail", number=micros, channel="email", address="ops@example.org", state="done")
    found = scrape(client)
    assert values(found, "rtmpweb_alerts_open") == {("bad",): 1.0, ("warning",): 0.0}
    assert values(found, "rtmpweb_deliveries_waiting") == {(): 1.0}
    samples = found["rtmpweb_deliveries_recent"].samples
    recent = {(sample.labels["to"], sample.labels["state"]): sample.value for sample in samples if sample.value}
    assert recent == {**{("webhook", state): 1 for state in ("done", "dead", "waiting")}, ("email", "done"): 1}


def test_no_metric_comes_twice_and_each_says_what_it_is(client: Client, stream: Stream) -> None:
    put(snapshot(stream))
    text = client.get("/metrics", headers=api_token()).content.decode()
    families = list(parser.text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert family.name.startswith(("rtmpweb_", "process_"))
        assert family.documentation
        assert family.type in ("gauge", "counter", "histogram")
        labels = [(sample.name, *sorted(sample.labels.items())) for sample in family.samples]
        assert len(set(labels)) == len(labels)


@pytest.mark.stores
def test_a_second_scraper_costs_no_collection(
    client: Client, stream: Stream, django_assert_num_queries: DjangoAssertNumQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "COLLECT_S", 60.0)
    token = api_token()
    scrape(client, **token)
    with django_assert_num_queries(1):  # The token.
        scrape(client, **token)


@pytest.mark.both_forms
def test_metrics_without_redis_still_contain_part_states(client: Client, db: None) -> None:
    live_store._store = live_store.RedisLiveStore("redis://127.0.0.1:1/0")
    found = scrape(client)
    assert "rtmpweb_part_state" in found
    assert "rtmpweb_stream_players" not in found


DOCS = Path(__file__).parents[2] / "docs" / "operations" / "monitoring.md"
COUNTERS = {
    "received_bytes": 5_000_000,
    "sent_bytes": 40_000_000,
    "video_frames": 3000,
    "audio_frames": 4700,
    "dropped_frames": 1625,
}


def counted() -> dict[str, Any]:
    counts = Counts()
    counts.started("publish")
    counts.ended("publish", "tcp_reset")
    counts.refused("key_unknown", 4)
    counts.recorded("failed")
    process = {"started_at": 1_700_000_000.0, "cpu_s": 812.5, "resident_bytes": 90_000_000}
    process |= {"open_files": 120, "most_files": 10_200}
    return {
        "draining": True,
        "recordings_failing": 3,
        "caches_bytes": 4_000_000,
        "caches_dropped_in_all": 12,
        "counters": COUNTERS,
        "counts": counts.figures,
        "loop_delays": {"bounds_s": [0.001, 0.1], "counts": [90, 9, 1], "sum_s": 0.75},
        "process": process,
    }


def test_node_counters_are_exported(client: Client, stream: Stream) -> None:
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


def test_each_node_of_a_stream_counts_its_own(client: Client, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert values(found, "rtmpweb_stream_sent_bytes") == {}
    for name in ("sent_bytes", "sessions_ended", "loop_delay_seconds", "draining", "cache_bytes", "cache_drops"):
        assert values(found, f"rtmpweb_node_{name}") == {}


def test_delivery_tries_are_counted_by_outcome(client: Client, db: None) -> None:
    Outcome = DeliveryCount.Outcome  # noqa: N806 - a class.
    DeliveryCount.objects.create(to="webhook", outcome=Outcome.FAILED, count=12)
    assert {each: count for each, count in values(scrape(client), "rtmpweb_delivery_tries").items() if count} == {
        ("failed", "webhook"): 12.0
    }


def test_web_process_exports_its_cpu_time_and_open_files(client: Client, db: None) -> None:
    found = scrape(client)
    assert values(found, "process_cpu_seconds")[()] > 0
    assert values(found, "process_open_fds")[()] > 3


def test_the_documentation_names_each_metric_and_units_are_base_units(client: Client, stream: Stream) -> None:
    put(snapshot(stream, counters=COUNTERS), **counted())
    found = scrape(client)
    made = {
        name.removeprefix("rtmpweb_") + ("_total" if family.type == "counter" else "")
        for name, family in found.items()
        if name.startswith("rtmpweb_")
    }
    rows = re.findall(r"^\| (`[a-z_]+`[^|]*) \|", DOCS.read_text().partition("| Metric (")[2], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)} == made
    other = re.compile(r"_(bits|kbps|ms|us|millis\w*|kib|mib|percent|minutes|hours)(_|$)")
    assert not [name for name in found if other.search(name)]
