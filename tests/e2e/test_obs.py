"""OBS publishes, is refused, and comes back by itself when it was dropped."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.obs import CALLED, ENCODER, FPS, HEIGHT, RECONNECTING, STARTED, STOPPED, WIDTH, Obs, Screen
from tests.e2e.programs import Keys
from tests.media import is_run_of, of_kind, read_packets
from tests.rtmpdecode import decode_stream
from tests.server_process import ServerProcess, wait_for
from tests.wiretap.proxy import recorded
from tests.wiretap.tshark import assert_no_fault

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120)]

PUBLISHES_S = 8
PACKETS = 80
"""About a second and a half of audio and video."""


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    started = Screen(tmp_path_factory.mktemp("screen"))
    started.start()
    yield started
    started.stop()


Start = Callable[..., Obs]


@pytest.fixture
def start(server: ServerProcess, screen: Screen, tmp_path: Path) -> Iterator[Start]:
    """Starts OBS with a key, and returns when the server has answered."""
    with ExitStack() as stack:

        def begin(key: str, rtmp: str = server.rtmp, *, app: str = "live", **settings: Any) -> Obs:
            obs = Obs(tmp_path, screen, f"{rtmp}/{app}", key, **settings)
            stack.callback(obs.stop)
            obs.start()
            return obs

        yield begin


@pytest.mark.slow("real programs publish and play, in real time")
def test_what_it_publishes_reaches_a_player_until_it_stops(
    server: ServerProcess, keys: Keys, start: Start, tmp_path: Path
) -> None:
    with recorded(server.rtmp) as proxy:
        with ThreadPoolExecutor(1) as pool:
            # It is there before OBS, which does not publish for long.
            reading = pool.submit(read_packets, f"{server.rtmp}/live/obs", limit=PACKETS, timeout_s=60)
            wait_for(lambda: server.stream("live/obs")["players"] == 1, timeout_s=30, what="the player waits")
            obs = start(keys["obs"]["key"], proxy.url, stop_after_s=PUBLISHES_S)
            live = server.wait_for_state("live/obs", "live")
            received = reading.result(60)
        wait_for(lambda: STOPPED in obs.log, timeout_s=30, what="OBS has stopped")
    assert live["encoder"].startswith(CALLED)
    assert (live["video_codec"], live["audio_codec"]) == ("H.264", "AAC-LC")
    assert (live["width"], live["height"]) == (WIDTH, HEIGHT)
    (connection,) = proxy.connections
    assert_no_fault(tmp_path / "obs.pcap", [connection])
    sent = decode_stream(connection.sent(from_client=True))
    for kind, type_id, header_bytes in (("video", 9, 5), ("audio", 8, 2)):
        packets = of_kind(received, kind)
        assert len(packets) > FPS // 2
        assert (
            is_run_of(packets, [message.payload[header_bytes:] for message in sent if message.type_id == type_id]) == 1
        )

    def session() -> dict[str, object] | None:
        found = server.items("/api/v1/sessions?app=live&name=obs&kind=publish")
        return found[0] if found and found[0]["ended_at"] else None

    # OBS unpublishes and closes at once: what it has not read by then, such as an acknowledgement, makes its close a
    # reset, which may overtake the command.
    ended = wait_for(session, timeout_s=20, what="the session has ended")
    assert ended["end_reason"] in ("client_unpublish", "tcp_reset")
    assert str(ended["encoder"]).startswith(CALLED)
    assert RECONNECTING not in obs.log


def test_a_refused_key_is_told_and_not_tried_again(server: ServerProcess, start: Start) -> None:
    def refused() -> int:
        attempts = server.items("/api/v1/attempts?reason=key_unknown")
        return sum(attempt["encoder"] == ENCODER for attempt in attempts)

    obs = start("rk_ThisKeyIsWrong0123456789abcdefgh")
    assert STARTED not in obs.log
    assert "NetStream.Publish.Denied (The stream key is not known.)" in obs.log
    assert RECONNECTING not in obs.log
    wait_for(lambda: refused() == 1, timeout_s=5, what="the attempt")
    assert obs.running


@pytest.mark.slow("real programs publish and play, in real time")
def test_it_comes_back_when_the_server_dropped_it(server: ServerProcess, keys: Keys, start: Start) -> None:
    obs = start(keys["obs-dropped"]["key"])
    first = server.wait_for_state("live/obs-dropped", "live")["session_id"]
    status, _ = server.request("/api/v1/streams/live/obs-dropped/kick", method="POST")
    assert status == 202

    def again() -> str | None:
        found = server.stream("live/obs-dropped")
        return str(found["session_id"]) if found["state"] == "live" and found["session_id"] != first else None

    second = wait_for(again, timeout_s=20, what="OBS is live again")
    assert RECONNECTING in obs.log
    ended = server.request(f"/api/v1/sessions/{first}")[1]
    assert ended["end_reason"] == "kicked"
    packets = read_packets(f"{server.rtmp}/live/obs-dropped", limit=FPS)
    assert {packet.kind for packet in packets} == {"video", "audio"}
    assert server.stream("live/obs-dropped")["session_id"] == second


def test_it_logs_in_by_user_and_password(server: ServerProcess, start: Start) -> None:
    server.manage("application", "set", "studio", "--encoder-login", "on")
    login = server.manage_json("encoderlogin", "create", "studio/obs", "--user", "obs-at-home")
    obs = start("obs", app="studio", username="obs-at-home", password=login["password"])
    server.wait_for_state("studio/obs", "live")
    assert STOPPED not in obs.log
