"""A node stands still, or the web process, Redis or PostgreSQL is away, or hangs, while three streams go on: nothing
of them is lost or late, but by the node itself; and pages find back.
"""

import os
import signal
import time
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import Any, Self

import pytest
from playwright.sync_api import Page, expect

from ingest.services.refusals import REASONS
from tests.production.broadcast import on_air
from tests.production.installation import Production
from tests.production.outages.outage import (
    ANSWER_S,
    CLIENT_ENDS,
    SEEN_S,
    STREAMS,
    UNCHECKED,
    UNRENEWED_S,
    WRITTEN_S,
    Encoder,
    Outage,
    away,
    check_accepted,
    check_after,
    check_events,
    check_over,
    check_told,
    frames,
    hanging,
    open_wall,
    refusal,
    samples,
    taken,
)
from tests.production.outages.steady import LATE_MS, Steady
from tests.production.settings import LONG
from tests.programs import Keys
from tests.server_process import wait_for
from tests.tools import require_tool

pytestmark = [
    pytest.mark.production,
    pytest.mark.measures_time,
    pytest.mark.timeout(180),
]

KICKED_S = 10.0
NOT_CONNECTED = "NetConnection.Connect.Failed"


class Guests:
    """Two more publishers: one leaves while a part is away, one is kicked after the outage."""

    def __init__(self, production: Production, keys: Keys) -> None:
        self._production = production
        self._stays = ExitStack()
        self._leaving = ExitStack()
        self._show = self._stays.enter_context(on_air(production.rtmp, keys["kicked"]))
        self._leaving.enter_context(on_air(production.rtmp, keys["leaving"]))
        self._leaves_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.close()
        self._stays.close()

    def leave(self) -> None:
        self._leaves_at = time.time()
        self._leaving.close()

    def check(self, outage: Outage) -> None:
        """The end in the outage is on record with its time, and the other publisher can be kicked."""
        production = self._production
        left = production.wait_for_end("live/leaving", timeout_s=WRITTEN_S)
        assert left["end_reason"] in CLIENT_ENDS
        # The time has milliseconds.
        assert self._leaves_at - 0.001 <= datetime.fromisoformat(left["ended_at"]).timestamp() < outage.over
        check_events(production, [left["id"]])
        assert not self._show.ended
        status, answer = production.request("/api/v1/streams/live/kicked/kick", method="POST")
        assert status == 202, answer
        wait_for(lambda: self._show.ended, timeout_s=KICKED_S, what="the publisher is disconnected")
        assert production.wait_for_end("live/kicked", timeout_s=KICKED_S)["end_reason"] == "kicked"


def publish(production: Production, key: dict[str, Any]) -> str:
    """Return the code of the answer to a new publisher."""
    with Encoder(production) as encoder:
        return encoder.connect() or encoder.publish(key)


def wait_seen(production: Production) -> None:
    def is_live(name: str) -> bool:
        status, answer = production.request(f"/api/v1/streams/live/{name}")
        return bool(status == 200 and answer["state"] == "live")

    wait_for(lambda: all(map(is_live, STREAMS)), timeout_s=SEEN_S, what="all streams are seen")


STILL_S = 180.0 if LONG else 60.0
"""Limit for the time without news of the latest runs, requested or running."""
LATEST = """
    SELECT id, trigger, state, error_code, requested_at, started_at, heartbeat_at, ended_at
    FROM analytics_analyticsrun ORDER BY id DESC LIMIT 5
"""


def wait_while_running(production: Production, query: str, *values: Any, what: str) -> None:
    """Wait until the query finds something, as long as there is news of the latest runs."""
    latest: list[tuple[Any, ...]] = []
    news_at = time.monotonic()
    while not production.rows(query, *values):
        former, latest = latest, production.rows(LATEST)
        if latest != former:
            news_at = time.monotonic()
        assert time.monotonic() - news_at < STILL_S, f"no news for {STILL_S} s, and not yet: {what}; {latest}"
        time.sleep(0.2)


STOPPED_S = 0.25


def test_node_that_stood_still_is_measured_as_late_without_loss(production: Production, steady: Steady) -> None:
    node = next(iter(production.nodes.values()))
    steady.window()
    os.kill(node.pid, signal.SIGSTOP)
    time.sleep(STOPPED_S)  # The length of the stop is what is measured.
    os.kill(node.pid, signal.SIGCONT)
    windows: list[dict[str, Any]] = []

    def is_late() -> bool:
        windows.append(steady.window())
        return bool(windows[-1]["late_ms"] > LATE_MS)

    wait_for(is_late, timeout_s=5, what="what was sent meanwhile has come")
    assert windows[-1]["late_ms"] > 0.8 * STOPPED_S * 1000
    assert [window["faults"] for window in windows] == [[]] * len(windows)


