"""Viewers by HLS while parts are away: they go on by the same playlist, whatever it is; and none is let in that nobody
has asked about.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest

from tests.background import accepts, start_all
from tests.hls.mp4 import read_fragments
from tests.hls.playlist import read
from tests.production.broadcast import on_air
from tests.production.installation import Production
from tests.production.outages.outage import ANSWER_S, SEEN_S, away, hanging
from tests.production.parts import Packager
from tests.production.test_form import taken
from tests.programs import Keys
from tests.rtmpweb.processes import waited_s
from tests.server_process import wait_for

pytestmark = [
    pytest.mark.production,
    pytest.mark.timeout(180),
]

NAME = "by-hls"
PATH = f"live/{NAME}"
KICKED = "by-hls-kicked"
MORE_S = 15.0
"""For a segment, which lasts two seconds; the rest is for a busy machine."""
FREE_S = 30.0
"""A stream of a killed node is: a lease lives for ten seconds."""
POLICY_S = 2.0
STOP_S = 8.0
POLL_S = 0.3
HTTP_S = 30.0

KICK = """
from ingest.services import sessions
assert sessions.request_stop(session_id={session!r}, reason="kicked")
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """A segment that a viewer fetched. `date` (by the playlist) and `at` (arrival) are seconds since the epoch."""

    msn: int
    epoch: str
    """The folder of its URI: each packager that makes a stream's segments has another."""
    begins: int
    """By its media, in the timescale of its first track."""
    date: float
    at: float


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request. `status` 0: no connection, or no answer in time."""

    name: str
    status: int
    words: str
    at: float


class Follower:
    """A viewer as the simplest players are: it requests the same media playlist again and again, and each segment
    once. It runs in a thread of its own, while a test stops parts."""

    def __init__(self, url: str) -> None:
        """`url`: of the multivariant playlist, which is requested until it is there."""
        self.url = url
        self.playlist = ""
        """The URL of the media playlist."""
        self.taken: list[Taken] = []
        self.failures: list[Failure] = []
        self._inits: dict[str, bytes] = {}
        self.over = threading.Event()

    @property
    def viewer(self) -> str:
        """Its id."""
        return parse_qs(urlsplit(self.playlist).query)["viewer"][0]

    @property
    def epochs(self) -> list[str]:
        return list(dict.fromkeys(one.epoch for one in self.taken))

    def wait_for_more(self, count: int = 1, *, timeout_s: float) -> None:
        """Wait for that many segments more."""
        wanted = len(self.taken) + count
        try:
            wait_for(lambda: len(self.taken) >= wanted, timeout_s=timeout_s, what=f"{count} segments more")
        except AssertionError as error:
            raise AssertionError(f"{error}; failed: {self.failures[-5:]}") from None

    def check(self) -> None:
        """Numbers and dates rise. Within one epoch no segment is missing, and the times of the media rise."""
        for one, after in pairwise(self.taken):
            assert after.msn > one.msn, (one, after)
            assert after.date > one.date, (one, after)
            if after.epoch == one.epoch:
                assert after.msn == one.msn + 1, (one, after)
                assert after.begins > one.begins, (one, after)

    def run(self) -> None:
        with httpx.Client(timeout=HTTP_S) as client:
            while not self.over.is_set():
                with suppress(httpx.HTTPStatusError, httpx.TransportError):
                    self._look(client)
                self.over.wait(POLL_S)

    def _get(self, client: httpx.Client, url: str) -> bytes:
        name = urlsplit(url).path.rpartition("/")[2]
        try:
            answer = client.get(url)
        except httpx.TransportError as error:
            self.failures.append(Failure(name, 0, repr(error), time.time()))
            raise
        if answer.is_error and (self.playlist or answer.status_code != 404):  # The stream may only begin.
            self.failures.append(Failure(name, answer.status_code, answer.text, time.time()))
        return answer.raise_for_status().content

    def _look(self, client: httpx.Client) -> None:
        if not self.playlist:
            self.playlist = urljoin(self.url, read(self._get(client, self.url).decode()).variants[0][1])
        segments = read(self._get(client, self.playlist).decode()).segments
        last = self.taken[-1].msn if self.taken else segments[-1].msn - 1 if segments else 0
        for segment in segments:
            if segment.msn > last:
                if segment.map_uri not in self._inits:
                    self._inits[segment.map_uri] = self._get(client, urljoin(self.playlist, segment.map_uri))
                body = self._get(client, urljoin(self.playlist, segment.uri))
                begins = read_fragments(body, self._inits[segment.map_uri])[0].begins
                date = datetime.fromisoformat(segment.date_time).timestamp()
                self.taken.append(Taken(segment.msn, segment.uri.partition("/")[0], begins, date, time.time()))


@contextmanager
def following(url: str, *, timeout_s: float = 20) -> Iterator[Follower]:
    """Follow a stream. The block begins with the first segment."""
    viewer = Follower(url)
    thread = threading.Thread(target=viewer.run, name="follower", daemon=True)
    thread.start()
    try:
        viewer.wait_for_more(timeout_s=timeout_s)
        yield viewer
    finally:
        viewer.over.set()
        thread.join(HTTP_S)


@pytest.fixture(scope="module")
def packagers(production: Production, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Packager]]:
    """Two of one host."""
    folder = tmp_path_factory.mktemp("packagers")
    made = [Packager(folder, production.environment, name) for name in ("pack-1", "pack-2")]
    start_all(made)
    yield made
    for each in made:
        each.stop()
    production.wait_ready()


@pytest.fixture(scope="module")
def packager(packagers: list[Packager]) -> Packager:
    return packagers[0]


def players(production: Production, name: str = NAME) -> int:
    status, answer = production.request(f"/api/v1/streams/live/{name}")
    return int(answer["players"]) if status == 200 else -1


def status_of(url: str) -> tuple[int, str]:
    """And the words; fails if it takes long."""
    began = time.monotonic()
    answer = httpx.get(url, timeout=20)
    assert time.monotonic() - began < ANSWER_S
    return answer.status_code, answer.text


def assert_went_on(viewer: Follower, known: str, *, epochs: int = 1) -> None:
    assert viewer.viewer == known
    assert len(viewer.epochs) == epochs
    viewer.check()


def test_two_packagers_of_a_host_both_count_their_viewers(
    production: Production, keys: Keys, packagers: list[Packager]
) -> None:
    first, second = packagers
    with (
        on_air(production.rtmp, keys[NAME], players=1),
        following(first.playlist(NAME)) as one,
        following(second.playlist(NAME)) as other,
    ):
        wait_for(lambda: players(production) == 3, timeout_s=SEEN_S, what="the stream tells of all of them")
        nodes = {each["name"]: each for each in production.get("/api/v1/nodes")["items"]}
        assert [nodes[f"{name}-hls"]["state"] for name in ("pack-1", "pack-2")] == ["up", "up"]
        assert {nodes[f"{name}-hls"]["role"] for name in ("pack-1", "pack-2")} == {"packager"}
        parts = {each["kind"]: each["detail"] for each in production.get("/api/v1/system")["items"]}
        assert parts["packagers"] == "pack-1-hls, pack-2-hls"
        assert "hls" not in parts["nodes"]
        production.wait_ready()
        found = {each["node"] for each in production.sessions(PATH, kind="play") if each["protocol"] == "hls"}
        assert found == {"pack-1-hls", "pack-2-hls"}
        for viewer in (one, other):
            assert not viewer.failures
            viewer.check()


def test_hls_viewer_goes_on_as_a_node_drains_and_the_next_is_killed(
    production: Production, keys: Keys, packager: Packager
) -> None:
    """The encoder goes to another node each time."""
    first, second = production.nodes.values()
    with on_air(first.url, keys[NAME], players=0) as show, following(packager.playlist(NAME)) as viewer:
        known = viewer.viewer
        production.manage("node", "drain", "node-a", "--grace", "60")
        viewer.wait_for_more(timeout_s=MORE_S)
        assert not show.ended
        show.over.set()
        with on_air(second.url, keys[NAME], players=0):
            viewer.wait_for_more(2, timeout_s=MORE_S)
            production.manage("node", "resume", "node-a")
            wait_for(lambda: accepts(first.port), timeout_s=SEEN_S, what="the node listens again")
            second.kill()
        try:
            wait_for(lambda: taken(first, keys[NAME]), timeout_s=FREE_S, what="another node may have the stream")
            with on_air(first.url, keys[NAME], players=0):
                viewer.wait_for_more(2, timeout_s=MORE_S)
        finally:
            second.start()
        assert not viewer.failures
        assert_went_on(viewer, known)
    production.wait_ready()


def test_hls_viewer_goes_on_without_redis_and_without_postgresql(
    production: Production, keys: Keys, packager: Packager
) -> None:
    """Who is new is told to try again, soon; then it is let in."""
    with on_air(production.rtmp, keys[NAME], players=0), following(packager.playlist(NAME)) as viewer:
        known = viewer.viewer
        with (
            away(production.redis, for_s=3.0),
            following(packager.playlist(NAME), timeout_s=ANSWER_S + MORE_S) as other,
        ):
            viewer.wait_for_more(timeout_s=MORE_S)
            assert not other.failures
        for outage in (away(production.postgres, for_s=11.0), hanging(production.postgres)):
            with outage:
                viewer.wait_for_more(2, timeout_s=MORE_S)
                status, words = status_of(packager.playlist(NAME))
                assert (status, "again" in words) == (503, True), words
                status, words = status_of(packager.playlist("nobodys"))
                assert (status, "again" in words) == (503, True), words
            wait_for(lambda: status_of(packager.playlist(NAME))[0] == 200, timeout_s=SEEN_S, what="one is let in again")
        viewer.wait_for_more(timeout_s=MORE_S)
        assert not viewer.failures
        late = [after.at - one.at for one, after in zip(viewer.taken, viewer.taken[1:], strict=False)]
        assert max(late) < 6.0, late
        assert_went_on(viewer, known)
    production.wait_ready()


def sessions(production: Production) -> list[dict[str, Any]]:
    return [each for each in production.sessions(PATH, kind="play") if each["protocol"] == "hls"]


def test_hls_viewer_goes_on_after_a_packager_is_killed_or_stopped(
    production: Production, keys: Keys, packager: Packager
) -> None:
    with on_air(production.rtmp, keys[NAME], players=0), following(packager.playlist(NAME)) as viewer:
        known = viewer.viewer
        packager.kill()
        packager.start()
        wait_for(lambda: len(viewer.epochs) == 2, timeout_s=MORE_S + 10, what="there is more, of another")
        wait_for(lambda: players(production) == 1, timeout_s=SEEN_S, what="it is one viewer")
        session = sessions(production)[0]["id"]
        began = time.monotonic()
        assert packager.stop() == 0
        assert time.monotonic() - began < STOP_S
        assert "Traceback" not in packager.log
        assert packager.log.rstrip().endswith("Stopped.")
        ended = production.wait_for_end(PATH, session)
        assert ended["end_reason"] == "node_shutdown"
        packager.start()
        wait_for(lambda: len(viewer.epochs) == 3, timeout_s=MORE_S + 10, what="there is more, of a third")
        assert {failure.status for failure in viewer.failures} <= {0, 404}, viewer.failures
        assert_went_on(viewer, known, epochs=3)


def wait_refused(packager: Packager, viewer: Follower, began: float, what: str) -> None:
    """Within two seconds, and what others had the processors meanwhile."""
    waited_before_s = waited_s(packager.pid)

    def first() -> float:
        return next((failure.at for failure in viewer.failures if failure.status == 403 and failure.at >= began), 0.0)

    late_s = wait_for(first, timeout_s=SEEN_S, what=what) - began
    assert late_s < POLICY_S + POLL_S + waited_s(packager.pid) - waited_before_s, f"{what}: {late_s:.1f} s"


def test_kick_and_play_policy_reach_hls_viewers_within_two_seconds(
    production: Production, keys: Keys, packager: Packager
) -> None:
    headers = {"Authorization": f"Bearer {production.token}"}
    stream = f"{production.http}/api/v1/streams/{PATH}"
    with on_air(production.rtmp, keys[NAME], players=0), following(packager.playlist(NAME)) as viewer:
        began = time.time()
        assert httpx.patch(stream, json={"play_policy": "none"}, headers=headers, timeout=20).is_success
        wait_refused(packager, viewer, began, "nobody may watch")
        assert httpx.patch(stream, json={"play_policy": ""}, headers=headers, timeout=20).is_success
    with on_air(production.rtmp, keys[KICKED], players=0), following(packager.playlist(KICKED)) as viewer:
        (session,) = wait_for(
            lambda: production.sessions(f"live/{KICKED}", "play"), timeout_s=SEEN_S, what="it is told"
        )
        production.manage("shell", "--no-imports", "-c", KICK.format(session=session["id"]))
        began = time.time()
        wait_refused(packager, viewer, began, "it was kicked")
        ended = production.wait_for_end(f"live/{KICKED}", session["id"])
        assert ended["end_reason"] == "kicked"
        assert datetime.fromisoformat(ended["ended_at"]).timestamp() - began < POLICY_S + waited_s(packager.pid)
