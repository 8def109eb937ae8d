"""A PostgreSQL server of its own on a free port, which may be stopped and started again."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from tests.background import Background, free_port
from tests.tools import require_tool


class PostgresServer(Background):
    stop_signal = signal.SIGINT
    """PostgreSQL's fast shutdown: it ends its clients' connections and doesn't wait for them."""

    def __init__(self, folder: Path) -> None:
        """Makes an empty installation. `folder`: where its log goes. Skips the test where there is no PostgreSQL."""
        program = Path(require_tool("postgres"))
        user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root.
        self._data = Path(tempfile.mkdtemp(prefix="rtmpweb-pg-"))  # Where another user may enter.
        if user is not None:
            shutil.chown(self._data, user)
        data = ("-D", str(self._data / "data"))
        make = [str(program.with_name("initdb")), *data, "-U", "tester", "-A", "trust", "-N", "-E", "UTF8"]
        subprocess.run(make, user=user, cwd="/", check=True, capture_output=True)
        self.port = free_port()
        command = [str(program), *data, "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self._data), "-F"]
        ready = "ready to accept "  # A standby: read-only connections.
        super().__init__("postgres", command, folder=folder, ready=ready, user=user, cwd=Path("/"))

    @property
    def url(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def restart(self, *, standby: bool) -> None:
        """As the standby of a primary that is not there, which takes no writes; or as it was."""
        self.stop()
        mark = self._data / "data" / "standby.signal"
        if standby:
            mark.touch()
        else:
            mark.unlink(missing_ok=True)
        self.start()

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Ends it and deletes its data."""
        self.kill()
        shutil.rmtree(self._data, ignore_errors=True)