RECONNECTED_MS = 20_000
"""A page tries again ever later, up to each 15 s."""


def test_web_process_outage_disturbs_no_stream_and_pages_recover(
    production: Production, steady: Steady, keys: Keys, sessions: list[str], page: Page
) -> None:
    open_wall(production, page)
    for name in STREAMS:
        page.wait_for_selector(f'[data-stream="live/{name}"][data-state="live"]')
    with Guests(production, keys) as others:
        with steady.undisturbed("the web process is away"):
            with away(production.web) as outage:
                expect(page.locator("#stale")).to_be_visible()
                check_accepted(production, keys["new"])
                others.leave()
                page.wait_for_selector('#outages [data-kind="web"]')
            wait_seen(production)
            expect(page.locator("#stale")).to_be_hidden(timeout=RECONNECTED_MS)
            check_over(page, "web")
            page.wait_for_selector('[data-stream="live/kicked"][data-state="live"]')
        others.check(outage)
    check_after(production, steady, sessions)


UNHEALTHY_S = 8.0
RUN_S = 480.0
"""A test that waits for runs."""

REST = """
    UPDATE analytics_partition SET retry_at = now() + interval '1 hour' WHERE state <> 'done' RETURNING id
"""
"""What a run of a test before this has not done is not begun now."""
NONE_GOES_ON = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM analytics_analyticsrun WHERE state IN ('queued', 'running'))"


def check_unhealthy(production: Production) -> None:
    """/healthz tells that the database is away, soon, and never keeps anybody waiting."""

    def told() -> bool:
        began = time.monotonic()
        status, answer = production.request("/healthz", token="")
        assert time.monotonic() - began < ANSWER_S
        return (status, answer["database"], answer["nodes"]) == (503, "unreachable", 2)

    wait_for(told, timeout_s=UNHEALTHY_S, what="/healthz says that the database does not answer")


@pytest.mark.timeout(RUN_S)
def test_redis_outage_disturbs_no_stream_and_is_shown(
    production: Production, steady: Steady, keys: Keys, sessions: list[str], page: Page
) -> None:
    production.rows(REST)
    wait_while_running(production, NONE_GOES_ON, what="no run is going on")
    production.rows(REST)
    open_wall(production, page)
    with Guests(production, keys) as others:
        with steady.undisturbed("Redis is away"):
            with away(production.redis) as outage:
                check_accepted(production, keys["new"])
                others.leave()
                assert production.request("/api/v1/streams/live/steady-1")[0] == 503
                assert production.request("/api/v1/sessions")[0] == 200
                assert production.request("/healthz", token="")[0] == 200
                page.goto(production.http + "/analytics/")
                page.click("#run-now")
                assert "task queue can't be reached" in page.inner_text("#run-failed")
                check_told(production, page, "redis", outage.began)
            wait_seen(production)
            check_over(page, "redis")
        others.check(outage)
    check_after(production, steady, sessions)


def test_hanging_redis_disturbs_no_stream_and_admits_publishers(
    production: Production, steady: Steady, keys: Keys, sessions: list[str]
) -> None:
    with steady.undisturbed("Redis hangs"):
        with hanging(production.redis):
            check_accepted(production, keys["new"])
            assert production.request("/api/v1/streams/live/steady-1")[0] == 503
        wait_seen(production)
    check_after(production, steady, sessions)


@pytest.mark.timeout(RUN_S)
def test_the_run_that_was_asked_for_without_redis_is_repeated(production: Production) -> None:
    """By beat, which asks for it each TAKE_UP_S."""
    require_tool("java")
    unsent = "SELECT id FROM analytics_analyticsrun WHERE error_code = 'queue'"
    later = "SELECT 1 FROM analytics_analyticsrun WHERE id > %s AND trigger = 'schedule' AND state = 'done'"
    runs = production.rows(unsent)
    assert runs, "test_redis_outage_disturbs_no_stream_and_is_shown asks for a run, and has to run before this"
    wait_while_running(production, later, runs[0][0], what="another run is done in its place")


