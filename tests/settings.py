"""The suite's settings: the project's own, in a data folder of this run, whatever the developer's environment says.

pytest's `--ds` (in pyproject.toml) names this module, so it is read before any conftest and before any other setting.
Programs that a test starts get the project's own settings and find the same folder in their environment.

TESTS_FORM=production in the environment runs the suite on PostgreSQL and Redis instead of SQLite and memory: the first
process of a run starts one of each, and its parallel workers have a database each in both.
"""

import atexit
import os
import shutil
import tempfile
from importlib import import_module
from pathlib import Path

from tests.production.parts import PostgresServer, RedisServer
from tests.tools import PACKAGES, find_tool

PARENT = "RTMPWEB_TESTS_DIR"
"""Set by the first process of a run; the folders of its parallel workers are made in its own."""

STORES = {"postgres": "TESTS_POSTGRES_URL", "redis": "TESTS_REDIS_URL"}
"""Set by the first process of a run in the production form."""

import_module("redis")  # Before the product, which catches Redis's errors only if the library is loaded.

for name in list(os.environ):
    if name != PARENT and name.startswith(("RTMPWEB_", "SPARK_", "DATABASE_URL", "REDIS_URL")):
        del os.environ[name]


MISSING_STORES = [PACKAGES[tool] for tool in ("postgres", "redis-server") if find_tool(tool) is None]
"""Debian packages without which TESTS_FORM=production can't run: its tests are skipped (tests/database.py)."""


def start_stores(folder: Path) -> None:
    """PostgreSQL and Redis, until the end of this process."""
    postgres, redis = PostgresServer(folder), RedisServer(folder)
    atexit.register(postgres.remove)
    atexit.register(redis.kill)
    postgres.start()
    redis.start()
    os.environ[STORES["postgres"]] = postgres.url
    os.environ[STORES["redis"]] = redis.url.removesuffix("/0")


os.environ["RTMPWEB_DATA_DIR"] = tempfile.mkdtemp(prefix="rtmpweb-tests-", dir=os.environ.get(PARENT))
if os.environ.setdefault(PARENT, os.environ["RTMPWEB_DATA_DIR"]) == os.environ["RTMPWEB_DATA_DIR"]:
    atexit.register(shutil.rmtree, os.environ["RTMPWEB_DATA_DIR"], ignore_errors=True)
    if os.environ.get("TESTS_FORM") == "production" and not MISSING_STORES:
        start_stores(Path(os.environ["RTMPWEB_DATA_DIR"]))
if STORES["postgres"] in os.environ:
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw-1").removeprefix("gw")) + 1  # Redis has 16 databases.
    os.environ["DATABASE_URL"] = os.environ[STORES["postgres"]]  # pytest-django gives each worker a name of its own.
    os.environ["REDIS_URL"] = f"{os.environ[STORES['redis']]}/{number}"
os.environ["RTMPWEB_REFUSAL_DELAY_S"] = "0"
# What tests have Spark do is small: most of the time would go into compiling for speed that nobody needs. That compiler
# alone has little room by default, and stops when it is full. Where an archive of classes is named, though it is not
# there, no process makes one of its own.
os.environ["JDK_JAVA_OPTIONS"] = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:SharedArchiveFile=none -Xlog:disable"
)
os.environ["DJANGO_SETTINGS_MODULE"] = "rtmpweb.settings"

from rtmpweb.settings import *  # noqa: E402, F403

KEY_PEPPER_IS_NEW = False  # Each test's database is new as well: what is in it was made under this pepper.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # The real one is slow on purpose.
