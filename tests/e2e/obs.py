"""OBS without a screen: its configuration in a folder of its own, and the X server that its window is on.

It has no commands to start and stop with: it publishes when it starts, and stops by its output timer.
"""

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.background import Background
from tests.tools import require_tool

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
    "global.ini": f"""
        [General]
        FirstRun=true
        LastVersion={LAST_VERSION}
        InfoIncrement=99999
        [Basic]
        Profile={NAME}
        ProfileDir={NAME}
        SceneCollection={NAME}
        SceneCollectionFile={NAME}
        [BasicWindow]
        PreviewEnabled=false
    """,
    f"basic/profiles/{NAME}/basic.ini": f"""
        [General]
        Name={NAME}
        [Video]
        BaseCX={WIDTH}
        BaseCY={HEIGHT}
        OutputCX={WIDTH}
        OutputCY={HEIGHT}
        FPSType=1
        FPSInt={FPS}
        [Output]
        Mode=Simple
        Reconnect=true
        RetryDelay=1
        MaxRetries=20
        [SimpleOutput]
        StreamEncoder=x264
        VBitrate=200
        ABitrate=64
        UseAdvanced=true
        Preset=ultrafast
        x264Settings=keyint={FPS}
    """,
}
"""{file: what is in it}: no wizard and no news at the start, a second until it connects again, a keyframe a second."""


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
    for name, text in SETTINGS.items():
        file = folder / name
        file.parent.mkdir(parents=True)
        file.write_text(dedent(text))
    settings = {"server": server, "key": key, "use_auth": bool(login), **login}
    service = {"type": "rtmp_custom", "settings": settings}
    (folder / f"basic/profiles/{NAME}/service.json").write_text(json.dumps(service))
    scenes = folder / f"basic/scenes/{NAME}.json"
    scenes.parent.mkdir()
    scenes.write_text(json.dumps(collection(stop_after_s)))


def collection(stop_after_s: int) -> dict[str, Any]:
    """A scene of one colour."""
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
