"""The settings of the production form's processes: the project's own, with signs of life three times as often.

With TESTS_LENGTH=long in the environment everything is as in production (see tests/soak).

With TESTS_SPREAD, Spark's workers do what otherwise would be too little for them. The workers of a cluster have only
the code that is sent to them, and a small lake would never show what is missing.
"""

import os
import pkgutil
from importlib import import_module

from django.apps import AppConfig

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

SPREAD = {"TESTS_SPREAD": "yes"}
"""The environment of a process that must divide all work."""

PLANNED = {("analytics.jobs.computing", "FEW_ROWS")}
"""How Spark's own plans are carried out: compiling them takes long, and is the same on every Spark."""


class Spread(AppConfig):
    """Lowers all bounds (FEW_...) of analytics.jobs, except those of PLANNED, so that nothing is below them."""

    name = "tests.production.settings"
    label = "spread"

    def ready(self) -> None:
        lowered = set()
        for each in pkgutil.iter_modules(import_module("analytics.jobs").__path__, "analytics.jobs."):
            module = import_module(each.name)
            bounds = {(each.name, name) for name in vars(module) if name.startswith("FEW_")} - PLANNED
            for _, name in bounds:
                setattr(module, name, -1)
            lowered |= bounds
        assert ("analytics.jobs.computing", "FEW_BYTES") in lowered


if os.environ.get("TESTS_SPREAD"):
    INSTALLED_APPS = [*real.INSTALLED_APPS, f"{__name__}.Spread"]
