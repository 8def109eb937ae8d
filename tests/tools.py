"""Programs that some tests need. A test whose program is missing is skipped by name, with the package to install."""

import os
import shutil
from pathlib import Path

import pytest

MISSING = "needs "
"""How the reason of such a skip begins: the summary at the end of a run lists them."""

PACKAGES = {
    "ffmpeg": "ffmpeg",
    "ffprobe": "ffmpeg",
    "rtmpdump": "rtmpdump",
    "chromium": "chromium",
    "docker-compose": "docker-compose",
    "redis-server": "redis-server",
    "postgres": "postgresql",
    "java": "default-jre-headless",
}
"""{program: the Debian package that brings it}"""


def find_tool(name: str) -> str | None:
    """The program's path. PostgreSQL's own programs are not on Debian's PATH; Java may be where JAVA_HOME says."""
    folders = [os.environ.get("PATH", "")]
    if name == "postgres":
        folders += sorted((str(path) for path in Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    if name == "java" and (home := os.environ.get("JAVA_HOME")):
        folders.insert(0, str(Path(home) / "bin"))
    return shutil.which(name, path=os.pathsep.join(folders))


def require_tool(name: str) -> str:
    """The program's path, or the calling test (or fixture's tests) is skipped."""
    found = find_tool(name)
    if found is None:
        pytest.skip(f"{MISSING}{name} (Debian package {PACKAGES[name]})")
    return found
