"""What an installation logs that has nothing to do."""

import pytest

from tests.production.installation import Production
from tests.server_process import wait_for

pytestmark = [pytest.mark.production, pytest.mark.timeout(120)]

RUNS = """
    SELECT total_run_count FROM django_celery_beat_periodictask WHERE task = 'dashboard.tasks.take_outbox'
"""
"""It goes each three seconds."""


@pytest.mark.slow("a task that goes each three seconds has to go some times")
def test_what_goes_each_few_seconds_is_not_logged(production: Production) -> None:
    def runs() -> int:
        ((count,),) = production.rows(RUNS)
        return int(count)

    parts = (production.beat, production.worker)
    before = runs()
    known = {part.name: len(part.log) for part in parts}
    wait_for(lambda: runs() >= before + 3, timeout_s=40, what="it has gone three times")
    for part in parts:
        new = part.log[known[part.name] :].splitlines()
        assert len(new) <= 3, "three each time, if all is told"
        assert not any("take_outbox" in line for line in new)
