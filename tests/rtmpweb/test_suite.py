"""`make test`: what could not be tested is said where one looks, at the end."""

import re
import tempfile
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests import suite
from tests.e2e import rounds
from tests.e2e.rounds import Plan, Round, Rounds
from tests.suite import STAGES, Stage
from tests.tools import find_tool, require_tool

QUICK = "tests/rtmpweb/test_test_settings.py::test_the_data_folder_is_this_runs_own"


def test_a_stage_that_cant_run_is_named_and_counted_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(
        suite,
        "STAGES",
        (
            Stage("The first", "not soak", needs=("redis-server",)),
            Stage("The last", "not soak"),
        ),
    )
    assert suite.main("1", [QUICK, "-q", "-p", "no:cacheprovider"]) == 0
    last = capfd.readouterr().out.partition("The last:")[2]
    assert "needs redis-server (Debian packages)\n  the whole stage: The first" in last
    assert "1 passed, 1 skipped" in last.rstrip().splitlines()[-1]


@pytest.mark.parametrize("mark", ["measures_time", "both_forms"])
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
        with pytest.raises(pytest.skip.Exception, match=f"needs {plugin} .*{package}"):
            require_tool(plugin)


def test_a_round_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "PLANS", {name: Plan("pyav", ()) for name in ("well", "ill")})
    played: dict[str, Future[Round]] = {"well": Future(), "ill": Future()}
    played["well"].set_result(Round({}, []))
    played["ill"].set_exception(TimeoutError())
    assert Rounds(played)["well"].connections == []
    with pytest.raises(TimeoutError):
        Rounds(played)["ill"]
