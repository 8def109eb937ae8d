"""Works that run at the same moment, each on a connection of its own."""

import threading
from collections.abc import Callable

from django.db import connections


class Work(threading.Thread):
    """`finish` raises what it raised."""

    def __init__(self, work: Callable[[], object], begins: threading.Barrier | None = None) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._begins = begins
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            if self._begins is not None:
                self._begins.wait(5)
            self._work()
        except BaseException as error:
            self._error = error
        finally:
            connections.close_all()

    def finish(self) -> None:
        self.join(20)
        assert not self.is_alive(), "it hangs"
        if self._error is not None:
            raise self._error


def at_once(*works: Callable[[], object]) -> None:
    begins = threading.Barrier(len(works))
    running = [Work(work, begins) for work in works]
    for each in running:
        each.finish()
