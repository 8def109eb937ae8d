"""The verbs of `manage.py analytics`, as analytics.verbs.verb describes one."""

from analytics.verbs.check import HELP as CHECK_HELP
from analytics.verbs.check import add_arguments as add_check_arguments
from analytics.verbs.check import perform as perform_check
from analytics.verbs.compact import HELP as COMPACT_HELP
from analytics.verbs.compact import add_arguments as add_compact_arguments
from analytics.verbs.compact import perform as perform_compact
from analytics.verbs.generate import HELP as GENERATE_HELP
from analytics.verbs.generate import add_arguments as add_generate_arguments
from analytics.verbs.generate import perform as perform_generate
from analytics.verbs.recompute import HELP as RECOMPUTE_HELP
from analytics.verbs.recompute import add_arguments as add_recompute_arguments
from analytics.verbs.recompute import perform as perform_recompute
from analytics.verbs.retry import HELP as RETRY_HELP
from analytics.verbs.retry import add_arguments as add_retry_arguments
from analytics.verbs.retry import perform as perform_retry
from analytics.verbs.run import HELP as RUN_HELP
from analytics.verbs.run import add_arguments as add_run_arguments
from analytics.verbs.run import perform as perform_run
from analytics.verbs.verb import Verb

VERBS = {
    "run": Verb(RUN_HELP, add_run_arguments, perform_run),
    "retry": Verb(RETRY_HELP, add_retry_arguments, perform_retry),
    "recompute": Verb(RECOMPUTE_HELP, add_recompute_arguments, perform_recompute),
    "check": Verb(CHECK_HELP, add_check_arguments, perform_check),
    "compact": Verb(COMPACT_HELP, add_compact_arguments, perform_compact),
    "generate": Verb(GENERATE_HELP, add_generate_arguments, perform_generate),
}
