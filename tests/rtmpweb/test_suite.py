"""`make test`: what could not be tested is said where one looks, at the end."""

import pytest

from tests import suite
from tests.suite import Stage

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
