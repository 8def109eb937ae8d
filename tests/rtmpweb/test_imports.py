"""What each kind of process has loaded when it begins its work: what only some need is loaded where it is used."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.background import ROOT

PAGES = {"ninja", "pydantic", "dashboard.api", "dashboard.urls", "ingest.admin"}
HTTP = {"twisted", "daphne", "autobahn", "cryptography"}
"""Twisted loads `cryptography` for its TLS."""
POSTGRESQL = {"psycopg"}
REDIS = {"redis", "cryptography"}
ARROW = {"numpy", "pyarrow"}
NOBODYS = {"numpy", "pandas", "pyarrow", "pyspark", "py4j", "av", "PIL", "reportlab", "duckdb", "httpx", "datasketches"}
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


class Kind(NamedTuple):
    loads: str
    stores: Mapping[str, str]
    uses: set[str]
    """Of what is heavy."""
    most_mib: int
    """Of memory that it shares with no other process."""


SERVE, WEB = (COMMAND.format(app="rtmpweb", name=name) for name in ("serve", "runweb"))
NODE = COMMAND.format(app="ingest", name="runrtmp")
RUN = COMMAND.format(app="analytics", name="analytics") + "import analytics.pipeline\n"
KINDS = {
    "serve": Kind(SERVE, {}, PAGES | HTTP, 110),
    "its worker, with the schedule": Kind(WORKER + BEAT, {}, set(), 74),
    "web": Kind(WEB, STORES, PAGES | HTTP | POSTGRESQL | REDIS, 120),
    "node": Kind(NODE, STORES, POSTGRESQL | REDIS, 75),
    "node that has told what it saw": Kind(NODE + RECORD, STORES, POSTGRESQL | REDIS | ARROW, 135),
    "worker": Kind(WORKER, STORES, POSTGRESQL | REDIS, 80),
    "run of the analytics that finds nothing to do": Kind(RUN, {}, set(), 80),
    "schedule": Kind(BEAT, STORES, POSTGRESQL | REDIS, 80),
}


def start(kind: Kind, folder: Path) -> tuple[set[str], int]:
    known = {name: value for name, value in os.environ.items() if name not in STORES}
    done = subprocess.run(
        [sys.executable, "-c", kind.loads + TELL],
        cwd=ROOT,
        env={**known, **kind.stores, "DJANGO_SETTINGS_MODULE": "rtmpweb.settings", "RTMPWEB_DATA_DIR": str(folder)},
        stdout=subprocess.PIPE,
        check=True,
    )
    modules, mib = json.loads(done.stdout)
    return set(modules), mib


@pytest.mark.skipif(sys.platform != "linux", reason="it is asked of /proc")
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_no_process_loads_what_it_does_not_need(kind: Kind, tmp_path: Path) -> None:
    modules, mib = start(kind, tmp_path)
    assert not HEAVY & modules - kind.uses
    assert mib <= kind.most_mib
