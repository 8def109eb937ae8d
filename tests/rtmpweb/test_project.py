"""What holds for the project as a whole: import rules, what processes load, locked dependencies, documents."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from django.conf import settings

from tests.rtmpweb.processes import PROGRAMS, run

ROOT = Path(settings.BASE_DIR)
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))


def test_the_import_rules_hold() -> None:
    done = run(PROGRAMS / "lint-imports", "--no-cache")
    assert done.returncode == 0, done.stdout + done.stderr


# --- Locked dependencies ---


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_names_no_registry_and_no_folder_and_has_a_hash_of_each_package(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-", text.replace("    --hash", "hash"), re.MULTILINE), "no pip options"
    assert not re.search(r"(?<![\w.])/\w", text), "no folder of the machine that made it"
    packages = [entry for entry in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE) if "==" in entry]
    assert packages
    assert [package.splitlines()[0] for package in packages if "--hash=sha256:" not in package] == []


def test_every_project_dependency_is_in_its_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = project["dependencies"]
    for lock, asked in (("base", base), ("dev", base + project["optional-dependencies"]["dev"])):
        text = (ROOT / "requirements" / f"{lock}.lock").read_text()
        locked = set(re.findall(r"^([a-z0-9.-]+)==", text, re.MULTILINE))
        for requirement in asked:
            name = re.split(r"[^\w.-]", requirement)[0].split("~")[0].lower()
            assert name in locked, f"{name} is not in {lock}.lock: run make lock"


def test_the_front_end_lock_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "package-lock.json").read_text()


# --- Documentation ---


def test_every_setting_is_documented() -> None:
    known = set(re.findall(r'env\.\w+\("([A-Z_]+)"', (ROOT / "rtmpweb" / "settings.py").read_text()))
    described = set(re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE))
    assert known <= described, f"not in docs/operations.md: {known - described}"
    assert described <= known | {"JAVA_HOME"}, f"described, but not read: {described - known}"


def test_links_between_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.relative_to(ROOT)} -> {target}"


def test_the_table_of_protocol_support_names_code_and_tests_that_are_there() -> None:
    text = (ROOT / "docs" / "protocol-support.md").read_text()
    tests = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    for name in set(re.findall(r"\btest_\w+(?!\w|\.py)\b(?!\.py)", text)):
        assert f"def {name}(" in tests, name
    folders = (ROOT, ROOT / "ingest" / "rtmp", ROOT / "tests" / "pure" / "rtmp")
    for path in set(re.findall(r"`([\w/]+(?:\.py|/))(?:::\w+)?`", text)):
        assert any((folder / path).exists() for folder in folders), path
    for state in re.findall(r"^\| [\d.-]+ \| [^|]+ \| ([^|]+) \|", text, re.MULTILINE):
        assert re.match(r"complete|partial: |not yet|not needed: ", state), state


PAGES = {"ninja", "pydantic", "dashboard.api", "dashboard.urls", "ingest.admin"}
HTTP = {"twisted", "daphne", "autobahn", "cryptography"}
"""Twisted loads `cryptography` for its TLS."""
POSTGRESQL = {"psycopg"}
REDIS = {"redis", "cryptography"}
ARROW = {"numpy", "pyarrow"}
NOBODYS = {"numpy", "pandas", "pyarrow", "pyspark", "py4j", "av", "PIL", "reportlab", "duckdb", "httpx", "datasketches"}
NOBODYS |= {"apprise", "requests"}
HEAVY = PAGES | HTTP | POSTGRESQL | REDIS | NOBODYS

STORES = {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "REDIS_URL": "redis://127.0.0.1:1/0"}

COMMAND = """
import sys, django
django.setup()
from django.core.management import load_command_class
command = load_command_class({app!r}, {name!r})
command.check(tags=None if command.requires_system_checks == "__all__" else command.requires_system_checks)
"""
CELERY = """
import rtmpweb, celery.bin.celery, celery.apps.{kind}
rtmpweb.celery_app.loader.init_worker()
rtmpweb.celery_app.finalize()
import rtmpweb.heartbeats
"""
WORKER = CELERY.format(kind="worker") + "import celery.worker.components, celery.worker.consumer, rtmpweb.bootsteps\n"
BEAT = CELERY.format(kind="beat") + "import rtmpweb.schedule\n"
TELL = """
import json, sys
from pathlib import Path
status = Path("/proc/self/status").read_text()
print(json.dumps([sorted(sys.modules), int(status.partition("RssAnon:")[2].split()[0]) // 1024]))
"""


RECORD = """
from ingest.telemetry.lake import SAMPLES
from tests.ingest.telemetry.records import SAMPLE
SAMPLES.batch([SAMPLE])
"""


PACKAGE = """
from ingest.hls import HlsSettings, Packaging
from tests.server.media import AAC_HEADER
packaging = Packaging(HlsSettings(), epoch="00000000", first_msn=1, on_change=lambda _: None)
packaging.begin(0.0, 0.0)
for number in range(500):
    packaging.take("audio", 21 * number, bytes((0xAF, 1)) + bytes(20) if number else AAC_HEADER, 0.021 * number)
assert packaging.is_ready
"""


class Kind(NamedTuple):
    loads: str
    stores: Mapping[str, str]
    uses: set[str]
    """Of what is heavy."""
    most_mib: int
    """Of memory that it shares with no other process."""


SERVE, WEB = (COMMAND.format(app="rtmpweb", name=name) for name in ("serve", "runweb"))
SERVE += "import rtmpweb.asgi, rtmpweb.embedded.server\n"  # Once it is the process that stays.
NODE = COMMAND.format(app="ingest", name="runrtmp")
PACKAGER = COMMAND.format(app="ingest", name="runhls")
RUN = COMMAND.format(app="analytics", name="analytics") + "import analytics.pipeline\n"
KINDS = {
    "serve": Kind(SERVE, {}, PAGES | HTTP, 110),
    "its worker, with the schedule": Kind(WORKER + BEAT, {}, set(), 74),
    "its packager": Kind(PACKAGER, {}, set(), 71),
    "web": Kind(WEB, STORES, PAGES | HTTP | POSTGRESQL | REDIS, 120),
    "node": Kind(NODE, STORES, POSTGRESQL | REDIS, 75),
    "node that has told what it saw": Kind(NODE + RECORD, STORES, POSTGRESQL | REDIS | ARROW, 135),
    "packager": Kind(PACKAGER, STORES, POSTGRESQL | REDIS, 76),
    "packager that has packaged": Kind(PACKAGER + PACKAGE, STORES, POSTGRESQL | REDIS | {"av"}, 90),
    "worker": Kind(WORKER, STORES, POSTGRESQL | REDIS, 80),
    "run of the analytics that finds nothing to do": Kind(RUN, {}, set(), 80),
    "schedule": Kind(BEAT, STORES, POSTGRESQL | REDIS, 80),
}


def start(kind: Kind, folder: Path) -> tuple[set[str], int]:
    known = {name: value for name, value in os.environ.items() if name not in STORES}
    own = {"DJANGO_SETTINGS_MODULE": "rtmpweb.settings", "RTMPWEB_DATA_DIR": str(folder)}
    done = run(sys.executable, "-c", kind.loads + TELL, only={**known, **kind.stores, **own})
    assert done.returncode == 0, done.stderr
    modules, mib = json.loads(done.stdout)
    return set(modules), mib


@pytest.mark.skipif(sys.platform != "linux", reason="it is asked of /proc")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=name, marks=() if name in ("web", "node") else pytest.mark.matrix)
        for name, kind in KINDS.items()
    ],
)
def test_no_process_loads_what_it_does_not_need(kind: Kind, tmp_path: Path) -> None:
    modules, mib = start(kind, tmp_path)
    assert not HEAVY & modules - kind.uses
    assert mib <= kind.most_mib
