"""A Redis server of its own on a free port, which may be stopped and started again."""

import socket
import subprocess
from pathlib import Path

from tests.tools import require_tool


class RedisServer:
    def __init__(self, folder: Path) -> None:
        """Skips the test where Redis is not installed."""
        self._program = require_tool("redis-server")
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                *(self._program, "--port", str(self._port), "--bind", "127.0.0.1"),
                *("--save", "", "--dir", str(self._folder)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert any("eady to accept connections" in line for line in self._process.stdout)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None