ATTEMPTS = "SELECT DISTINCT action, reason FROM ingest_attempt WHERE COALESCE(last_at, at) >= to_timestamp(%s)"


def test_postgresql_outage_disturbs_no_stream_and_refuses_new_ones(
    production: Production, steady: Steady, keys: Keys, sessions: list[str], page: Page
) -> None:
    open_wall(production, page)
    with Guests(production, keys) as others, Encoder(production) as early:
        assert not early.connect()
        with steady.undisturbed("PostgreSQL is away"):
            with away(production.postgres, for_s=UNRENEWED_S) as outage:
                assert early.publish(keys["new"]) == UNCHECKED
                refused = refusal(production, keys["new"])
                assert refused is not None
                assert (refused.code, refused.description) == (NOT_CONNECTED, REASONS["database_error"].description)
                others.leave()
                check_unhealthy(production)
                assert production.request("/api/v1/sessions")[0] == 503
                check_told(production, page, "database", outage.began)
            wait_seen(production)
            check_over(page, "database")
        others.check(outage)
    check_after(production, steady, sessions)
    attempts = {(action, reason) for action, reason in production.rows(ATTEMPTS, outage.began)}
    assert ("connect", "database_error") in attempts
    assert {action for action, _ in attempts} == {"connect", "publish"}
    assert {reason for _, reason in attempts} <= {"database_error", "database_slow"}  # Slow, where the machine is.
    check_accepted(production, keys["new"])


def test_hanging_postgresql_disturbs_no_stream_and_refuses_new_ones(
    production: Production, steady: Steady, keys: Keys, sessions: list[str]
) -> None:
    with Encoder(production) as early:
        assert not early.connect()
        with steady.undisturbed("PostgreSQL hangs"):
            with hanging(production.postgres):
                assert early.publish(keys["new"]) == UNCHECKED
                assert publish(production, keys["new"]) == NOT_CONNECTED
                check_unhealthy(production)
            wait_seen(production)
    check_after(production, steady, sessions)
    check_accepted(production, keys["new"])


def test_read_only_postgresql_disturbs_no_stream_and_marks_no_part_down(
    production: Production, steady: Steady, keys: Keys, sessions: list[str], page: Page
) -> None:
    """Nobody is said to be gone who only can't write that he lives, until the leases are long past; then all go on."""
    open_wall(production, page)

    def parts() -> dict[str, dict[str, str]]:
        _status, answer = production.request("/api/v1/system")
        return {item["kind"]: item for item in answer.get("items", ())}

    # As a standby it answers and takes no writes.
    fail_over, go_back = (partial(production.postgres.restart, standby=is_standby) for is_standby in (True, False))
    with steady.undisturbed("PostgreSQL takes no writes"):
        with taken(fail_over, go_back, for_s=UNRENEWED_S) as outage:
            what = "the API says that the database takes no writes"
            wait_for(lambda: parts().get("database", {}).get("state") == "degraded", timeout_s=SEEN_S, what=what)
            check_told(production, page, "database", outage.began)
            page.wait_for_selector('#outages :text("It is a standby.")', timeout=SEEN_S * 1000)
            assert "Restart nothing" in page.inner_text("#outages")
            assert publish(production, keys["new"]) == UNCHECKED
            while time.time() < outage.began + UNRENEWED_S:  # The length of the outage is what is tested.
                found = parts()
                assert {kind: part for kind, part in found.items() if part["state"] == "down"} == {}
                assert found["nodes"]["state"] == "ok"
                status, health = production.request("/healthz", token="")
                assert (status, health["database"], health["parts"]["database"]) == (200, "no writes", "degraded")
                time.sleep(0.5)
        wait_seen(production)
        check_over(page, "database")
    check_after(production, steady, sessions)
    check_accepted(production, keys["new"])


def test_all_that_was_sent_is_counted(production: Production, steady: Steady, sessions: list[str]) -> None:
    """At the end: the sessions' rows and the lake have each frame that the publishers sent."""
    sent = steady.stop()
    counted = frames(production, sessions)
    assert counted == {name: messages - 2 for name, messages in sent.items()}

    def in_lake() -> dict[str, int]:
        found = samples(production.folder / "lake")
        mine = [seconds for session, seconds in found.items() if session in sessions]
        return {each[0]["name"]: sum(row["video_frames"] + row["audio_frames"] for row in each) for each in mine}

    wait_for(lambda: in_lake() == counted, timeout_s=WRITTEN_S, what="the lake has as many")
