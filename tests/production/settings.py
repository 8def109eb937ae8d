"""The settings of the production form's processes: the project's own, but signs of life come and are missed sooner.

With TESTS_LENGTH=long in the environment all is as in production: see tests/soak. With TESTS_SPREAD Spark's workers do
what otherwise would be too little for them: see tests.production.spread.
"""

import os

from rtmpweb import settings as real
from rtmpweb.settings import *  # noqa: F403

LONG = os.environ.get("TESTS_LENGTH") == "long"

FASTER = 1 if LONG else 3
PROCESS_BEAT_S = real.PROCESS_BEAT_S / FASTER
PROCESS_LATE_S = real.PROCESS_LATE_S / FASTER
STARTING_S = real.STARTING_S / FASTER
HEARING_S = real.HEARING_S / FASTER
RUN_BEAT_S = real.RUN_BEAT_S / FASTER
RUN_LOST_S = real.RUN_LOST_S / FASTER
RUN_RESENT_S = real.RUN_RESENT_S / FASTER

if os.environ.get("TESTS_SPREAD"):
    INSTALLED_APPS = [*real.INSTALLED_APPS, "tests.production.spread.Spread"]
