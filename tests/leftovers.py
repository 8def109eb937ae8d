"""What a test leaves going on: threads that still ask the database, and what waits to be written to it.

PostgreSQL resolves it as a deadlock when a test's tables are emptied meanwhile, and what is written later stands among
the next test's rows.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

from asgiref.sync import SyncToAsync

from dashboard import consumers as pages
from ingest.consumers import decisions
from ingest.services import history_writer

WITHIN_S = 20

POOLS: tuple[tuple[ThreadPoolExecutor, int], ...] = (
    (decisions.READ, decisions.READ_THREADS),
    (decisions.WRITE, 1),
    (pages.READ, pages.READ_THREADS),
    (SyncToAsync.single_thread_executor, 1),
)
"""With as many threads."""


def settle() -> None:
    """Waits until all of it is over. The next test has a history of its own: what this one's remembers is gone."""
    for pool, threads in POOLS:
        _wait_for(pool, threads)
    writer, history_writer._writer = history_writer._writer, None
    if writer is not None:
        assert writer.close(WITHIN_S), "the test's history can't be written"


def _wait_for(pool: ThreadPoolExecutor, threads: int) -> None:
    """Until each of its threads has nothing else to do."""
    together = threading.Barrier(threads + 1)
    for _ in range(threads):
        pool.submit(together.wait, WITHIN_S)
    together.wait(WITHIN_S)
