"""What is told of an outage, and what has to be right after it: rows of sessions and events, leases, the lake."""

import time
from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from playwright.sync_api import Page

from ingest.telemetry import request_flush
from tests.production import settings as limits
from tests.production.installation import Production
from tests.production.outages.steady import Steady
from tests.production.settings import LONG
from tests.server_process import wait_for

WRITTEN_S = 8.0
"""After the database is back: history is written and leases are renewed."""

SAMPLE_US = 1_000_000
LATE_US = 400_000
"""By how much a tick may be late, or the next early."""
NOTED_US = 400_000
"""By how much two notes of the same time may differ."""

OPEN = "SELECT id::text FROM ingest_session WHERE app = 'live' AND name = ANY(%s) AND ended_at IS NULL ORDER BY id"
GAPS = """
    SELECT session_id::text, count(*), max(sequence) FROM ingest_statusevent
    WHERE session_id = ANY(%s::uuid[]) AND sequence <= 2000 GROUP BY session_id HAVING count(*) <> max(sequence)
"""
LEASES = """
    SELECT s.name FROM ingest_lease l JOIN ingest_session s ON s.id = l.session_id
    WHERE s.ended_at IS NULL AND l.expires_at > now() ORDER BY s.name
"""
STRAY = """
    SELECT s.name FROM ingest_lease l JOIN ingest_session s ON s.id = l.session_id WHERE s.ended_at IS NOT NULL
"""


def open_sessions(production: Production, names: list[str]) -> list[str]:
    """The ids of the streams' sessions that have not ended, publishers' and players'."""
    return [row[0] for row in production.rows(OPEN, names)]


def check_sessions(production: Production, names: list[str], before: list[str]) -> None:
    """The streams' sessions live on, hold their leases, and have all their events."""

    def settled() -> bool:
        held = {row[0] for row in production.rows(LEASES)}
        return set(names) <= held and not production.rows(STRAY)

    wait_for(settled, timeout_s=WRITTEN_S, what=f"the leases of {names} are renewed and no other is held")
    assert open_sessions(production, names) == before
    check_events(production, before)


def check_events(production: Production, sessions: list[str]) -> None:
    assert production.rows(GAPS, sessions) == []


def refused(production: Production, since: float) -> set[tuple[str, str]]:
    """(action, reason) of what was refused since then (seconds since the epoch)."""
    query = "SELECT DISTINCT action, reason FROM ingest_attempt WHERE COALESCE(last_at, at) >= to_timestamp(%s)"
    return {(row[0], row[1]) for row in production.rows(query, since)}


def frames(production: Production, sessions: list[str]) -> dict[str, int]:
    """{stream: frames of video and audio} of the publishing sessions, once all of them have ended."""
    query = """
        SELECT name, video_frames + audio_frames FROM ingest_session
        WHERE id = ANY(%s::uuid[]) AND kind = 'publish' AND ended_at IS NOT NULL
    """
    open_ = "SELECT 1 FROM ingest_session WHERE id = ANY(%s::uuid[]) AND ended_at IS NULL"
    wait_for(lambda: not production.rows(open_, sessions), timeout_s=WRITTEN_S, what="the sessions' ends are written")
    return dict(production.rows(query, sessions))


def samples(lake: Path) -> dict[str, list[dict[str, Any]]]:
    """The lake's samples by session, in order of their sequence. What is spooled is converted first."""
    assert request_flush(lake), "a node did not convert its spool"
    columns = ["session", "sequence", "at_us", "elapsed_ms", "name", "video_frames", "audio_frames", "video_bytes"]
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for file in (lake / "samples").rglob("*.parquet"):
        for row in pq.ParquetFile(file).read(columns).to_pylist():
            found[row["session"]].append(row)
    for rows in found.values():
        rows.sort(key=lambda row: row["sequence"])
    return found


def sample_frames(sample: dict[str, Any]) -> int:
    frames: int = sample["video_frames"] + sample["audio_frames"]
    return frames


def check_samples(lake: Path, sessions: list[str], steady: Steady) -> None:
    """Each second of the sessions that publish is there, once. None of the last outage was noted late, but for what
    the node waited for a processor.
    """
    last = steady.measured[-1]
    mine = {session: rows for session, rows in samples(lake).items() if session in sessions}
    assert len(mine) == len(steady.names)
    for session, rows in mine.items():
        sequences = [row["sequence"] for row in rows]
        assert sequences == list(range(1, len(rows) + 1)), f"{session}: {len(rows)} samples up to {sequences[-1]}"
        steps = [after["at_us"] - before["at_us"] for before, after in pairwise(rows)]
        noted = zip(rows[1:], steps, strict=True)
        worst = max(step for row, step in noted if last.began_us < row["at_us"] < last.over_us)
        assert worst <= SAMPLE_US + LATE_US + last.waited_us, f"{session}: {worst / 1e6:.2f} s between two samples"
        lacking = sum(steps) - sum(row["elapsed_ms"] * 1000 for row in rows[1:])
        assert abs(lacking) <= NOTED_US, f"{session}: the samples tell of {lacking / 1e6:.2f} s less than they span"


TOLD_S = limits.PROCESS_LATE_S + 11.0
"""A worker is late after the first of it; the web process looks each 2 s, with a limit of 3 s; a page each 3 s."""
OVER_S = 15.0

SINCE_S = 8.0
"""By how much the time that is told may differ: what beats each 5 s was last heard of before it died."""


def open_wall(production: Production, page: Page) -> None:
    page.goto(production.http + "/")
    page.wait_for_selector("#wall")


def check_told(production: Production, page: Page, kind: str, since: float) -> None:
    """The open page shows a banner, the API says the same. `since`: seconds since the epoch."""
    page.wait_for_selector(f'#outages [data-kind="{kind}"]', timeout=TOLD_S * 1000)
    assert "since" in page.inner_text(f'#outages [data-kind="{kind}"]')

    def item() -> dict[str, str] | None:
        _status, answer = production.request("/api/v1/system")
        return next((item for item in answer["items"] if item["kind"] == kind and item["state"] != "ok"), None)

    told = wait_for(item, timeout_s=TOLD_S, what=f"the API says that {kind} is down")
    assert told["advice"]
    assert abs(datetime.fromisoformat(told["since"]).timestamp() - since) <= SINCE_S


def check_over(page: Page, kind: str) -> None:
    """The banner goes by itself."""
    page.wait_for_selector(f'#outages [data-kind="{kind}"]', state="detached", timeout=OVER_S * 1000)


STILL_S = 180.0 if LONG else 60.0
"""Without any news of the latest runs, be it that one is asked for or that one computes."""

LATEST = """
    SELECT id, trigger, state, error_code, requested_at, started_at, heartbeat_at, ended_at
    FROM analytics_analyticsrun ORDER BY id DESC LIMIT 5
"""


def wait_while_running(production: Production, query: str, *values: Any, what: str) -> None:
    """Until the query finds something, for as long as there is news of the latest runs."""
    latest: list[tuple[Any, ...]] = []
    news_at = time.monotonic()
    while not production.rows(query, *values):
        former, latest = latest, production.rows(LATEST)
        if latest != former:
            news_at = time.monotonic()
        assert time.monotonic() - news_at < STILL_S, f"no news for {STILL_S} s, and not yet: {what}; {latest}"
        time.sleep(0.2)
