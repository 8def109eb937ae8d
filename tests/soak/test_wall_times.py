"""How long each fault takes to be on the wall: encoders, networks, players and keys fail for real, on one server:
`make soak ARGS="-k wall_times"`."""

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from ingest.live.health.engine import WARM_UP_S
from tests.e2e.test_two_am import AUDIO_UNTIL_S, JUMP_AFTER_S, KBPS, Night, at_night, wait_until
from tests.programs import publishing
from tests.rtmp_client import RtmpClient
from tests.server_process import wait_for

pytestmark = pytest.mark.soak

BEGIN_S = WARM_UP_S + 2
"""Time on air before a cause: some checks are not evaluated in the first seconds of a session."""
LONGEST_S = 60.0
COLLAPSED = 0.29
"""The share of the data that the network of `slow` lets through."""

WATCH = """faults => {
  window.shown = {};
  setInterval(() => {
    for (const [name, [selector, text]] of Object.entries(faults)) {
      const found = document.querySelector(selector);
      if (!(name in window.shown) && found?.checkVisibility() && found.textContent.includes(text))
        window.shown[name] = Date.now() / 1000;
    }
  }, 50);
}"""
"""Records when each selector first found an element with its text."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the stream that has its name."""

    bar_s: float
    shown: str
    """The selector of an element of the wall."""
    begin: Callable[[Night, str], None] | None = None
    """The cause. None: the stream's clip is the cause, `at_s` on air."""
    text: str = ""
    at_s: float = BEGIN_S


def issue(name: str, check: str) -> str:
    return f'[data-stream="live/{name}"] li[data-check="{check}"]'


def limit(night: Night, name: str, share: float) -> None:
    night.uplinks[name].limit(share * (KBPS + 128) * 1000 / 8)


def use_wrong_key(night: Night, name: str) -> None:
    url = f"{night.server.rtmp}/live/{name}?key=wrong"
    subprocess.run(publishing(night.clips[name], url), capture_output=True, timeout=60, check=False)


def read_nothing(night: Night, name: str) -> None:
    """Play in a thread that never reads."""

    async def play() -> None:
        async with RtmpClient(port=night.server.rtmp_port, timeout_s=20) as client:
            await client.connect("live")
            await client.play(name)
            client.pause_reading()
            await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(play()), daemon=True).start()


SLOW = ", ".join(issue("slow", check) for check in ("bitrate_low", "drift", "fps_low"))
FAULTS = {
    "silent": Fault(2, issue("silent", "starving"), partial(limit, share=0)),
    "killed": Fault(
        3, '[data-stream="live/killed"][data-state="dropped"]', lambda night, name: night.programs[name].kill()
    ),
    "jump": Fault(8, issue("jump", "ts_discontinuity"), at_s=JUMP_AFTER_S),
    "mute": Fault(10, issue("mute", "no_audio"), at_s=AUDIO_UNTIL_S),
    "slow": Fault(4, SLOW, partial(limit, share=COLLAPSED)),
    "gop": Fault(20, issue("gop", "gop_long"), at_s=0),
    "key": Fault(2, '#strip [data-item="refused"]', use_wrong_key),
    "player": Fault(4, '[data-stream="live/player"] [data-field="players"]', read_nothing, text="slow"),
}


@pytest.mark.timeout(300)
def test_each_fault_is_on_the_wall_within_its_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The times on a machine that does nothing else, as docs/health.md has them."""
    with at_night(tmp_path, FAULTS, uplinks=("silent", "slow")) as night:
        wall = night.pages[""]
        wall.evaluate(WATCH, {name: [fault.shown, fault.text] for name, fault in FAULTS.items()})
        causes = {name: night.began[name] + fault.at_s for name, fault in FAULTS.items()}
        for name in sorted(causes, key=causes.__getitem__):
            begin = FAULTS[name].begin
            if begin is not None:
                wait_until(causes[name])
                causes[name] = time.time()
                begin(night, name)
        with suppress(AssertionError):
            wait_for(
                lambda: len(wall.evaluate("window.shown")) == len(FAULTS), timeout_s=LONGEST_S, what="all are shown"
            )
        shown: dict[str, float] = wall.evaluate("window.shown")
    after_s = {name: shown[name] - causes[name] if name in shown else float("inf") for name in FAULTS}
    with capsys.disabled():
        for name, fault in FAULTS.items():
            print(f"\n{name}: {after_s[name]:.1f} s, at most {fault.bar_s:g} s", end="")  # noqa: T201
    assert {name: s for name, s in after_s.items() if s > FAULTS[name].bar_s} == {}
