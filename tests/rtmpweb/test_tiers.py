"""How the tests are run: the summary of all runs, and programs that are missing."""

import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import SkipTest

import pytest

from tests import summary
from tests.server_process import ROOT
from tests.tools import find_tool, require_tool

TESTS = """
import time
import pytest

@pytest.fixture
def broken():
    yield
    raise OSError("the teardown fails, too")

def test_passes(): ...

def test_fails(broken):
    assert False

@pytest.mark.skip("needs a moon")
def test_is_skipped(): ...

@pytest.mark.slow("a reason")
def test_is_slow(): ...
"""


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """The report of one real run of the tests above, next to one of node's own runner."""
    (tmp_path / "test_it.py").write_text(TESTS)
    folder = tmp_path / "reports"
    options = ["-q", "-p", "no:django", "-p", "tests.conftest", "-o", "addopts=", "-o", "markers=slow", "-n", "2"]
    report = f"--junitxml={folder / 'first.xml'}"
    command = [sys.executable, "-m", "pytest", *options, f"--rootdir={tmp_path}", report, str(tmp_path / "test_it.py")]
    subprocess.run([*command, "--dist", "loadgroup"], cwd=ROOT, capture_output=True, check=False)
    (folder / "second.xml").write_text('<testsuites><testcase name="duration" time="6" classname="test"/></testsuites>')
    return folder


def test_summary_counts_every_run_and_names_what_failed_or_was_skipped(
    reports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert summary.main(reports, 0) == 1
    said = capsys.readouterr().out.rstrip().splitlines()
    assert said[-1] == "3 passed, 1 failed, 1 skipped"
    assert "  first: 4 tests, 0 s" in said
    assert "  second: 1 tests, 6 s" in said
    assert said[said.index("Skipped (1):") + 1].endswith("test_it::test_is_skipped: needs a moon")
    assert said[said.index("Failed (1):") + 1].endswith("test_it::test_fails")
    assert said[said.index("Slow for a reason (1):") + 1].endswith("test_it::test_is_slow: a reason")
    assert said[said.index("Over 5 s without a reason (1):") + 1] == "  6.0 s test::duration"


TOO_MANY = "".join(
    f'<testcase name="{number}"><properties><property name="slow" value="x"/></properties></testcase>'
    for number in range(summary.MAX_SLOW + 1)
)


@pytest.mark.parametrize(
    ("cases", "code", "exit_code", "why"),
    [
        ('<testcase name="a" time="1"/>', 0, 0, ""),
        ('<testcase name="a" time="1"/>', 1, 1, "A run ended"),
        ("", 0, 1, "A run ended"),
        ('<testcase name="a" time="1"><error/></testcase>', 0, 1, "Failed (1):"),
        (TOO_MANY, 0, 1, f"{summary.MAX_SLOW + 1} tests are marked slow"),
    ],
    ids=["all passed", "a run ended badly", "no test", "an error", "too many slow tests"],
)
def test_summary_exit_code_is_1_with_the_reason_unless_all_is_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cases: str, code: int, exit_code: int, why: str
) -> None:
    (tmp_path / "run.xml").write_text(f"<testsuite>{cases}</testsuite>")
    assert summary.main(tmp_path, code) == exit_code
    assert why in capsys.readouterr().out


@pytest.mark.parametrize(
    ("program", "plugin", "package"),
    [("gst-launch-1.0", "rtmp2sink", "gstreamer1.0-plugins-bad"), ("cvlc", "avio", "vlc-plugin-base")],
)
def test_program_without_its_plugin_skips_the_test_and_names_the_package(
    monkeypatch: pytest.MonkeyPatch, program: str, plugin: str, package: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # VLC refuses to be root, so another user starts it.
        for file in (folder / program, folder / "gst-inspect-1.0"):
            file.write_text("#!/bin/sh\nexit 1\n")
            file.chmod(0o755)
        monkeypatch.setenv("PATH", name)
        assert find_tool(program)
        with pytest.raises(SkipTest, match=f"needs {plugin} .*{package}"):
            require_tool(plugin)
