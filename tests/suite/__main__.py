"""`make test`: `python -m tests.suite WORKERS [PYTEST'S ARGUMENTS ...]`."""

import sys

from tests.suite.stages import main

sys.exit(main(sys.argv[1], sys.argv[2:]))
