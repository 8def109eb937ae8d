"""The benchmarks run where the server was installed to run: without the packages that only its tests need."""

import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from bench.analytics import duck
from tests.rtmpweb.processes import run

ROOT = Path(__file__).resolve().parent.parent.parent

WITHOUT = """
import json
import runpy
import sys
from importlib.machinery import PathFinder

absent = set(json.loads(sys.argv.pop(1)))

class Installed(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return None if fullname.partition(".")[0] in absent else super().find_spec(fullname, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Installed
"""
"""What is absent can't be found, as if it were not installed. The rest of the process's arguments are the code's."""

COMMAND_LINE = "runpy.run_module('bench', run_name='__main__', alter_sys=True)"

EVERY_MODULE = """
import django
django.setup()
from importlib import import_module
from pkgutil import walk_packages
import bench
for module in walk_packages(bench.__path__, "bench."):
    if not module.name.endswith("__main__"):
        import_module(module.name)
        print(module.name)
from bench.analytics import duck
from tests.rtmpweb.processes import run
print(duck.missing())
"""

PRODUCTION_FORM = """
from pathlib import Path
from bench.peers import rtmpweb
rtmpweb.FORMS["production"](None, Path(sys.argv[1]), {}).__enter__()
"""


@pytest.fixture(scope="module")
def absent() -> set[str]:
    """The names to import of what requirements/dev.lock has and requirements/base.lock has not."""
    base, dev = (locked(name) for name in ("base", "dev"))
    installed = packages_distributions()
    return {name for name, of in installed.items() if {normal(one) for one in of} <= dev - base}


def locked(lock: str) -> set[str]:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    return {normal(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE)}


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def start(absent: set[str], code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-c", WITHOUT + code, json.dumps(sorted(absent)), *arguments)
    return run(*words, environment=environment)


def test_hidden_packages_are_those_that_only_tests_need(absent: set[str]) -> None:
    assert {"pytest", "duckdb", "hypothesis", "mypy"} <= absent
    assert not {"django", "pyspark", "numpy", "uvloop", "psycopg"} & absent


def test_command_line_runs_without_the_test_packages(absent: set[str]) -> None:
    done = start(absent, COMMAND_LINE, "--help")
    assert done.returncode == 0, done.stderr
    assert "a minute in which nothing may be dropped or late" in done.stdout


def test_every_measurement_is_imported_without_the_test_packages(absent: set[str], tmp_path: Path) -> None:
    """DuckDB, with which `analytics` compares, is said to be missing, as nginx is."""
    settings = {"DJANGO_SETTINGS_MODULE": "rtmpweb.settings", "RTMPWEB_DATA_DIR": str(tmp_path)}
    done = start(absent, EVERY_MODULE, **settings)
    assert done.returncode == 0, done.stderr
    *modules, lacking = done.stdout.splitlines()
    assert {"bench.hold", "bench.dashboards", "bench.analytics.history", "bench.peers.rtmpweb"} <= set(modules)
    assert lacking.startswith("DuckDB is not there: ")
    assert duck.missing() is None


def test_a_form_without_its_programs_says_which(absent: set[str], tmp_path: Path) -> None:
    done = start(absent, PRODUCTION_FORM, str(tmp_path), PATH="/nowhere")
    assert done.returncode == 1
    assert done.stderr == "The production form needs redis-server (Debian package redis-server).\n"
