"""A Redis server of its own on a free port, which may be stopped and started again."""

from pathlib import Path

from tests.background import Background, free_port
from tests.tools import require_tool


class RedisServer(Background):
    def __init__(self, folder: Path, *, keeps: bool = False) -> None:
        """`keeps`: its data outlives it, as in production. Skips the test where Redis is not installed."""
        self.port = free_port()
        where = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder)
        command = [require_tool("redis-server"), *where, "--save", "", "--appendonly", "yes" if keeps else "no"]
        super().__init__("redis", command, folder=folder, ready="eady to accept connections")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"
