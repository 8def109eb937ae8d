"""Little work is divided as much is: what the jobs do in their own process, as it is little, Spark's Python workers do.

Those of a cluster have none of our code but what is sent to them, and a small lake would never show what is missing.
The form's settings add this app to a process that has SPREAD in its environment (tests.production.settings). It
lowers all bounds of analytics.jobs that are called FEW_..., except those of PLANNED.
"""

import pkgutil
from importlib import import_module

from django.apps import AppConfig

SPREAD = {"TESTS_SPREAD": "yes"}
"""In the environment of a process that is to divide all."""

PLANNED = {("analytics.jobs.computing", "FEW_ROWS")}
"""How Spark's own plans are carried out: to compile them takes long, and is the same on every Spark."""


class Spread(AppConfig):
    name = "tests.production.spread"
    label = "spread"

    def ready(self) -> None:
        assert ("analytics.jobs.computing", "FEW_BYTES") in lowered()


def lowered() -> list[tuple[str, str]]:
    """The bounds (module, name), which nothing is below from now on."""
    found = []
    for each in pkgutil.iter_modules(import_module("analytics.jobs").__path__, "analytics.jobs."):
        module = import_module(each.name)
        own = [name for name in vars(module) if name.startswith("FEW_") and (each.name, name) not in PLANNED]
        for name in own:
            setattr(module, name, -1)
            found.append((each.name, name))
    return found
