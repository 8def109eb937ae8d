"""Viewers by HLS while parts are away: they go on by the same playlist, whatever it is; and none is let in that nobody
has asked about.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest

from tests.background import accepts, start_all
from tests.hls.follower import POLL_S, Follower, following
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

KICK = """
from ingest.services import sessions
assert sessions.request_stop(session_id={session!r}, reason="kicked")
"""


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
