"""Take parts away and bring them back, see what encoders and pages hear of it, and check what is right afterwards."""

import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import pyarrow.parquet as pq
from playwright.sync_api import Page

from ingest.services import leases
from ingest.telemetry import request_flush
from tests.background import Background, start_all
from tests.loops import LoopThread
from tests.production import settings
from tests.production.installation import Production
from tests.production.outages.steady import Steady
from tests.programs import AGAIN_S
from tests.rtmp_client import Refused, RtmpClient, is_passing
from tests.server_process import Installation, wait_for

AWAY_S = 30.0 if settings.LONG else 6.0
"""Shortest outage. It is longer than ANSWER_S, and than the limits of `dashboard.system.probes`."""
UNRENEWED_S = 30.0 if settings.LONG else leases.TTL.total_seconds() + 1
"""An outage of the database after which no lease lives that was held before."""
HANGING_S = 8.0 if settings.LONG else 6.0
ANSWER_S = 4.0
"""Limit for the answer to a publisher or a page, whatever is away."""
SEEN_S = 15.0
"""After the stores are back: the web process looks each 2 s, with a limit of 3 s, and the nodes tick."""
WRITTEN_S = 8.0
"""After the database is back, the history is written and leases are renewed in this time."""
CLIENT_S = 10.0
TOLD_S = settings.PROCESS_LATE_S + 11.0
"""Time until the parts after PROCESS_LATE_S: the web process looks each 2 s, with a limit of 3 s; a page each 3 s."""
OVER_S = 15.0
SINCE_S = 8.0
"""Tolerance of the time that a page names: what beats each 5 s was last heard of before it died."""

SAMPLE_US = 1_000_000
LATE_US = 400_000
"""A tick may be late, or the next early, by this much."""
NOTED_US = 400_000
"""Two notes of the same time may differ by this much."""

STREAMS = ["steady-1", "steady-2", "steady-3"]
STARTED = "NetStream.Publish.Start"
UNCHECKED = "NetStream.Publish.Failed"
CLIENT_ENDS = {"client_unpublish", "client_disconnect", "tcp_reset"}

# --- Parts ---


@dataclass
class Outage:
    """Begin and end, in seconds since the epoch."""

    began: float
    over: float = 0.0


@contextmanager
def taken(take: Callable[[], None], give: Callable[[], None], for_s: float) -> Iterator[Outage]:
    outage, began = Outage(time.time()), time.monotonic()
    take()
    try:
        yield outage
        time.sleep(max(0.0, began + for_s - time.monotonic()))  # The length of the outage is what is tested.
    finally:
        outage.over = time.time()
        give()


def away(*parts: Background, for_s: float = AWAY_S) -> AbstractContextManager[Outage]:
    """Kill the parts, and start them again after the block."""

    def kill() -> None:
        for part in parts:
            part.kill()

    return taken(kill, lambda: start_all(parts), for_s)


def hanging(part: Background) -> AbstractContextManager[Outage]:
    """Keep the part from answering."""
    return taken(part.pause, part.resume, HANGING_S)


# --- Encoders ---


class Encoder(LoopThread):
    """An encoder with a connection. Its calls block, and fail if the server takes more than ANSWER_S."""

    refused: Refused | None = None

    def __init__(self, installation: Installation) -> None:
        super().__init__("encoder")
        self.client = RtmpClient(port=installation.rtmp_port, timeout_s=CLIENT_S)

    def __enter__(self) -> Self:
        super().__enter__()
        self.run(self.client.open(), CLIENT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.client.close(), CLIENT_S)
        super().__exit__()

    def connect(self) -> str:
        """Return the code of the refusal, or ""."""
        return self._answer(self.client.connect("live"))

    def publish(self, key: dict[str, Any]) -> str:
        """Return the code of the answer."""
        return self._answer(self.client.publish(key["key"])) or STARTED

    def _answer(self, asking: Coroutine[Any, Any, Any]) -> str:
        began = time.monotonic()
        try:
            self.run(asking, 2 * CLIENT_S)
        except Refused as refused:
            self.refused = refused
            return refused.code
        finally:
            took_s = time.monotonic() - began
            assert took_s < ANSWER_S, f"the answer took {took_s:.1f} s"
        return ""


def refusal(installation: Installation, key: dict[str, Any]) -> Refused | None:
    """Return how a new publisher is refused, or None. It tries again if the server is busy."""
    ends_at = time.monotonic() + CLIENT_S
    while True:
        with Encoder(installation) as encoder:
            if not encoder.connect():
                encoder.publish(key)
        refused = encoder.refused
        if refused is None or not is_passing(refused) or time.monotonic() > ends_at:
            return refused
        time.sleep(AGAIN_S)


