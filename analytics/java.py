"""Finds the Java that Spark needs: JAVA_HOME first, then PATH."""

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

NEEDED = 17
INSTALL = (
    f"Analytics needs Java {NEEDED} or newer. Install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@21) or set JAVA_HOME, "
    "then start the server again."
)


class JavaMissing(Exception):  # noqa: N818
    """No Java, or one that is too old; the text says which and what to install."""


def find_java() -> Path:
    """The home folder of a Java that is new enough. Raises JavaMissing."""
    return _find(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


@lru_cache(maxsize=4)
def _find(home: str, path: str) -> Path:
    rejected = []
    for origin, program in (
        ("JAVA_HOME", str(Path(home) / "bin" / "java") if home else None),
        ("PATH", shutil.which("java", path=path)),
    ):
        if program is None:
            continue
        major = _version(program)
        if major is not None and major >= NEEDED:
            return Path(program).resolve().parent.parent
        rejected.append(f"{origin} has {f'Java {major}' if major else 'no working Java'}")
    found = "; ".join(rejected) or "none was found by JAVA_HOME or PATH"
    raise JavaMissing(f"{INSTALL} Now {found}.")


def _version(program: str) -> int | None:
    """The major version that `java -version` tells: 17 of "17.0.15", 8 of "1.8.0_392"."""
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=20, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match[1]) if match else None
