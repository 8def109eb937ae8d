"""OBS publishes, is refused, and comes back by itself when it was dropped.

It runs without a screen, with its configuration in a folder of its own, and has no commands to start and stop with: it
publishes when it starts, and stops by its output timer.
"""

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.background import Background
from tests.e2e.test_clients import assert_no_fault, recorded
from tests.media import is_run_of, of_kind, read_packets
from tests.programs import Keys
from tests.rtmpdecode import decode_stream
from tests.server_process import ServerProcess, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120)]

NAME = "Tests"
"""Of its profile, and of its collection of scenes."""
ENCODER = "FMLE/3.0 (compatible; FMSc/1.0)"
"""What it says that it is."""
CALLED = "obs-output module"
"""How its metadata say so."""
WIDTH, HEIGHT, FPS = 320, 180, 10

LAST_VERSION = 0x1D000002
"""29.0.2: of a newer one that was here before, or of none, it would tell what is new."""
STARTED, STOPPED = "==== Streaming Start", "==== Streaming Stop"
"""What its log says when a stream is accepted, and when it gives one up or has ended it."""
RECONNECTING = "Reconnecting"

SETTINGS = {
    "global.ini": {
        "General": f"FirstRun=true LastVersion={LAST_VERSION} InfoIncrement=99999",
        "Basic": f"Profile={NAME} ProfileDir={NAME} SceneCollection={NAME} SceneCollectionFile={NAME}",
        "BasicWindow": "PreviewEnabled=false",
    },
    f"basic/profiles/{NAME}/basic.ini": {
        "General": f"Name={NAME}",
        "Video": f"BaseCX={WIDTH} BaseCY={HEIGHT} OutputCX={WIDTH} OutputCY={HEIGHT} FPSType=1 FPSInt={FPS}",
        "Output": "Mode=Simple Reconnect=true RetryDelay=1 MaxRetries=20",
        "SimpleOutput": "StreamEncoder=x264 VBitrate=200 ABitrate=64 UseAdvanced=true Preset=ultrafast "
        f"x264Settings=keyint={FPS}",
    },
}
"""{file: its sections}: no wizard and no news at the start, a second until it connects again, a keyframe a second."""


class Screen(Background):
    """An X server in memory; `display` is what programs find it by, such as :1. It takes the first that is free."""

    def __init__(self, folder: Path) -> None:
        command = [require_tool("Xvfb"), "-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp"]
        super().__init__("xvfb", command, folder=folder, ready=lambda: bool(self.display))

    @property
    def display(self) -> str:
        found = re.search(r"^(\d+)\n", self.log, re.MULTILINE)
        return f":{found.group(1)}" if found else ""


