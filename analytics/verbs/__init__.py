"""The verbs of `manage.py analytics`: a module for each, as analytics.verbs.verb describes it."""

from analytics.verbs import check, compact, generate, recompute, retry, run
from analytics.verbs.verb import Verb

VERBS: dict[str, Verb] = {
    "run": run,
    "retry": retry,
    "recompute": recompute,
    "check": check,
    "compact": compact,
    "generate": generate,
}
