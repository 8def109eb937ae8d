"""Two installations: a stream that is pushed from one to the other, whose key is wrong at first, and one that is pulled
back, in place of an encoder, while somebody plays it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.programs import on_air
from tests.server_process import ServerProcess, program, running, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running(tmp_path_factory.mktemp("there") / "var") as started:
        yield started


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running(
        tmp_path_factory.mktemp("here") / "var", RTMPWEB_RELAY_PRIVATE="1", RTMPWEB_HLS="127.0.0.1:0"
    ) as started:
        yield started


def call(server: ServerProcess, method: str, path: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {server.token}"}
    answer = httpx.request(method, f"{server.http}/api/v1/streams/live/{path}", json=body, headers=headers, timeout=20)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def test_a_stream_is_pushed_once_its_key_is_right_and_pulled_back(
    here: ServerProcess, there: ServerProcess, clip: Path
) -> None:
    mine = here.create_keys(["live/cam", "live/back", "live/asked"])
    theirs = there.create_keys(["live/pushed"])["live/pushed"]["key"]
    target = {"label": "There", "url": f"{there.rtmp}/live", "key": "rk_wrong-wrong-wrong-wrong-wrong"}
    pk = call(here, "POST", "cam/pushes", target)["id"]

    def push() -> dict[str, Any]:
        return call(here, "GET", f"cam/pushes/{pk}")  # type: ignore[no-any-return]

    with on_air(here, mine["live/cam"], clip):
        wait_for(lambda: push()["failure"] == "refused", timeout_s=20, what="the refusal")
        assert push()["state"] == "retrying"
        assert push()["advice"]
        call(here, "PATCH", f"cam/pushes/{pk}", {"key": theirs})
        wait_for(lambda: push()["state"] == "live" and push()["kbps"], timeout_s=20, what="the push")
        wait_for(lambda: call(there, "GET", "pushed")["state"] == "live", timeout_s=20, what="it there")

        call(here, "PUT", "back/pull", {"url": f"{there.rtmp}/live/pushed", "when": "always"})
        wait_for(lambda: call(here, "GET", "back")["state"] == "live", timeout_s=20, what="what is pulled")
        wait_for(lambda: call(here, "GET", "back/pull")["state"] == "live", timeout_s=20, what="its state")
        found = call(here, "GET", "back")
        assert found["encoder"] == f"Pull: {there.rtmp}/live/pushed"
        session = here.get(f"/api/v1/sessions/{found['session_id']}")
        assert session["encoder"] == f"Pull: {there.rtmp}/live/pushed"

        call(here, "PUT", "asked/pull", {"url": f"{there.rtmp}/live/pushed", "when": "demand"})
        assert call(here, "GET", "asked")["state"] == "offline"
        with program("ffmpeg", "-i", f"{here.rtmp}/live/asked", "-t", "3", "-f", "null", "-"):
            wait_for(lambda: call(here, "GET", "asked")["state"] == "live", timeout_s=20, what="what is asked for")
        wait_for(lambda: call(here, "GET", "asked")["state"] == "offline", timeout_s=40, what="its end, after a while")
        assert httpx.get(call(here, "GET", "asked")["hls_url"], timeout=30).status_code == 200, "a viewer asks as well"
        wait_for(lambda: call(here, "GET", "asked")["state"] == "live", timeout_s=5, what="the node's next tick")
        call(here, "DELETE", "asked/pull")

        call(here, "POST", f"cam/pushes/{pk}/stop")
        wait_for(lambda: call(there, "GET", "pushed")["state"] != "live", timeout_s=20, what="the end there")
        wait_for(lambda: call(here, "GET", "back")["state"] != "live", timeout_s=20, what="the end of the pull")
        call(here, "POST", f"cam/pushes/{pk}/start")
        wait_for(lambda: call(here, "GET", "back")["state"] == "live", timeout_s=30, what="both again")
        call(here, "DELETE", "back/pull")
        wait_for(lambda: call(here, "GET", "back")["state"] != "live", timeout_s=20, what="the end of the pull")
        events = here.items(f"/api/v1/sessions/{call(here, 'GET', 'cam')['session_id']}/events")
        kinds = [event["kind"] for event in events if event["kind"].startswith("push.")]
        assert {"push.failed", "push.live", "push.stopped"} <= set(kinds)
        assert theirs not in str(events)
    assert not [line for line in here.lines if theirs in line]