def check_accepted(installation: Installation, key: dict[str, Any]) -> None:
    refused = refusal(installation, key)
    assert refused is None, refused


# --- Pages ---


def open_wall(production: Production, page: Page) -> None:
    page.goto(production.http + "/")
    page.wait_for_selector("#wall")


def check_told(production: Production, page: Page, kind: str, since: float) -> None:
    """The open page shows a banner, and the API says the same. `since` is in seconds since the epoch."""
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


# --- Afterwards ---

OPEN = "SELECT id::text FROM ingest_session WHERE app = 'live' AND name = ANY(%s) AND ended_at IS NULL ORDER BY id"
GAPS = """
    SELECT session_id::text, count(*), max(sequence) FROM ingest_statusevent
    WHERE session_id = ANY(%s::uuid[]) AND sequence <= 2000 GROUP BY session_id HAVING count(*) <> max(sequence)
"""
LEASES = """
    SELECT s.name, s.ended_at IS NOT NULL FROM ingest_lease l JOIN ingest_session s ON s.id = l.session_id
    WHERE s.ended_at IS NOT NULL OR l.expires_at > now()
"""
FRAMES = """
    SELECT name, video_frames + audio_frames FROM ingest_session
    WHERE id = ANY(%s::uuid[]) AND kind = 'publish' AND ended_at IS NOT NULL
"""
UNENDED = "SELECT 1 FROM ingest_session WHERE id = ANY(%s::uuid[]) AND ended_at IS NULL"


def open_sessions(production: Production, names: list[str]) -> list[str]:
    """Return the ids of the streams' sessions that have not ended, publishers' and players'."""
    return [row[0] for row in production.rows(OPEN, names)]


def check_sessions(production: Production, names: list[str], before: list[str]) -> None:
    """The streams' sessions live on, hold their leases, and have all their events."""

    def settled() -> bool:
        held = production.rows(LEASES)
        return set(names) <= {name for name, _ in held} and not any(has_ended for _, has_ended in held)

    wait_for(settled, timeout_s=WRITTEN_S, what=f"the leases of {names} are renewed and no other is held")
    assert open_sessions(production, names) == before
    check_events(production, before)


def check_events(production: Production, sessions: list[str]) -> None:
    assert production.rows(GAPS, sessions) == []


def frames(production: Production, sessions: list[str]) -> dict[str, int]:
    """Return {stream: frames of video and audio} of the publishing sessions, once all of them have ended."""
    is_over = "the sessions' ends are written"
    wait_for(lambda: not production.rows(UNENDED, sessions), timeout_s=WRITTEN_S, what=is_over)
    return dict(production.rows(FRAMES, sessions))


def samples(lake: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the samples of each session that has any, in order, with those that its node still kept."""
    assert request_flush(lake), "a node did not convert its spool"
    columns = ["session", "sequence", "at_us", "elapsed_ms", "name", "video_frames", "audio_frames", "video_bytes"]
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for file in (lake / "samples").rglob("*.parquet"):
        for row in pq.ParquetFile(file).read(columns).to_pylist():
            found[row["session"]].append(row)
    for rows in found.values():
        rows.sort(key=lambda row: row["sequence"])
    return found


def check_samples(lake: Path, sessions: list[str], steady: Steady) -> None:
    """The lake has each second of the sessions that publish, once.

    No sample of the last outage is late, except for the time that the node waited for a processor.
    """
    last = steady.measured[-1]
    waited_us = (last["waited_ms"] + last["stolen_ms"]) * 1000
    mine = {session: rows for session, rows in samples(lake).items() if session in sessions}
    assert len(mine) == len(steady.names)
    for session, rows in mine.items():
        sequences = [row["sequence"] for row in rows]
        assert sequences == list(range(1, len(rows) + 1)), f"{session}: {len(rows)} samples up to {sequences[-1]}"
        steps = [after["at_us"] - before["at_us"] for before, after in pairwise(rows)]
        noted = zip(rows[1:], steps, strict=True)
        worst = max(step for row, step in noted if last["began_us"] < row["at_us"] < last["over_us"])
        assert worst <= SAMPLE_US + LATE_US + waited_us, f"{session}: {worst / 1e6:.2f} s between two samples"
        lacking = sum(steps) - sum(row["elapsed_ms"] * 1000 for row in rows[1:])
        assert abs(lacking) <= NOTED_US, f"{session}: the samples tell of {lacking / 1e6:.2f} s less than they span"


def check_after(production: Production, steady: Steady, sessions: list[str]) -> None:
    check_sessions(production, STREAMS, sessions)
    check_samples(production.folder / "lake", sessions, steady)
