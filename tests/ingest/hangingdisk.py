"""A disk that gives no answer until it is let go, as one of a network whose server is gone."""

import shutil
import threading
from typing import Any

import pytest

GIVES_UP_S = 10.0
"""So that who does wait for it fails, and not the whole run."""


class HangingDisk:
    """What `shutil.disk_usage` asks, while it `hangs`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting = 0
        """Who waits for an answer."""
        self._answers = threading.Event()
        self._ask = shutil.disk_usage
        monkeypatch.setattr(shutil, "disk_usage", self._usage)

    def hang(self) -> None:
        self._answers.clear()

    def let_go(self) -> None:
        self._answers.set()

    def _usage(self, folder: Any) -> Any:
        self.waiting += 1
        try:
            self._answers.wait(GIVES_UP_S)
        finally:
            self.waiting -= 1
        return self._ask(folder)