class Obs(Background):
    """Publishes a coloured picture and silence from its start on. It is ready when it has been accepted or refused."""

    def __init__(
        self, folder: Path, screen: Screen, server: str, key: str, *, stop_after_s: int = 0, **login: str
    ) -> None:
        """`server`, `key`, and `username` and `password` if there are any: as its settings ask for them.
        `stop_after_s`: of publishing, 0 for never."""
        configure(folder / "obs-studio", server, key, stop_after_s, login)
        super().__init__(
            "obs",
            [require_tool("obs"), "--startstreaming", "--multi", "--minimize-to-tray", "--disable-missing-files-check"],
            folder=folder,
            ready=lambda: STARTED in self.log or STOPPED in self.log,
            environment={
                **{name: str(folder) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")},
                "DISPLAY": screen.display,
                "https_proxy": "http://127.0.0.1:9",  # It asks its makers for a list of services: here nobody answers.
            },
        )


def configure(folder: Path, server: str, key: str, stop_after_s: int, login: dict[str, str]) -> None:
    for name, sections in SETTINGS.items():
        file = folder / name
        file.parent.mkdir(parents=True)
        file.write_text("".join(f"[{section}]\n{words}\n".replace(" ", "\n") for section, words in sections.items()))
    settings = {"server": server, "key": key, "use_auth": bool(login), **login}
    service = {"type": "rtmp_custom", "settings": settings}
    (folder / f"basic/profiles/{NAME}/service.json").write_text(json.dumps(service))
    scenes = folder / f"basic/scenes/{NAME}.json"
    scenes.parent.mkdir()
    scenes.write_text(json.dumps(collection(stop_after_s)))


def collection(stop_after_s: int) -> dict[str, Any]:
    item = {"id": 1, "name": "Colour", "visible": True, "pos": {"x": 0, "y": 0}, "scale": {"x": 1, "y": 1}}
    colour = {"color": 0xFFCC8844, "width": WIDTH, "height": HEIGHT}
    timer = {"streamTimerHours": 0, "streamTimerMinutes": 0, "streamTimerSeconds": stop_after_s}
    return {
        "name": NAME,
        "current_scene": "Scene",
        "current_program_scene": "Scene",
        "scene_order": [{"name": "Scene"}],
        "sources": [
            {"id": "scene", "name": "Scene", "settings": {"id_counter": 1, "items": [item]}},
            {"id": "color_source_v3", "name": "Colour", "settings": colour},
        ],
        "modules": {"output-timer": {**timer, "autoStartStreamTimer": stop_after_s > 0}},
    }


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


@pytest.mark.journey
@pytest.mark.slow("OBS streams in real time")
def test_obs_stream_reaches_a_player_unchanged_until_obs_stops(
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
        payloads = [message.payload[header_bytes:] for message in sent if message.type_id == type_id]
        assert len(packets) > FPS // 2
        assert is_run_of(packets, payloads) == 1
    # OBS unpublishes and closes at once: what it has not read by then, such as an acknowledgement, makes its close a
    # reset, which may overtake the command.
    ended = server.wait_for_end("live/obs")
    assert ended["end_reason"] in ("client_unpublish", "tcp_reset")
    assert str(ended["encoder"]).startswith(CALLED)
    assert RECONNECTING not in obs.log


@pytest.mark.journey
def test_obs_with_a_refused_key_shows_the_reason_and_does_not_retry(server: ServerProcess, start: Start) -> None:
    def refused() -> int:
        attempts = server.items("/api/v1/attempts?reason=key_unknown")
        return sum(attempt["encoder"] == ENCODER for attempt in attempts)

    obs = start("rk_ThisKeyIsWrong0123456789abcdefgh")
    assert STARTED not in obs.log
    assert "NetStream.Publish.Denied (The stream key is not known.)" in obs.log
    assert RECONNECTING not in obs.log
    wait_for(lambda: refused() == 1, timeout_s=5, what="the attempt")
    assert obs.running


def test_obs_reconnects_after_a_kick(server: ServerProcess, keys: Keys, start: Start) -> None:
    obs = start(keys["obs-dropped"]["key"])
    first = server.wait_for_state("live/obs-dropped", "live")["session_id"]
    assert server.request("/api/v1/streams/live/obs-dropped/kick", method="POST")[0] == 202

    def again() -> str | None:
        found = server.stream("live/obs-dropped")
        return str(found["session_id"]) if found["state"] == "live" and found["session_id"] != first else None

    second = wait_for(again, timeout_s=20, what="OBS is live again")
    assert RECONNECTING in obs.log
    assert server.session(first)["end_reason"] == "kicked"
    packets = read_packets(f"{server.rtmp}/live/obs-dropped", limit=FPS)
    assert {packet.kind for packet in packets} == {"video", "audio"}
    assert server.stream("live/obs-dropped")["session_id"] == second


def test_obs_publishes_with_user_and_password(server: ServerProcess, start: Start) -> None:
    server.manage("application", "set", "studio", "--encoder-login", "on")
    login = server.manage_json("encoderlogin", "create", "studio/obs", "--user", "obs-at-home")
    obs = start("obs", app="studio", username="obs-at-home", password=login["password"])
    server.wait_for_state("studio/obs", "live")
    assert STOPPED not in obs.log
