"""/metrics: what Prometheus' own parsers make of it, who may read it, and what it costs."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics
from pytest_django import DjangoAssertNumQueries

from dashboard import metrics
from dashboard.models import Alert, AlertRule
from ingest import live_store
from ingest.models import Attempt, Delivery, Stream, Webhook
from tests.dashboard.conftest import api_token, make_session, make_stream, snapshot
from tests.dashboard.scraping import put, scrape, values

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


pytestmark = pytest.mark.usefixtures("nothing_scraped")


def test_a_stream_and_its_node_in_base_units(client: Client, stream: Stream) -> None:
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
    put(*(snapshot(stream, id=number, name=f"cam-{number}") for number in range(5)))
    found = scrape(client)
    assert values(found, "rtmpweb_stream_players") == {("live", "cam-0"): 3.0, ("live", "cam-1"): 3.0, ("", ""): 9.0}
    assert values(found, "rtmpweb_stream_video_bytes_per_second")["", ""] == 3 * 310_062.5
    assert len(values(found, "rtmpweb_stream_frames_per_second")) == 2  # A sum of these means nothing.
    assert values(found, "rtmpweb_streams_without_series") == {(): 3.0}
    assert values(found, "rtmpweb_streams")[("live",)] == 5.0


def test_open_issues_are_counted_by_check_and_level(client: Client, stream: Stream) -> None:
    def issue(check: str, level: str) -> Any:
        texts = dict.fromkeys(("actual", "expected", "title", "advice"), "x")
        return {"check": check, "level": level, "since": 1_700_000_000.0, **texts}

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
    assert recent == dict.fromkeys(
        [("webhook", "done"), ("webhook", "dead"), ("webhook", "waiting"), ("email", "done")], 1
    )


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


@pytest.mark.both_forms
def test_a_second_scraper_costs_no_collection(
    client: Client,
    stream: Stream,
    django_assert_num_queries: DjangoAssertNumQueries,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "COLLECT_S", 60.0)
    token = api_token()
    scrape(client, **token)
    with django_assert_num_queries(1):  # The token.
        scrape(client, **token)


@pytest.mark.both_forms
def test_while_redis_is_away_the_parts_are_still_told(client: Client, db: None) -> None:
    live_store._store = live_store.RedisLiveStore("redis://127.0.0.1:1/0")
    found = scrape(client)
    assert "rtmpweb_part_state" in found
    assert "rtmpweb_stream_players" not in found


def test_who_may_read_it(client: Client, viewer: Client, db: None) -> None:
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"Authorization": "Bearer rt_nonsense"}).status_code == 401
    assert viewer.get("/metrics").status_code == 200
    for role in ("operator", "analyst", "admin"):
        assert client.get("/metrics", headers=api_token(role)).status_code == 200
