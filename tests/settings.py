"""The suite's settings: the project's own, in a data folder of this run, whatever the developer's environment says.

pytest's `--ds` (in pyproject.toml) names this module, so it is read before any conftest and before any other setting.
Programs that a test starts get the project's own settings and find the same folder in their environment.
"""

import atexit
import os
import shutil
import tempfile

PARENT = "RTMPWEB_TESTS_DIR"
"""Set by the first process of a run; the folders of its parallel workers are made in its own."""

for name in list(os.environ):
    if name != PARENT and name.startswith(("RTMPWEB_", "SPARK_", "DATABASE_URL", "REDIS_URL")):
        del os.environ[name]

os.environ["RTMPWEB_DATA_DIR"] = tempfile.mkdtemp(prefix="rtmpweb-tests-", dir=os.environ.get(PARENT))
if os.environ.setdefault(PARENT, os.environ["RTMPWEB_DATA_DIR"]) == os.environ["RTMPWEB_DATA_DIR"]:
    atexit.register(shutil.rmtree, os.environ["RTMPWEB_DATA_DIR"], ignore_errors=True)
os.environ["RTMPWEB_REFUSAL_DELAY_S"] = "0"
os.environ["DJANGO_SETTINGS_MODULE"] = "rtmpweb.settings"

from rtmpweb.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # The real one is slow on purpose.
