"""`make test`: what could not be tested is said where one looks, at the end."""

import re
import tempfile
import time
from pathlib import Path
from unittest import SkipTest

import pytest

from tests.suite import quick, stages
from tests.suite.stages import STAGES, Stage
from tests.suite.waits import long_waits
from tests.tools import find_tool, require_tool

QUICK = "tests/rtmpweb/test_env.py::test_the_data_folder_is_this_runs_own"


PYTEST = "it runs pytest in processes of its own"


@pytest.mark.slow(PYTEST)
def test_a_stage_that_cant_run_is_named_and_counted_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    both = (Stage("The first", "not soak", needs=("redis-server",)), Stage("The last", "not soak"))
    assert stages.main("1", [QUICK, "-q"], both) == 0
    last = capfd.readouterr().out.partition("The last:")[2]
    assert "needs redis-server (Debian packages)\n  the whole stage: The first" in last
    assert "1 passed, 1 skipped" in last.rstrip().splitlines()[-1]


SLOW = """
import pytest

def test_long() -> None: ...

@pytest.mark.slow("it is what is tested")
def test_long_for_a_reason() -> None: ...
"""


@pytest.mark.slow(PYTEST)
def test_what_takes_long_without_a_reason_fails_and_the_costs_are_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "test_slow.py"
    file.write_text(SLOW)
    monkeypatch.setenv("TESTS_LONGEST_S", "1e-9")
    given = [str(file), "-q", f"--rootdir={tmp_path}", "-p", "no:cacheprovider"]
    assert stages.main("2", given, (Stage("The only one", "not soak"),)) == 1
    said = capfd.readouterr().out
    assert "The call took 0.0 s" in said
    told = said.partition("what the tests cost")[2]
    assert re.search(r"\d s of processor time .* 2 tests: The only one", told)
    assert "it is what is tested:\n  test_slow.py::test_long_for_a_reason\n" in told
    assert "1 failed, 1 passed" in told.rstrip().splitlines()[-1]
    assert re.search(r"^FAILED \S*test_slow.py::test_long$", told, re.MULTILINE)


@pytest.mark.slow(PYTEST)
def test_a_stage_beside_the_last_is_told_before_its_end_and_counted(capfd: pytest.CaptureFixture[str]) -> None:
    both = (Stage("The one beside", "not soak", workers=1, is_beside=True), Stage("The last", "not soak"))
    assert stages.main("1", [QUICK, "-q", "--durations-min=0"], both) == 0
    said = capfd.readouterr().out
    assert "1 passed" in said.partition("what the tests cost")[0]
    assert "2 passed" in said.rstrip().splitlines()[-1]
    assert re.search(r" 1 tests: The one beside\n.* 1 tests: The last\n", said)
    assert len(re.findall(r"s call .*::test_the_data_folder", said.partition("slowest")[2])) == 2


@pytest.mark.slow(PYTEST)
def test_a_failure_of_a_stage_beside_the_last_is_the_suites(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("import os\ndef test_it() -> None:\n    assert 'TESTS_FORM' not in os.environ\n")
    given = [str(file), "-q", f"--rootdir={tmp_path}", "-p", "no:cacheprovider"]
    beside = Stage("The one beside", "not soak", workers=1, is_beside=True, environment={"TESTS_FORM": "failing"})
    assert stages.main("1", given, (beside, Stage("The last", "not soak"))) == 1
    assert capfd.readouterr().err.splitlines()[-1] == "The one beside: pytest ended with 1"


@pytest.mark.parametrize(
    ("code", "seconds"),
    [
        ("time.sleep(5)", [5]),
        ("sleep(4.9)", []),
        ("page.wait_for_timeout(3000 + 2000)", [5]),
        ("AWAY_S = 6.0\nawait_ = asyncio.sleep(AWAY_S)", [6]),
        ("FPS = 25\ntime.sleep(1 / FPS)", []),
        ("time.sleep(random.uniform(0, 8))", [8]),
        ("time.sleep(until - 10)", []),
        ("@pytest.mark.slow('why')\ndef test_it():\n    time.sleep(9)", []),
        ("pytestmark = [pytest.mark.slow('why')]\ntime.sleep(9)", []),
    ],
)
def test_a_wait_of_a_fixed_length_is_found(tmp_path: Path, code: str, seconds: list[float]) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(code)
    assert [wait.seconds for wait in long_waits(file)] == seconds


def test_no_test_waits_long_for_nothing_but_time() -> None:
    """What goes on for long is in tests/soak, or marked as slow, with the reason."""
    files = [file for file in Path("tests").rglob("*.py") if not file.is_relative_to("tests/soak")]
    assert len(files) > 100
    assert [str(wait) for file in files for wait in long_waits(file)] == []


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        ("ingest/rtmp/chunk_reader.py", "tests/ingest/rtmp/test_chunk_reader.py"),
        ("tests/rtmpweb/test_env.py", "tests/rtmpweb/test_env.py"),
        ("templates/dashboard/system.html", "tests/dashboard/test_system.py"),
        ("dashboard/alerts/evaluation.py", "tests/dashboard/alerts/test_alerts.py"),
        ("rtmpweb/env.py", "tests/rtmpweb/test_env.py"),
        ("docs/api.md", ""),
        ("README.md", ""),
    ],
)
def test_the_tests_nearest_to_a_change_come_first_and_documents_have_none(changed: str, first: str) -> None:
    file = quick.ROOT / changed
    assert file.exists()
    found = [str(test.relative_to(quick.ROOT)) for test in quick.tests_near([file])]
    assert found[:1] == ([first] if first else [])
    assert len(found) == len(set(found))


@pytest.mark.slow(PYTEST)
def test_when_its_time_is_over_no_quick_test_begins(capfd: pytest.CaptureFixture[str]) -> None:
    files = [quick.ROOT / QUICK.partition("::")[0]]
    assert quick.test(files, until=time.time() + 100) == 0
    assert re.search(r"^\d+ passed in", capfd.readouterr().out, re.MULTILINE)
    assert quick.test(files, until=time.time()) == 0
    assert re.search(r"^\d+ skipped in", capfd.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("mark", ["measures_time", "alone", "both_forms"])
def test_what_is_marked_is_where_its_stage_looks(mark: str) -> None:
    (stage,) = (stage for stage in STAGES if stage.marks == mark)
    marked = [file for file in Path("tests").rglob("test_*.py") if re.search(rf"mark\.{mark}\b", file.read_text())]
    assert marked
    assert [file for file in marked if not any(file.is_relative_to(path) for path in stage.paths)] == []


@pytest.mark.parametrize(
    ("program", "plugin", "package"),
    [("gst-launch-1.0", "rtmp2sink", "gstreamer1.0-plugins-bad"), ("cvlc", "avio", "vlc-plugin-base")],
)
def test_a_program_without_its_plugin_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, program: str, plugin: str, package: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # VLC is asked by somebody else.
        for file in (folder / program, folder / "gst-inspect-1.0"):
            file.write_text("#!/bin/sh\nexit 1\n")
            file.chmod(0o755)
        monkeypatch.setenv("PATH", name)
        assert find_tool(program)
        with pytest.raises(SkipTest, match=f"needs {plugin} .*{package}"):
            require_tool(plugin)
