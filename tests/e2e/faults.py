"""How long each fault takes to be on the wall: encoders, networks, players and keys fail for real, on one server.

The wall is open in Chromium, which keeps when each fault was first shown; a time counts from when its cause began. A
check that is not evaluated in a session's first seconds gets its fault after them. `python -m tests.e2e.faults`
prints the table; the exit code is 1 if a fault takes longer than it may.
"""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ingest.live.health.engine import WARM_UP_S
from tests.e2e.night import AUDIO_UNTIL_S, JUMP_AFTER_S, KBPS, Night, at_night
from tests.programs import publishing
from tests.rtmp_client import RtmpClient
from tests.server_process import wait_for

BEGIN_S = WARM_UP_S + 2
"""On air, until what fails fails."""
LONGEST_S = 60.0
"""What is not shown by then is not shown."""
COLLAPSED = 0.29
"""Of what is sent, what the network lets through."""

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
"""Keeps when what each selector finds, with its text, was first seen."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Of the stream that is called as it is. `begin` brings it about; None: its clip does, `at_s` on air."""

    what: str
    bar_s: float
    shown: str
    """A selector: what the wall has then."""
    begin: Callable[[Night, str], None] | None = None
    text: str = ""
    at_s: float = BEGIN_S


def _issue(name: str, check: str) -> str:
    return f'[data-stream="live/{name}"] li[data-check="{check}"]'


def _silence(night: Night, name: str) -> None:
    night.uplinks[name].silence()


def _collapse(night: Night, name: str) -> None:
    night.uplinks[name].limit(COLLAPSED * (KBPS + 128) * 1000 / 8)


def _kill(night: Night, name: str) -> None:
    night.programs[name].kill()


def _use_wrong_key(night: Night, name: str) -> None:
    url = f"{night.server.rtmp}/live/{name}?key=wrong"
    subprocess.run(publishing(night.clips[name], url), capture_output=True, timeout=60, check=False)


def _read_nothing(night: Night, name: str) -> None:
    """A player whose network stands still: it begins, and takes nothing any more, until the script ends."""

    async def play() -> None:
        async with RtmpClient(port=night.server.rtmp_port, timeout_s=20) as client:
            await client.connect("live")
            await client.play(name)
            client.pause_reading()
            await asyncio.Event().wait()

    threading.Thread(target=lambda: asyncio.run(play()), daemon=True).start()


FAULTS: Mapping[str, Fault] = {
    "silent": Fault("The encoder's network falls silent", 2, _issue("silent", "starving"), _silence),
    "killed": Fault("The encoder is killed", 3, '[data-stream="live/killed"][data-state="dropped"]', _kill),
    "jump": Fault("Timestamps jump by 30 s", 8, _issue("jump", "ts_discontinuity"), at_s=JUMP_AFTER_S),
    "mute": Fault("Sound stops", 10, _issue("mute", "no_audio"), at_s=AUDIO_UNTIL_S),
    "slow": Fault(
        f"The network carries {COLLAPSED:.0%} of the bitrate",
        4,
        ", ".join(_issue("slow", check) for check in ("bitrate_low", "drift", "fps_low")),
        _collapse,
    ),
    "gop": Fault("Keyframes 11 s apart, from the begin", 20, _issue("gop", "gop_long"), at_s=0),
    "key": Fault("A wrong key", 2, '#strip [data-item="refused"]', _use_wrong_key),
    "player": Fault(
        "A player takes nothing any more",
        4,
        '[data-stream="live/player"] [data-field="players"]',
        _read_nothing,
        text="slow",
    ),
}
"""By the stream that has it."""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = _measured(Path(folder))
    sys.stdout.write(f"{_table(found)}\n")
    return 0 if all(_is_kept(fault, found.get(name)) for name, fault in FAULTS.items()) else 1


def _measured(folder: Path) -> dict[str, float]:
    """{fault: seconds from its cause until the wall showed it}, of those that it did show."""
    uplinks = [name for name, fault in FAULTS.items() if fault.begin in (_silence, _collapse)]
    with at_night(folder, FAULTS, uplinks=uplinks) as night:
        wall = night.pages[""]
        wall.evaluate(WATCH, {name: [fault.shown, fault.text] for name, fault in FAULTS.items()})
        causes = {name: night.began[name] + fault.at_s for name, fault in FAULTS.items()}
        for name in sorted(causes, key=causes.__getitem__):
            begin = FAULTS[name].begin
            if begin is not None:
                wait_for(partial(_is_past, causes[name]), timeout_s=30, what="the moment of a cause")
                causes[name] = time.time()
                begin(night, name)

        def seen() -> dict[str, float] | None:
            shown: dict[str, float] = wall.evaluate("window.shown")
            return shown if len(shown) == len(FAULTS) else None

        with contextlib.suppress(AssertionError):
            wait_for(seen, timeout_s=LONGEST_S, what="all faults are shown")
        shown = wall.evaluate("window.shown")
        return {name: shown[name] - causes[name] for name in FAULTS if name in shown}


def _is_past(moment: float) -> bool:
    return time.time() >= moment


def _is_kept(fault: Fault, after_s: float | None) -> bool:
    return after_s is not None and after_s <= fault.bar_s


def _table(found: Mapping[str, float]) -> str:
    lines = ["| Fault | Shown after, s | At most, s | |", "|---|---|---|---|"]
    for name, fault in FAULTS.items():
        after_s = found.get(name)
        said = "not shown" if after_s is None else f"{after_s:.1f}"
        lines.append(f"| {fault.what} | {said} | {fault.bar_s:g} | {'yes' if _is_kept(fault, after_s) else 'no'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
